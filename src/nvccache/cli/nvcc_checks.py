"""The checks of `nvccache doctor` for nvcc and its tools, the host compiler, the observer and the machine."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from nvccache import real_nvcc
from nvccache.cli.install import adding, launcher
from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.settings import changing
from nvccache.commandline.invocation import Bypass
from nvccache.config import Config
from nvccache.files import elf
from nvccache.machine import cgroups, slots
from nvccache.observation import observer
from nvccache.plan import stages
from nvccache.store.store import Store
from nvccache.toolkit import discovery, dryrun, toolchain
from nvccache.toolkit.dryrun import Command, Transcript

SOURCE = "__global__ void kernel(int *x) { *x = 1; }\nint main() { return 0; }\n"
_PARTS = tuple(tool for tool in stages.ALL if tool.program)  # of the toolkit
_VERSION = re.compile(r"release (\d+\.\d+), V([\d.]+)")
_CAPABILITIES = "security.capability"


def of_nvcc(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The nvcc that a call would run."""
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if not nvcc:
        why = discovery.why_none(settings.nvcc, settings.origins["nvcc"], environ)
        mend = changing(settings, "nvcc") if settings.nvcc else adding("toolkit")
        yield Finding(BAD, "nvcc", why, (), (mend,))
        return
    yield Finding(GOOD, "nvcc", f"CUDA {discovery.release_of(nvcc) or '?'} at `{nvcc}`")


def of_launcher() -> Iterator[Finding]:
    """The program behind `nvccache`, whether Python is isolated, and whether our modules have byte code."""
    if not sys.flags.isolated:
        text = "Python was started without `-I`, so PYTHONPATH and similar variables take effect"
        details = ("start `nvccache`, or `python -I -m nvccache`",)
        yield Finding(ODD, "launcher", text, details)
    path = launcher()
    if not path:
        text = "not installed as a program: start it with `python -I -m nvccache`"
        yield Finding(ODD, "launcher", text)
    elif _first_bytes(path).startswith(elf.MAGIC):
        yield Finding(GOOD, "launcher", f"`{path}`", _of_build("launcher"))
    else:
        text = (
            "is a shell script, which may add PWD to nvcc's environment; the compiled launcher would answer"
            " unchanged compiles without starting Python"
        )
        yield Finding(ODD, "launcher", f"`{path}` {text}", _of_build("launcher"))
    compiled = importlib.util.cache_from_source(real_nvcc.__file__)
    if not os.path.exists(compiled):
        folder = os.path.dirname(real_nvcc.__file__)
        text = "there is no byte code: each call compiles nvccache's modules again"
        yield Finding(ODD, "start", f"{text}; `{sys.executable} -m compileall -q {folder}` creates it")


def _of_build(name: str) -> tuple[str, ...]:
    """The notes of src/native/hatch_build.py about a part that it built."""
    path = os.path.join(os.path.dirname(observer.LIBRARY), "notes")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            notes = [line.strip() for line in stream if line.startswith(f"{name}: ")]
    except OSError:
        return ()
    return tuple(notes)


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(len(elf.MAGIC))
    except OSError:
        return b""


def of_parts(nvcc: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The tools in the dry run of this nvcc, and whether they are of one release."""
    found = _dry_run(nvcc, environ)
    if not isinstance(found, Transcript):
        yield Finding(BAD, "dry run", f"`nvcc --dryrun` was not understood: {found.reason} {found.detail}")
        return
    everything = {**environ, **found.variables}
    yield from _versions(everything)
    library = os.path.join(found.variables.get("TOP", ""), "nvvm", "lib64", "libnvvm.so")
    if not os.path.isfile(library):
        yield Finding(ODD, "libnvvm", f"no `{os.path.normpath(library)}`: nvcc cannot link with -dlto")
    name = _host_compiler_name(found)
    if name:
        yield from _host_compiler(name, everything)


def _versions(environ: Mapping[str, str]) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    top = os.path.normpath(environ.get("TOP", "")).rstrip("/") + "/"
    for tool in sorted(_PARTS, key=lambda tool: not tool.has_version_option):
        name = tool.program
        path = toolchain.resolve(name, environ.get("PATH", ""))
        path = path or toolchain.resolve(f"{environ.get('CICC_PATH', '')}/{name}", "")
        if not path:
            yield Finding(BAD, name, "this nvcc needs it, but it is missing")
            continue
        if not os.path.normpath(path).startswith(top):
            yield Finding(ODD, name, f"not next to nvcc: PATH leads to `{path}`")
        if tool.has_version_option:
            match = _VERSION.search(version_text(path))
            versions[name] = match[2] if match else "?"
    if len(set(versions.values())) > 1:
        text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield Finding(BAD, "parts", f"different releases: {text}; pin all wheels to one")
    elif versions:
        silent = ", ".join(tool.program for tool in _PARTS if not tool.has_version_option)
        yield Finding(GOOD, "parts", f"{', '.join(versions)} {next(iter(versions.values()))}, and {silent}")


def host_compiler_of(nvcc: str, environ: Mapping[str, str]) -> str:
    """The path of the host compiler in the dry run of this nvcc; empty if it is unknown."""
    found = _dry_run(nvcc, environ)
    if not isinstance(found, Transcript):
        return ""
    return toolchain.resolve(_host_compiler_name(found), {**environ, **found.variables}.get("PATH", "")) or ""


def _dry_run(nvcc: str, environ: Mapping[str, str]) -> Transcript | Bypass:
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        source = os.path.join(folder, "probe.cu")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(SOURCE)
        return dryrun.transcribe(nvcc, ["-c", source, "-o", f"{folder}/probe.o"], folder, environ)


def _host_compiler_name(found: Transcript) -> str:
    """The host compiler's name in a dry run, from the first command that preprocesses."""
    commands = [command for command in found.steps if isinstance(command, Command)]
    return next((command.argv[0] for command in commands if "-E" in command.argv), "")


def _host_compiler(name: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    driver = toolchain.resolve(name, environ.get("PATH", ""))
    if not driver:
        yield Finding(BAD, "host compiler", f"no program `{name}`")
        return
    yield Finding(GOOD, "host compiler", f"{version_text(driver).partition(chr(10))[0] or '?'} at `{driver}`")
    for program in (driver, *_programs_of(driver)):
        obstacle = why_not_observed(program)
        if obstacle:
            detail = "its reads cannot be observed: there are no direct hits, but stages are cached"
            mend = ("export NVCC_CCBIN=/usr/bin/g++",) if driver != "/usr/bin/g++" else ()
            yield Finding(ODD, "host compiler", f"`{program}` {obstacle}", (detail,), mend)


def version_text(program: str) -> str:
    """The output of `--version`; empty if the program cannot be run."""
    try:
        shown = subprocess.run(
            [program, "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return ""
    return (shown.stdout + shown.stderr).decode(errors="replace")


def _programs_of(driver: str) -> list[str]:
    """The programs that a driver such as gcc starts, as shown by `-print-prog-name`."""
    found = []
    for name in ("cc1plus", "as"):
        command = [driver, f"-print-prog-name={name}"]
        shown = subprocess.run(command, capture_output=True, check=False).stdout
        path = os.fsdecode(shown.strip())
        path = path if "/" in path else shutil.which(path) or ""
        if os.path.isfile(path):
            found.append(path)
    return found


def of_observer(settings: Config) -> Iterator[Finding]:
    """Whether the inputs of a compile can be observed; without that there are no direct hits."""
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        obstacle = "" if settings.observe else f"{settings.origins['observe']} turns it off"
        obstacle = obstacle or observer.obstacle(folder, Store(folder))
    if obstacle:
        text = f"{obstacle}: there are no direct hits"
        yield Finding(ODD, "observer", text, _of_build("observer"))
    else:
        yield Finding(GOOD, "observer", f"`{observer.LIBRARY}`", _of_build("observer"))


def of_machine(settings: Config) -> Iterator[Finding]:
    """How many stages may run at once."""
    cores = cgroups.Share().cores
    pool = slots.pool_directory()
    for path, owner in slots.unusable_directories():
        if pool != path:
            instead = f"`{pool}` is used instead" if pool else "remove it, or have its owner do so"
            yield Finding(
                ODD, "at once", f"`{path}` belongs to user {owner}, or is not a directory: {instead}"
            )
    if pool:
        yield Finding(
            GOOD, "at once", f"all calls together run up to {settings.jobs or cores} stages, on {cores} cores"
        )
    else:
        yield Finding(ODD, "at once", "no directory for the pool: each call runs one stage at a time")


def why_not_observed(path: str) -> str:
    """Why our library cannot be loaded into a program, a clause; empty if it can, or for no program."""
    try:
        status = os.stat(path)
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and status.st_uid != os.getuid():
            return "is set-uid or set-gid, for which the loader ignores LD_PRELOAD"
        if _CAPABILITIES in os.listxattr(path):
            return "has file capabilities, for which the loader ignores LD_PRELOAD"
        if elf.interpreter(path) == "":
            return "is statically linked, so no library can be loaded into it"
    except OSError:
        return ""
    return ""  # also for scripts, whose interpreter is another program
