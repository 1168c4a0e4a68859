"""`nvccache doctor`: checks all that a compile needs, compiles with and without the cache, reports problems.

This module checks how calls reach nvccache: settings, PATH, and launchers in variables and in CMake.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from nvccache import config, hints, log, outcomes, real_nvcc, settings_file
from nvccache.cli import cache_checks, file_checks, nvcc_checks, remote_checks
from nvccache.cli.install import adding, counted, launcher, private_launcher
from nvccache.cli.output import BAD, GOOD, ODD, Finding, bar, json_option, say_json, show_finding
from nvccache.cli.settings import changing
from nvccache.cli.units import format_seconds
from nvccache.config import PREFIX, Config
from nvccache.settings_file import Problem
from nvccache.toolkit import discovery

_SETTLED = 0.2  # seconds until a file is old enough to be recorded
_LINE = re.compile(r"` line (\d+)$")
_NAME = re.compile(r"\w+", re.ASCII)
OTHER_CACHES = ("ccache", "sccache")
_FILE = "CMakeCache.txt"
_LARGEST = 1 << 24  # bytes
_ENTRY = re.compile(r"^([A-Za-z0-9_.+-]+):[A-Z]+=(.*)$", re.MULTILINE)
_CUDA, _HOST = "CMAKE_CUDA_COMPILER_LAUNCHER", ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


@click.command(epilog="Example: nvccache doctor build")
@click.argument("build_directory", metavar="[BUILD_DIRECTORY]", required=False, default="")
@click.option("--check-files", is_flag=True, help="Also check every file of the cache for damage.")
@json_option
def doctor(build_directory: str, check_files: bool, as_json: bool) -> None:
    """Find what is wrong, and show the commands that fix it.

    Checks nvcc, the host compiler, the settings and the cache directory, and compiles a sample with and
    without the cache. With a CMake build directory, it also checks the compiler launchers of that build.
    Exits with status 1 if something is bad.
    """
    environ = dict(os.environ)
    settings = config.load(environ)
    found = []
    for finding in _all(settings, environ, build_directory, check_files):
        found.append(finding)
        if not as_json:
            show_finding(finding)
    is_bad = any(finding.state == BAD for finding in found)
    if as_json:
        say_json({"findings": [asdict(finding) for finding in found], "is_bad": is_bad})
    if is_bad:
        sys.exit(1)


def _all(
    settings: Config, environ: dict[str, str], build_directory: str, checks_files: bool
) -> Iterator[Finding]:
    yield from of_settings(settings, environ)
    yield from nvcc_checks.of_launcher()
    yield from nvcc_checks.of_nvcc(settings, environ)
    yield from of_path(settings, environ)
    yield from of_variables(environ)
    if build_directory:
        yield from of_build(os.path.abspath(build_directory))
    yield from cache_checks.of_cache(settings)
    if checks_files and settings.dir:
        yield from file_checks.of_files(settings)
    yield from remote_checks.of_remotes(settings)
    if settings.executor:
        yield from remote_checks.of_executor(settings)
    yield from nvcc_checks.of_observer(settings)
    yield from nvcc_checks.of_machine(settings)
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if nvcc:
        yield from nvcc_checks.of_parts(nvcc, environ)
        yield from _compiles(nvcc, environ)


def _compiles(nvcc: str, environ: dict[str, str]) -> Iterator[Finding]:
    """Compile with nvcc, then twice through a new cache, and compare."""
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        # The user's settings, including those in the file, could change what the cache does.
        environ = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
        environ |= {"NVCCACHE_DIR": f"{folder}/cache", "NVCCACHE_STRICT": "1", "XDG_CONFIG_HOME": folder}
        with open(f"{folder}/probe.cu", "w", encoding="utf-8") as stream:
            stream.write(nvcc_checks.SOURCE)
        os.mkdir(f"{folder}/keep")
        plain = [nvcc, "-c", "probe.cu", "-o", "plain.o", "-keep", "-keep-dir", "keep"]
        seconds, output = _run(plain, folder, environ)
        if output is not None:
            yield Finding(BAD, "plain nvcc", "cannot compile:", tuple(output.splitlines()))
            return
        yield Finding(GOOD, "plain nvcc", f"compiles in {format_seconds(seconds)}")
        time.sleep(_SETTLED)
        cached = [*private_launcher(), nvcc, "-c", "probe.cu", "-o", "probe.o"]
        for title, wanted in (("nvccache", outcomes.MISS), ("and again", outcomes.DIRECT_HIT)):
            seconds, output = _run(cached, folder, environ)
            if output is not None:
                yield Finding(BAD, title, "cannot compile:", tuple(output.splitlines()))
                return
            yield _verdict(title, wanted, seconds, folder, counted(environ))


def _verdict(title: str, wanted: str, seconds: float, folder: str, counts: dict[str, Any]) -> Finding:
    with open(f"{folder}/plain.o", "rb") as plain, open(f"{folder}/probe.o", "rb") as ours:
        if plain.read() != ours.read():
            return Finding(BAD, title, "its object differs from nvcc's: please report this")
    outcome = next((name for name, count in counts["calls"].items() if count), "nothing")
    reasons = ", ".join(counts["bypass_reasons"])
    text = f"{outcome}{f' ({reasons})' if reasons else ''} in {format_seconds(seconds)}, the object is nvcc's"
    text += " (in a temporary cache)" if wanted == outcomes.MISS else ""
    return Finding(GOOD if outcome == wanted else ODD, title, text)


def _run(command: list[str], folder: str, environ: dict[str, str]) -> tuple[float, str | None]:
    """The seconds it took, and what it printed if it failed."""
    started = time.monotonic()
    with bar("compiling a small program", is_long=True):
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
    seconds = time.monotonic() - started
    output = (done.stderr + done.stdout).decode(errors="replace").strip()
    return seconds, (output or f"status {done.returncode}") if done.returncode else None


def of_settings(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Wrong settings, and two settings that name different caches."""
    path = config.config_file(environ)
    taken = {*environ, *settings_file.read(path, config.SETTINGS)[0]}
    for problem, text in zip(settings.problems, log.sentences(settings), strict=True):
        if problem.setting == "remote":  # without it, nothing would be shared
            yield Finding(BAD, "settings", text, (f"to fix it: correct the URL in {problem.where}",))
            continue
        yield Finding(BAD, "settings", text, (), (_fix_for(problem, taken),))
    try:
        if settings.log:
            os.close(log.opened(settings.log))
    except OSError as error:
        text = f"nothing can be written to the log `{settings.log}`: {error.strerror}"
        yield Finding(BAD, "log", text, (), (changing(settings, "log"),))
    if settings.origins["dir"] == "NVCCACHE_DIR" and path:
        of_file = config.load({name: value for name, value in environ.items() if name != "NVCCACHE_DIR"})
        if of_file.origins["dir"] == config.FILE and of_file.dir != settings.dir:
            text = f"two caches: `NVCCACHE_DIR` is `{settings.dir}`, and `{path}` has `{of_file.dir}`"
            detail = "calls without the variable, as from an editor or a service, use the other one"
            named = f"nvccache config dir {shlex.quote(settings.dir)}"
            yield Finding(ODD, "settings", text, (detail,), (named, "unset NVCCACHE_DIR"))


def _fix_for(problem: Problem, taken: set[str]) -> str:
    """The command that renames a misspelled setting, or takes a wrong one out of force.

    No line of the file moves, so that the commands for several problems work in any order.
    """
    new = hints.new_name(problem.word)
    is_renamed = bool(new) and new not in taken and bool(_NAME.fullmatch(problem.word))
    taken.add(new)
    if problem.where.startswith("`NVCCACHE_"):
        removal = f"unset {shlex.quote(problem.where.strip('`'))}"
        return f'export {new}="${problem.word}"; {removal}' if is_renamed else removal
    file = shlex.quote(config.config_file(os.environ))
    line = _LINE.search(problem.where)
    if not line:
        return f'"${{EDITOR:-vi}}" {file}'
    edit = f"s/{problem.word}/{new}/" if is_renamed else "s/^/# /"
    return f"sed -i '{line[1]}{edit}' {file}"


def of_path(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which program `nvcc` is, and which compiler a shim would run."""
    programs = _programs("nvcc", environ)
    shims = [path for path in programs if real_nvcc.is_ours(path)]
    if not shims:
        text = "`nvcc` is the real one: call `nvccache nvcc`, or see `nvccache install`"
        yield Finding(GOOD, "on PATH", text)
    elif programs[0] != shims[0]:
        text = f"`{programs[0]}` comes before nvccache's `{shims[0]}`: calls of `nvcc` are not cached"
        first = shlex.quote(os.path.dirname(shims[0]))
        yield Finding(ODD, "on PATH", text, (), (f'export PATH={first}:"$PATH"',))
    else:
        yield Finding(GOOD, "on PATH", f"`nvcc` is nvccache: `{shims[0]}`")
    if shims and not real_nvcc.find("", settings.nvcc, environ):
        yield _nothing_behind(shims[0], settings, environ)
    for path in programs[:1]:
        other = os.path.basename(os.path.realpath(path))
        if other in OTHER_CACHES:
            text = f"`{path}` is {other}: with nvccache as a launcher, two caches would share one compile"
            yield Finding(
                ODD, "on PATH", text, ("remove its directory from PATH, or use only one of the two",)
            )


def _nothing_behind(shim: str, settings: Config, environ: Mapping[str, str]) -> Finding:
    why = real_nvcc.why_none("", settings.nvcc, settings.origins["nvcc"], environ)[1]
    found = discovery.find_nvcc(environ)
    text = f"`{shim}` is nvccache, but there is no nvcc for it to run: {why}"
    if found or settings.origins["nvcc"] == "NVCCACHE_NVCC":
        return Finding(
            BAD, "shim", text, (), (changing(settings, "nvcc", shlex.quote(found) if found else ""),)
        )
    return Finding(BAD, "shim", text, (f"`{adding('toolkit')}` installs an nvcc",))


def _programs(name: str, environ: Mapping[str, str]) -> list[str]:
    folders = [folder for folder in environ.get("PATH", os.defpath).split(":") if folder]
    paths = [os.path.join(folder, name) for folder in folders]
    return [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]


def of_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The environment variables from which CMake takes its launchers."""
    for variable in _HOST:
        if names_nvccache(environ.get(variable, "")):
            yield for_host_code(f"`{variable}` names nvccache", f"unset {variable}")
    value = environ.get(_CUDA, "")
    others = other_caches_in(value)
    if others and names_nvccache(value):
        yield two_caches(f"`{_CUDA}` is `{value}`", others[0], f"export {_CUDA}=nvccache")


def for_host_code(what: str, mend: str) -> Finding:
    detail = "nvccache caches only nvcc and passes other calls on; for host code, use ccache or sccache"
    return Finding(ODD, "launcher", f"{what} for host code, which it does not cache", (detail,), (mend,))


def two_caches(what: str, other: str, mend: str) -> Finding:
    details = (f"nvccache caches only an nvcc that it starts itself, and {other} is none",)
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
            raise OSError(0, "it is not a regular file")  # a FIFO would wait for a writer
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            entries = dict(_ENTRY.findall(stream.read(_LARGEST)))
    except OSError as error:
        text = f"`{directory}` has no `{_FILE}` that can be read: {error.strerror}"
        yield Finding(BAD, "build", text, ("only CMake build directories can be checked",))
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
        text = f"`CMAKE_CUDA_COMPILER` of `{directory}` is `{compiler}`, which does not exist"
        yield Finding(BAD, "build", text, (), (f"rm {shlex.quote(os.path.join(directory, _FILE))}",))
        return
    is_shim = real_nvcc.is_ours(compiler)
    others = other_caches_in(value)
    missing = [word for word in value.split(";")[:1] if word and not shutil.which(word)]
    if missing:
        text = f"`{_CUDA}` of `{directory}` is `{missing[0]}`, which does not exist: builds fail"
        yield Finding(BAD, "build", text, (), (mend,))
    elif others and (is_shim or names_nvccache(value)):
        yield two_caches(f"`{_CUDA}` of `{directory}` is `{value}`", others[0], mend)
    elif names_nvccache(value) or is_shim:
        how = f"`{_CUDA}`" if not is_shim else f"`{compiler}`, which is nvccache"
        yield Finding(GOOD, "build", f"`{directory}` compiles CUDA through the cache, by {how}")
    else:
        yield Finding(ODD, "build", f"`{directory}` compiles CUDA without nvccache", (), (mend,))
