"""`nvccache doctor`: checks what a compile needs, compiles a sample, and says how to fix what is wrong."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping

import click

from nvccache import config, endpoint, log, nvcc_lookup, outcomes, remote_url
from nvccache.cli import cache_checks, remotes, stats
from nvccache.cli.install import install_command, launcher, version_text
from nvccache.cli.output import (
    BAD,
    GOOD,
    ODD,
    Finding,
    format_seconds,
    format_time,
    json_option,
    show_findings,
)
from nvccache.cli.settings import change_command
from nvccache.config import PREFIX, Config
from nvccache.observation import observer
from nvccache.store import events
from nvccache.store.directory import Directory
from nvccache.store.event_line import Event
from nvccache.store.store import Store
from nvccache.toolkit import discovery

_SOURCE = "__global__ void kernel(int *x) { *x = 1; }\nint main() { return 0; }\n"
_SETTLED = 0.2  # seconds until a file is old enough to be recorded
_ENTRY = re.compile(r"^([A-Za-z0-9_.+-]+):[A-Z]+=(.*)$", re.MULTILINE)
_CUDA = "CMAKE_CUDA_COMPILER_LAUNCHER"


@click.command(epilog="Example: nvccache doctor build")
@click.argument("build_directory", metavar="[BUILD_DIRECTORY]", required=False, default="")
@click.option("--check-files", is_flag=True, help="Also check every file of the cache for damage.")
@json_option
def doctor(build_directory: str, check_files: bool, as_json: bool) -> None:
    """Find what is wrong, and show the commands that fix it.

    It checks nvcc, the settings and the cache directory, and compiles a sample with and without the cache.
    With a CMake build directory, it also checks the compiler launcher of that build. It exits with status 1
    if something is wrong.
    """
    environ = dict(os.environ)
    settings = config.load(environ)
    show_findings(_all(settings, environ, build_directory, check_files), as_json)


def _all(
    settings: Config, environ: dict[str, str], build_directory: str, checks_files: bool
) -> Iterator[Finding]:
    yield from check_settings(settings)
    yield from check_installation()
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if nvcc:
        yield Finding(GOOD, "nvcc", f"CUDA {discovery.release_of(nvcc) or '?'} at `{nvcc}`")
    else:
        why = discovery.why_none(settings.nvcc, settings.origins["nvcc"], environ)
        fix = change_command(settings, "nvcc") if settings.nvcc else install_command("toolkit")
        yield Finding(BAD, "nvcc", why, (), (fix,))
    yield from check_path(settings, environ, nvcc)
    if build_directory:
        yield check_build(os.path.abspath(build_directory))
    yield from cache_checks.check_cache(settings)
    if checks_files and settings.dir:
        yield from cache_checks.check_files(settings)
    yield from check_remotes(settings)
    yield from check_executor(settings)
    if nvcc:
        yield from _compiles(nvcc, environ)


def check_settings(settings: Config) -> Iterator[Finding]:
    for sentence in log.sentences(settings):
        yield Finding(BAD, "settings", sentence)


def check_installation() -> Iterator[Finding]:
    """Findings about the versions, the program behind `nvccache`, and the observer."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{os.uname().sysname} {os.uname().release} {os.uname().machine}"
    libc = " ".join(platform.libc_ver())
    yield Finding(GOOD, "version", f"{version_text()}, {python}, {libc}, {system}")
    path = launcher()
    text = f"`{path}`" if path else "not installed as a program, so start it with `python -m nvccache`"
    if not sys.flags.isolated:
        text += "; the compiled launcher is missing, so no call can be replayed"
    yield Finding(GOOD if path and sys.flags.isolated else ODD, "launcher", text, _notes("launcher"))
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        obstacle = observer.obstacle(folder, Store(folder))
    text = f"{obstacle}, so every call runs nvcc without the cache" if obstacle else f"`{observer.LIBRARY}`"
    yield Finding(ODD if obstacle else GOOD, "observer", text, _notes("observer"))


def _notes(name: str) -> tuple[str, ...]:
    """Notes of src/native/hatch_build.py about a part that it could not build."""
    path = os.path.join(os.path.dirname(observer.LIBRARY), "notes")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            notes = [line.strip() for line in stream if line.startswith(f"{name}: ")]
    except OSError:
        return ()
    return (*notes, "to fix it: install a C compiler, and then nvccache again") if notes else ()


def check_path(settings: Config, environ: Mapping[str, str], nvcc: str | None) -> Iterator[Finding]:
    """Which `nvcc` is first on PATH, and whether a shim finds a real nvcc; `nvcc` is find_nvcc's result."""
    folders = [folder for folder in environ.get("PATH", os.defpath).split(":") if folder]
    programs = [path for folder in folders if nvcc_lookup.is_program(path := os.path.join(folder, "nvcc"))]
    shims = [path for path in programs if nvcc_lookup.is_ours(path)]
    if not programs and nvcc:
        text = "there is no `nvcc`, so `nvccache nvcc` cannot work; CMake may find an nvcc elsewhere"
        yield Finding(ODD, "on PATH", text, (), (discovery.export_path(nvcc),))
    elif programs and not shims:
        text = "`nvcc` is NVIDIA's; to use the cache, call `nvccache nvcc` or see `nvccache install`"
        yield Finding(GOOD, "on PATH", text)
    elif shims and programs[0] != shims[0]:
        text = f"`{programs[0]}` comes before nvccache's `{shims[0]}`, so calls of `nvcc` are not cached"
        yield Finding(ODD, "on PATH", text, (), (discovery.export_path(shims[0]),))
    elif shims and not nvcc_lookup.find("", settings.nvcc, environ):
        why = nvcc_lookup.why_none("", settings.nvcc, settings.origins["nvcc"], environ)[1]
        yield Finding(BAD, "on PATH", f"`{shims[0]}` is nvccache, but there is no nvcc for it to run: {why}")
    elif shims:
        yield Finding(GOOD, "on PATH", f"`nvcc` is nvccache: `{shims[0]}`")


def check_build(directory: str) -> Finding:
    """Whether a CMake build directory compiles CUDA through the cache."""
    path = os.path.join(directory, "CMakeCache.txt")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            entries = dict(_ENTRY.findall(stream.read()))
    except OSError as error:
        text = f"cannot read `CMakeCache.txt` in `{directory}`: {error.strerror}"
        return Finding(BAD, "build", text, ("only CMake build directories can be checked",))
    compiler, value = entries.get("CMAKE_CUDA_COMPILER", ""), entries.get(_CUDA, "")
    programs = value.split(";")
    fix = f"cmake -D{_CUDA}={shlex.quote(launcher() or 'nvccache')} {shlex.quote(directory)}"
    if not compiler:
        return Finding(ODD, "build", f"`{directory}` compiles no CUDA, so it does not need nvccache")
    if programs[0] and not shutil.which(programs[0]):
        text = f"`{_CUDA}` of `{directory}` is `{programs[0]}`, which does not exist, so builds fail"
        return Finding(BAD, "build", text, (), (fix,))
    is_shim = nvcc_lookup.is_ours(compiler)
    if is_shim and os.path.basename(compiler) in nvcc_lookup.OWN_NAMES:
        text = f"CMake uses nvccache itself, `{compiler}`, as the compiler, so builds fail"
        return Finding(BAD, "build", text, (), (f"{fix} -DCMAKE_CUDA_COMPILER=nvcc --fresh",))
    if is_shim or any(os.path.basename(program) in nvcc_lookup.OWN_NAMES for program in programs):
        return Finding(GOOD, "build", f"`{directory}` compiles CUDA through the cache")
    return Finding(ODD, "build", f"`{directory}` compiles CUDA without nvccache", (), (fix,))


def check_remotes(settings: Config) -> Iterator[Finding]:
    """Whether each remote answers and can be written to, and whether its queue is empty."""
    if settings.remote and settings.dir:
        for remote in remote_url.parse(settings.remote):
            yield from remotes.check(remote, Directory(settings.dir), not settings.readonly)


def check_executor(settings: Config) -> Iterator[Finding]:
    """Whether stages can be sent to NVCCACHE_EXECUTOR, if it is set."""
    if not settings.executor:
        return
    from nvccache.remote_execution import faults, work

    where = endpoint.parse(settings.executor)
    try:
        if not nvcc_lookup.is_program(work.CHECK):
            raise faults.ExecutorError(
                faults.BROKEN,
                "`class-check`, which stages need, was not built: there was no static C library",
            )
        if where.is_launcher:
            from nvccache.remote_execution import prefix

            prefix.check(where, settings.executor_dir)
            yield Finding(GOOD, "executor", f"`{where.shown}` can start stages")
        else:
            from nvccache.remote_execution.client import Client  # imports grpcio

            with contextlib.closing(Client(where)) as client:
                client.check()
            yield Finding(GOOD, "executor", f"`{where.shown}` executes stages and uses SHA-256 digests")
    except faults.ExecutorError as error:
        is_missing = isinstance(error, faults.NotInstalledError)
        command = install_command("exec") if is_missing else change_command(settings, "executor")
        text = f"`{where.shown}` cannot be used: {error.fault}"
        yield Finding(BAD, "executor", text, (str(error),), (command,))
    if outage := stats.outage_of_executor(settings):
        until = format_time(outage.until, "%H:%M:%S")
        yield Finding(ODD, "executor", f"compiles send no stages until {until}: {outage.text}")


def _compiles(nvcc: str, environ: dict[str, str]) -> Iterator[Finding]:
    """Compile with nvcc, then twice through a new cache, and compare the objects."""
    started = [launcher()] if launcher() else [sys.executable, "-m", "nvccache"]
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        # Settings of the user, in variables or the file, could change what the cache does.
        environ = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
        environ |= {"NVCCACHE_DIR": f"{folder}/cache", "NVCCACHE_STRICT": "1", "XDG_CONFIG_HOME": folder}
        with open(f"{folder}/probe.cu", "w", encoding="utf-8") as stream:
            stream.write(_SOURCE)
        os.mkdir(f"{folder}/keep")
        products = []
        for title, command, expected in (
            ("plain nvcc", [nvcc, "-keep", "-keep-dir", "keep"], ""),
            ("nvccache", [*started, nvcc], outcomes.MISS),
            ("and again", [*started, nvcc], outcomes.DIRECT_HIT),
        ):
            time.sleep(_SETTLED)
            began = time.monotonic()
            done = subprocess.run(
                [*command, "-c", "probe.cu", "-o", "probe.o"],
                cwd=folder, env=environ, capture_output=True, text=True, errors="replace", check=False,
            )  # fmt: skip
            seconds = format_seconds(time.monotonic() - began)
            if done.returncode:
                output = (done.stderr + done.stdout).strip() or f"status {done.returncode}"
                yield Finding(BAD, title, "cannot compile:", tuple(output.splitlines()))
                return
            call = next(events.newest(f"{folder}/cache"), Event("nothing"))
            if (
                call.outcome == outcomes.BYPASS
            ):  # objects of nvcc cannot be compared: it puts random names into them
                reason = outcomes.REASONS.get(call.reason, call.reason)
                yield Finding(ODD, title, f"{call.outcome} in {seconds}: {reason}")
                return
            with open(f"{folder}/probe.o", "rb") as product:
                products.append(product.read())
            if products[0] != products[-1]:
                yield Finding(BAD, title, "the object differs from nvcc's; please report this bug")
                return
            if not expected:
                yield Finding(GOOD, title, f"compiles in {seconds}")
                continue
            text = f"{call.outcome} in {seconds}, and the object is the same as nvcc's"
            yield Finding(GOOD if call.outcome == expected else ODD, title, text)
