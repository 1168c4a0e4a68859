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

from nvccache import config, log, outcomes, real_nvcc, settings_file
from nvccache.cli import cache_checks, file_checks, nvcc_checks, remote_checks
from nvccache.cli.install import counted, launcher, private_launcher
from nvccache.cli.output import BAD, GOOD, ODD, Finding, bar, json_option, say_json, show_finding
from nvccache.cli.settings import changing
from nvccache.cli.units import format_seconds
from nvccache.config import PREFIX, Config
from nvccache.toolkit import discovery

_SETTLED = 0.2  # seconds until a file is old enough to be recorded
OTHER_CACHES = ("ccache", "sccache")
_LARGEST = 1 << 24  # bytes
_ENTRY = re.compile(r"^([A-Za-z0-9_.+-]+):[A-Z]+=(.*)$", re.MULTILINE)
_OF_CHECKOUTS = (".git", ".hg", ".svn", "CMakeLists.txt")
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
    yield from nvcc_checks.of_installation(settings)
    yield from nvcc_checks.of_nvcc(settings, environ)
    yield from of_path(settings, environ)
    yield from of_launchers("the environment", environ)
    if build_directory:
        yield from of_build(os.path.abspath(build_directory))
    yield from cache_checks.of_cache(settings)
    if checks_files and settings.dir:
        yield from file_checks.of_files(settings)
    yield from remote_checks.of_remotes(settings)
    yield from remote_checks.of_executor(settings)
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if nvcc:
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
    """Wrong settings, those that went, and a base directory with which no call is shared."""
    for problem, text in zip(settings.problems, log.sentences(settings), strict=True):
        is_variable = problem.where.startswith("`NVCCACHE_")
        mend = (f"unset {shlex.quote(problem.where.strip('`'))}",) if is_variable else ()
        if problem.setting == "remote":  # without it, nothing would be shared
            mend = ()
        details = () if mend else (f"to fix it: correct {problem.where}",)
        was_removed = bool(settings_file.instead_of(problem.word))
        yield Finding(ODD if was_removed else BAD, "settings", text, details, mend)
    try:
        if settings.log:
            os.close(log.opened(settings.log))
    except OSError as error:
        text = f"nothing can be written to the log `{settings.log}`: {error.strerror}"
        yield Finding(BAD, "log", text, (), (changing(settings, "log"),))
    yield from _of_base_dir(settings.base_dir)


def _of_base_dir(base: str) -> Iterator[Finding]:
    if not base:
        return
    real = os.path.realpath(base)
    if real != base:
        text = f"`base_dir` is `{base}`, which leads through a link to `{real}`: name that one"
        yield Finding(ODD, "settings", text)
    if any(os.path.exists(os.path.join(real, name)) for name in _OF_CHECKOUTS):
        text = f"`base_dir` is a checkout, `{base}`: other checkouts share nothing with it"
        details = (f"name the directory above all checkouts, `{os.path.dirname(real)}`",)
        yield Finding(ODD, "settings", text, details)


def of_path(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which program `nvcc` is, and whether a shim finds a compiler."""
    folders = [folder for folder in environ.get("PATH", os.defpath).split(":") if folder]
    programs = [path for folder in folders if real_nvcc.is_program(path := os.path.join(folder, "nvcc"))]
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
        why = real_nvcc.why_none("", settings.nvcc, settings.origins["nvcc"], environ)[1]
        yield Finding(BAD, "shim", f"`{shims[0]}` is nvccache, but there is no nvcc for it to run: {why}")
    if programs and os.path.basename(os.path.realpath(programs[0])) in OTHER_CACHES:
        yield Finding(ODD, "on PATH", f"`{programs[0]}` is another cache: use only one of the two")


def of_launchers(where: str, entries: Mapping[str, str]) -> Iterator[Finding]:
    """CMake's launchers, in the environment or in a build."""
    for name in _HOST:
        if _names_nvccache(entries.get(name, "")):
            text = f"`{name}` of {where} names nvccache for host code, which it does not cache"
            yield Finding(ODD, "launcher", text, ("for host code, use ccache or sccache",))
    value = entries.get(_CUDA, "")
    others = [word for word in value.split(";") if os.path.basename(word) in OTHER_CACHES]
    if others and _names_nvccache(value):
        text = f"`{_CUDA}` of {where} is `{value}`, so that two caches share one compile"
        mend = f"-D{_CUDA}={shlex.quote(launcher() or 'nvccache')}"
        yield Finding(ODD, "two caches", text, (f"set it to nvccache alone: `{mend}`",))


def _names_nvccache(value: str) -> bool:
    return any(os.path.basename(word) in real_nvcc.OWN_NAMES for word in value.split(";"))


def of_build(directory: str) -> Iterator[Finding]:
    """Whether a CMake build directory compiles CUDA through the cache."""
    path = os.path.join(directory, "CMakeCache.txt")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "it is not a regular file")  # a FIFO would wait for a writer
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            entries = dict(_ENTRY.findall(stream.read(_LARGEST)))
    except OSError as error:
        text = f"`{directory}` has no `CMakeCache.txt` that can be read: {error.strerror}"
        yield Finding(BAD, "build", text, ("only CMake build directories can be checked",))
        return
    yield from of_launchers(f"`{directory}`", entries)
    compiler, value = entries.get("CMAKE_CUDA_COMPILER", ""), entries.get(_CUDA, "")
    first = value.split(";")[0]
    mend = f"cmake -D{_CUDA}={shlex.quote(launcher() or 'nvccache')} {shlex.quote(directory)}"
    if not compiler:
        yield Finding(ODD, "build", f"`{directory}` compiles no CUDA: nvccache has nothing to do there")
    elif not os.path.isfile(compiler):
        text = f"`CMAKE_CUDA_COMPILER` of `{directory}` is `{compiler}`, which does not exist"
        yield Finding(BAD, "build", text, (), (f"rm {shlex.quote(path)}",))
    elif first and not shutil.which(first):
        text = f"`{_CUDA}` of `{directory}` is `{first}`, which does not exist: builds fail"
        yield Finding(BAD, "build", text, (), (mend,))
    elif _names_nvccache(value) or real_nvcc.is_ours(compiler):
        yield Finding(GOOD, "build", f"`{directory}` compiles CUDA through the cache")
    else:
        yield Finding(ODD, "build", f"`{directory}` compiles CUDA without nvccache", (), (mend,))
