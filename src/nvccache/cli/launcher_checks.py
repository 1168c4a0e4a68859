"""What `nvccache doctor` sees of how calls come to nvccache: shim, PATH, settings, CMake's cache."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping

from nvccache import config, log, real_nvcc
from nvccache.cli.config import is_toml
from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.install import adding, launcher
from nvccache.cli.settings import changing
from nvccache.config import Config
from nvccache.settings_file import Problem
from nvccache.toolkit import discovery

_LINE = re.compile(r"` line (\d+)$")
OTHER_CACHES = ("ccache", "sccache")
_FILE = "CMakeCache.txt"
_LARGEST = 1 << 24  # bytes
_ENTRY = re.compile(r"^([A-Za-z0-9_.+-]+):[A-Z]+=(.*)$", re.MULTILINE)
_CUDA, _HOST = "CMAKE_CUDA_COMPILER_LAUNCHER", ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def of_settings(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the user has set and nvccache does not understand, and a cache that is named twice."""
    for problem, text in zip(settings.problems, log.sentences(settings), strict=True):
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
    if problem.setting in config.SETTINGS and is_toml(config.config_file(os.environ)):
        return f"nvccache config unset {problem.setting}"
    return f'sed -i.bak {line[1]}d "$(nvccache config path)"'


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
    text = f"`{shim}` is nvccache, and has no nvcc to run: {why}"
    if found or settings.origins["nvcc"] == "NVCCACHE_NVCC":
        return Finding(
            BAD, "shim", text, (), (changing(settings, "nvcc", shlex.quote(found) if found else ""),)
        )
    return Finding(BAD, "shim", text, (f"`{adding('toolkit')}` brings an nvcc, if there is none",))


def _programs(name: str, environ: Mapping[str, str]) -> list[str]:
    folders = [folder for folder in environ.get("PATH", os.defpath).split(":") if folder]
    paths = [os.path.join(folder, name) for folder in folders]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]


def of_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The variables by which CMake is given launchers."""
    for variable in _HOST:
        if names_nvccache(environ.get(variable, "")):
            yield for_host_code(f"`{variable}` names nvccache", f"unset {variable}")
    value = environ.get(_CUDA, "")
    others = other_caches_in(value)
    if others and names_nvccache(value):
        yield two_caches(f"`{_CUDA}` is `{value}`", others[0], f"export {_CUDA}=nvccache")


def for_host_code(what: str, mend: str) -> Finding:
    detail = "it caches nvcc's calls only, and hands others on; for host code there are ccache and sccache"
    return Finding(ODD, "launcher", f"{what} for host code, which it does not cache", (detail,), (mend,))


def two_caches(what: str, other: str, mend: str) -> Finding:
    details = (f"nvccache caches no call that it does not start itself: behind it {other} is no nvcc",)
    text = f"{what}, so that {other} and nvccache share one compile"
    return Finding(ODD, "two caches", text, details, (mend,))


def names_nvccache(value: str) -> bool:
    return any(os.path.basename(word) in real_nvcc.OWN_NAMES for word in value.split(";"))


def other_caches_in(value: str) -> list[str]:
    return [name for word in value.split(";") if (name := os.path.basename(word)) in OTHER_CACHES]


def of_build(directory: str) -> Iterator[Finding]:
    path = os.path.join(directory, _FILE)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "it is no regular file")  # a FIFO would wait for a writer
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            entries = dict(_ENTRY.findall(stream.read(_LARGEST)))
    except OSError as error:
        text = f"`{directory}` has no `{_FILE}` that can be read: {error.strerror}"
        yield Finding(BAD, "build", text, ("only build directories of CMake can be looked at",))
        return
    quoted = shlex.quote(directory)
    for name in _HOST:
        if names_nvccache(entries.get(name, "")):
            yield for_host_code(f"`{name}` of `{directory}` names nvccache", f"cmake -U {name} {quoted}")
    if "CMAKE_CUDA_COMPILER" not in entries:
        yield Finding(ODD, "build", f"`{directory}` compiles no CUDA: nvccache has nothing to do there")
        return
    yield from _of_cuda(directory, entries)


def _of_cuda(directory: str, entries: dict[str, str]) -> Iterator[Finding]:
    compiler, value = entries["CMAKE_CUDA_COMPILER"], entries.get(_CUDA, "")
    mend = f"cmake -D{_CUDA}={shlex.quote(launcher() or 'nvccache')} {shlex.quote(directory)}"
    if not os.path.isfile(compiler):
        text = f"`CMAKE_CUDA_COMPILER` of `{directory}` is `{compiler}`, which is not there"
        yield Finding(BAD, "build", text, (), (f"rm {shlex.quote(os.path.join(directory, _FILE))}",))
        return
    is_shim = real_nvcc.is_ours(compiler)
    others = other_caches_in(value)
    missing = [word for word in value.split(";")[:1] if word and not shutil.which(word)]
    if missing:
        text = f"`{_CUDA}` of `{directory}` is `{missing[0]}`, which is not there: builds fail"
        yield Finding(BAD, "build", text, (), (mend,))
    elif others and (is_shim or names_nvccache(value)):
        yield two_caches(f"`{_CUDA}` of `{directory}` is `{value}`", others[0], mend)
    elif names_nvccache(value) or is_shim:
        how = f"`{_CUDA}`" if not is_shim else f"`{compiler}`, which is nvccache"
        yield Finding(GOOD, "build", f"`{directory}` compiles CUDA through the cache, by {how}")
    else:
        yield Finding(ODD, "build", f"`{directory}` compiles CUDA without nvccache", (), (mend,))
