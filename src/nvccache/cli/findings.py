"""What `nvccache doctor` looks at: settings, nvcc and its parts, the host compiler."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

from nvccache import real_nvcc, wrong_settings
from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.install import launcher
from nvccache.files import elf
from nvccache.machine import slots
from nvccache.observation import observer
from nvccache.store.store import Store
from nvccache.toolkit import discovery, dryrun, toolchain
from nvccache.toolkit.dryrun import Command, Transcript

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nvccache.config import Config

SOURCE = "__global__ void kernel(int *x) { *x = 1; }\nint main() { return 0; }\n"
_PARTS = ("cudafe++", "ptxas", "fatbinary", "nvlink")  # cicc does not tell its version
_VERSION = re.compile(rb"release (\d+\.\d+), V([\d.]+)")


def of_nvcc(settings: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The nvcc that a call would run, and whether calls of `nvcc` come to the cache."""
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if not nvcc:
        why = discovery.why_none(settings.nvcc, settings.origins["nvcc"], environ)
        yield Finding(BAD, "nvcc", why)
        return
    yield Finding(GOOD, "nvcc", f"CUDA {discovery.release_of(nvcc) or '?'} at `{nvcc}`")
    first = shutil.which("nvcc", path=environ.get("PATH"))
    if first and real_nvcc.is_ours(first):
        yield Finding(GOOD, "on PATH", f"`nvcc` is nvccache: `{first}`")
    else:
        yield Finding(
            GOOD, "on PATH", "`nvcc` is not nvccache: it is used as a launcher, or see `nvccache install`"
        )


def of_launcher() -> Iterator[Finding]:
    """What is started as `nvccache`, whether it is isolated, and whether our modules have byte code."""
    if not sys.flags.isolated:
        text = "Python was started so that it heeds PYTHONPATH and the like (no `-I`)"
        details = ("start it by the program `nvccache`, or by `python -I -m nvccache`",)
        yield Finding(ODD, "launcher", text, details)
    path = launcher()
    if not path:
        text = "not installed as a program: start it with `python -I -m nvccache`"
        yield Finding(ODD, "launcher", text)
    elif _first_bytes(path).startswith(elf.MAGIC):
        yield Finding(GOOD, "launcher", f"`{path}`")
    else:
        text = (
            "was built without a C compiler: it is a script for sh, which may add PWD to nvcc's environment"
        )
        yield Finding(ODD, "launcher", f"`{path}` {text}")
    compiled = importlib.util.cache_from_source(real_nvcc.__file__)
    if not os.path.exists(compiled):
        folder = os.path.dirname(real_nvcc.__file__)
        text = "there is no byte code: each call compiles nvccache's modules anew"
        yield Finding(ODD, "start", f"{text}; `{sys.executable} -m compileall -q {folder}` makes it")


def _first_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(len(elf.MAGIC))
    except OSError:
        return b""


def of_parts(nvcc: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The tools that this nvcc starts, by its own dry run, and whether they are of one release."""
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        source = os.path.join(folder, "probe.cu")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(SOURCE)
        found = dryrun.transcribe(nvcc, ["-c", source, "-o", f"{folder}/probe.o"], folder, environ)
    if not isinstance(found, Transcript):
        yield Finding(BAD, "dry run", f"`nvcc --dryrun` was not understood: {found.reason} {found.detail}")
        return
    everything = {**environ, **found.variables}
    yield from _versions(everything)
    library = os.path.join(found.variables.get("TOP", ""), "nvvm", "lib64", "libnvvm.so")
    if not os.path.isfile(library):
        yield Finding(ODD, "libnvvm", f"no `{os.path.normpath(library)}`: nvcc cannot link with -dlto")
    for command in found.steps:
        if isinstance(command, Command) and "-E" in command.argv:
            yield from _host_compiler(command.argv[0], everything)
            break


def _versions(environ: Mapping[str, str]) -> Iterator[Finding]:
    versions: dict[str, str] = {}
    for name in (*_PARTS, "cicc"):
        path = toolchain.resolve(name, environ.get("PATH", ""))
        path = path or toolchain.resolve(f"{environ.get('CICC_PATH', '')}/{name}", "")
        if not path:
            yield Finding(BAD, name, "this nvcc starts it, and it is not there")
            continue
        if not _is_below(path, environ.get("TOP", "")):
            yield Finding(ODD, name, f"not there beside nvcc: PATH leads to `{path}`")
        if name != "cicc":
            shown = subprocess.run([path, "--version"], capture_output=True, check=False)
            match = _VERSION.search(shown.stdout + shown.stderr)
            versions[name] = match[2].decode() if match else "?"
    if len(set(versions.values())) > 1:
        text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield Finding(BAD, "parts", f"they are of different releases: {text}; pin all wheels to one")
    elif versions:
        yield Finding(GOOD, "parts", f"{', '.join(versions)} {next(iter(versions.values()))}, and cicc")


def _is_below(path: str, directory: str) -> bool:
    top = os.path.normpath(directory)
    return os.path.normpath(path).startswith(top.rstrip("/") + "/")


def _host_compiler(word: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    driver = toolchain.resolve(word, environ.get("PATH", ""))
    if not driver:
        yield Finding(BAD, "host compiler", f"no program `{word}`")
        return
    shown = subprocess.run([driver, "--version"], capture_output=True, check=False)
    version = shown.stdout.decode(errors="replace").partition("\n")[0]
    yield Finding(GOOD, "host compiler", f"{version or '?'} at `{driver}`")


def of_observer(settings: Config) -> Iterator[Finding]:
    """Whether what a compile reads can be observed, without which there are no direct hits."""
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        obstacle = "" if settings.observe else f"{settings.origins['observe']} turns it off"
        obstacle = obstacle or observer.obstacle(folder, Store(folder))
    if obstacle:
        yield Finding(ODD, "observer", f"{obstacle}: no compile is answered without running tools")
    else:
        yield Finding(GOOD, "observer", f"`{observer.LIBRARY}`")


def of_settings(settings: Config) -> Iterator[Finding]:
    """What the user has set and nvccache does not understand."""
    for text in wrong_settings.sentences(settings):
        yield Finding(BAD, "settings", text)


def of_machine(settings: Config) -> Iterator[Finding]:
    """How much may run at once."""
    cores = slots.available_cores()
    if slots.pool_directory():
        yield Finding(
            GOOD, "at once", f"{settings.jobs or cores} stages in all calls together, {cores} cores"
        )
    else:
        yield Finding(ODD, "at once", "no directory for the pool: each call runs one stage at a time")
