"""The checks of `nvccache doctor` for this installation, nvcc, its tools and the host compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from nvccache.cli.install import adding, launcher
from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.settings import changing
from nvccache.commandline.invocation import Bypass
from nvccache.config import Config
from nvccache.machine import cgroups, slots
from nvccache.observation import observer
from nvccache.plan import stages
from nvccache.store.store import Store
from nvccache.toolkit import discovery, dryrun, toolchain
from nvccache.toolkit.dryrun import Command, Transcript

SOURCE = "__global__ void kernel(int *x) { *x = 1; }\nint main() { return 0; }\n"
_TOOLS = tuple(tool for tool in stages.ALL if tool.program)  # of the toolkit
_VERSION = re.compile(r"release (\d+\.\d+), V([\d.]+)")


def of_installation(settings: Config) -> Iterator[Finding]:
    """The program behind `nvccache`, whether Python is isolated, and how many stages may run at once."""
    if not sys.flags.isolated:
        text = "Python was started without `-I`, so PYTHONPATH and similar variables take effect"
        yield Finding(ODD, "launcher", text, ("start `nvccache`, or `python -I -m nvccache`",))
    path = launcher()
    text = f"`{path}`" if path else "not installed as a program: start it with `python -I -m nvccache`"
    yield Finding(GOOD if path else ODD, "launcher", text, _notes("launcher"))
    cores, pool = len(cgroups.usable_cores()), slots.pool_directory()
    text = f"all calls together run up to {settings.jobs or cores} stages, on {cores} cores"
    text = text if pool else "no directory for the pool: each call runs one stage at a time"
    yield Finding(GOOD if pool else ODD, "at once", text)
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        obstacle = observer.obstacle(folder, Store(folder))
    text = f"{obstacle}: there are no direct hits" if obstacle else f"`{observer.LIBRARY}`"
    yield Finding(ODD if obstacle else GOOD, "observer", text, _notes("observer"))


def _notes(name: str) -> tuple[str, ...]:
    """The notes of src/native/hatch_build.py about a part that it built."""
    path = os.path.join(os.path.dirname(observer.LIBRARY), "notes")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return tuple(line.strip() for line in stream if line.startswith(f"{name}: "))
    except OSError:
        return ()


def of_nvcc(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The nvcc that a call would run, the tools in its dry run, and whether they are of one release."""
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if not nvcc:
        why = discovery.why_none(settings.nvcc, settings.origins["nvcc"], environ)
        yield Finding(
            BAD, "nvcc", why, (), (changing(settings, "nvcc") if settings.nvcc else adding("toolkit"),)
        )
        return
    yield Finding(GOOD, "nvcc", f"CUDA {discovery.release_of(nvcc) or '?'} at `{nvcc}`")
    found = _dry_run(nvcc, environ)
    if not isinstance(found, Transcript):
        yield Finding(BAD, "dry run", f"`nvcc --dryrun` was not understood: {found.reason} {found.detail}")
        return
    variables = {**environ, **found.variables}
    yield from _tools(variables)
    driver = toolchain.resolve(_host_compiler_name(found), variables.get("PATH", ""))
    text = f"{_first_line(driver)} at `{driver}`" if driver else f"no program `{_host_compiler_name(found)}`"
    yield Finding(GOOD if driver else BAD, "host compiler", text)


def _tools(environ: Mapping[str, str]) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    top = os.path.normpath(environ.get("TOP", "")).rstrip("/") + "/"
    for tool in _TOOLS:
        path = toolchain.resolve(tool.program, environ.get("PATH", ""))
        path = path or toolchain.resolve(f"{environ.get('CICC_PATH', '')}/{tool.program}", "")
        if not path:
            yield Finding(BAD, tool.program, "this nvcc needs it, but it is missing")
            continue
        if not os.path.normpath(path).startswith(top):
            yield Finding(ODD, tool.program, f"not next to nvcc: PATH leads to `{path}`")
        if tool.has_version_option:
            match = _VERSION.search(version_text(path))
            versions[tool.program] = match[2] if match else "?"
    if len(set(versions.values())) > 1:
        text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield Finding(BAD, "parts", f"different releases: {text}; pin all wheels to one")
    elif versions:
        yield Finding(GOOD, "parts", f"{', '.join(versions)} {next(iter(versions.values()))}")


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


def version_text(program: str) -> str:
    """The output of `--version`; empty if the program cannot be run."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return ""
    return (done.stdout + done.stderr).decode(errors="replace")


def _first_line(program: str) -> str:
    return version_text(program).partition("\n")[0] or "?"
