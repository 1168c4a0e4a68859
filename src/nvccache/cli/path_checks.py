"""What `nvccache doctor` sees of how calls come to nvccache: the shim, PATH, settings and variables."""

from __future__ import annotations

import os
import re
import shlex

from nvccache import config, real_nvcc, wrong_settings
from nvccache.cli import adding, settings_editor
from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.toolkit import discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvccache.config import Config
    from nvccache.settings_file import Problem

_LINE = re.compile(r"` line (\d+)$")
OTHER_CACHES = ("ccache", "sccache")


def of_settings(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the user has set and nvccache does not understand, and a cache that is named twice."""
    for problem, text in zip(settings.problems, wrong_settings.sentences(settings), strict=True):
        yield Finding(BAD, "settings", text, (), (_mend(problem),))
    path = config.config_file(environ)
    if settings.origins["dir"] == "NVCCACHE_DIR" and path:
        of_file = config.load({name: value for name, value in environ.items() if name != "NVCCACHE_DIR"})
        if of_file.origins["dir"] == config.FILE and of_file.dir != settings.dir:
            text = f"two caches: `NVCCACHE_DIR` is `{settings.dir}`, and `{path}` says `{of_file.dir}`"
            detail = "calls without the variable, of an editor or of a service, use the other one"
            named = f"nvccache config set dir {shlex.quote(settings.dir)}"
            yield Finding(ODD, "settings", text, (detail,), (named, "unset NVCCACHE_DIR"))


def _mend(problem: Problem) -> str:
    if problem.where.startswith("`NVCCACHE_"):
        return f"unset {shlex.quote(problem.where.strip('`'))}"
    line = _LINE.search(problem.where)
    if not line:
        return '"${EDITOR:-vi}" "$(nvccache config path)"'
    if problem.setting in config.SETTINGS and _is_toml():
        return f"nvccache config unset {problem.setting}"
    return f'sed -i.bak {line[1]}d "$(nvccache config path)"'


def _is_toml() -> bool:
    """Whether the settings file can be changed by a command."""
    return settings_editor.is_toml(config.config_file(os.environ))


def of_path(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which program the name `nvcc` is, and what a shim finds behind itself."""
    programs = _programs("nvcc", environ)
    shims = [path for path in programs if real_nvcc.is_ours(path)]
    if not shims:
        text = "`nvcc` is not nvccache: it is used as a launcher, or see `nvccache install`"
        yield Finding(GOOD, "on PATH", text)
    elif programs[0] != shims[0]:
        text = (
            f"`{shims[0]}` is nvccache, and `{programs[0]}` comes before it: calls of `nvcc` are not cached"
        )
        first = shlex.quote(os.path.dirname(shims[0]))
        yield Finding(ODD, "on PATH", text, (), (f'export PATH={first}:"$PATH"',))
    else:
        yield Finding(GOOD, "on PATH", f"`nvcc` is nvccache: `{shims[0]}`")
    if shims and not real_nvcc.find("", settings.nvcc, environ):
        yield _nothing_behind(shims[0], settings, environ)
    for path in programs[:1]:
        other = os.path.basename(os.path.realpath(path))
        if other in OTHER_CACHES:
            text = f"`{path}` is {other}: as a launcher too, nvccache would be a second cache of one compile"
            yield Finding(ODD, "on PATH", text, ("take its directory out of PATH, or use one of the two",))


def _nothing_behind(shim: str, settings: Config, environ: Mapping[str, str]) -> Finding:
    why = real_nvcc.why_none("", settings.nvcc, settings.origins["nvcc"], environ)[1]
    found = discovery.find_nvcc(environ)
    mend = [f"nvccache config set nvcc {shlex.quote(found)}"] if found else []
    if settings.origins["nvcc"] == "NVCCACHE_NVCC":
        mend = [f"export NVCCACHE_NVCC={shlex.quote(found)}"] if found else ["unset NVCCACHE_NVCC"]
    detail = "" if mend else f"`{adding.command('toolkit')}` brings an nvcc, if there is none"
    text = f"`{shim}` is nvccache, and has no nvcc to run: {why}"
    return Finding(BAD, "shim", text, (detail,) if detail else (), tuple(mend))


def _programs(name: str, environ: Mapping[str, str]) -> list[str]:
    folders = [folder for folder in environ.get("PATH", os.defpath).split(":") if folder]
    paths = [os.path.join(folder, name) for folder in folders]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]


def of_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The variables by which CMake is given launchers."""
    for variable in ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"):
        if names_nvccache(environ.get(variable, "")):
            yield for_host_code(f"`{variable}` names nvccache", f"unset {variable}")
    value = environ.get("CMAKE_CUDA_COMPILER_LAUNCHER", "")
    others = other_caches_in(value)
    if others and names_nvccache(value):
        text = f"`CMAKE_CUDA_COMPILER_LAUNCHER` is `{value}`"
        yield two_caches(text, others[0], "export CMAKE_CUDA_COMPILER_LAUNCHER=nvccache")


def for_host_code(what: str, mend: str) -> Finding:
    detail = (
        "it caches nvcc's calls only, and hands all others on; for host code there are ccache and sccache"
    )
    return Finding(ODD, "launcher", f"{what} for host code, which it does not cache", (detail,), (mend,))


def two_caches(what: str, other: str, mend: str) -> Finding:
    details = (f"nvccache caches no call that it does not start itself: behind it {other} is no nvcc",)
    return Finding(
        ODD, "two caches", f"{what}, so that {other} and nvccache share one compile", details, (mend,)
    )


def names_nvccache(value: str) -> bool:
    return any(os.path.basename(word) in real_nvcc.OWN_NAMES for word in value.split(";"))


def other_caches_in(value: str) -> list[str]:
    return [name for word in value.split(";") if (name := os.path.basename(word)) in OTHER_CACHES]
