"""`nvccache install DIR`, and facts about this installation.

The `nvcc` shim is a symbolic link to the launcher `nvccache`. Under both names, the launcher starts Python
isolated, and runs the real nvcc if Python cannot start or nvccache cannot be loaded.
"""

from __future__ import annotations

import os
import shlex
import sys

import click

from nvccache import __version__, config
from nvccache.cli.output import Failure, json_option, say, say_json
from nvccache.nvcc_lookup import is_ours, is_program
from nvccache.observation import observer
from nvccache.toolkit.discovery import export_path, find_nvcc


@click.command(epilog="Example: nvccache install ~/bin")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@json_option
def install(folder: str, as_json: bool) -> None:
    """Create a link named nvcc that compiles through the cache.

    DIR is created if it does not exist. An nvcc in DIR is replaced only if it is a link to nvccache.
    """
    folder = os.path.abspath(folder)
    path, program = os.path.join(folder, "nvcc"), launcher()
    if not program:
        raise Failure("this nvccache was not installed, so there is no executable that a link could point to")
    if os.path.lexists(path) and not is_ours(path):
        raise Failure(f"`{path}` exists and is not nvccache")
    try:
        os.makedirs(folder, exist_ok=True)
        fresh = f"{path}.{os.getpid()}"
        os.symlink(program, fresh)
        os.replace(fresh, path)  # in one step, since a build may be using the old link
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror}") from None
    if as_json:
        nvcc = find_nvcc(os.environ, config.load(os.environ).nvcc)
        say_json({"shim": path, "nvcc": nvcc, "cmake_launcher": program})
        return
    say(f"linked `{path}` to `{program}`", "")
    say("Put its directory first on PATH, so that builds find this link before the real nvcc:")
    say(f"  {export_path(path)}")
    say("CMake needs the link only for device links; for compiles, this is enough:")
    say(f"  cmake -DCMAKE_CUDA_COMPILER_LAUNCHER={shlex.quote(program)} ...")


def launcher() -> str:
    """The `nvccache` that was started, or else the one next to this Python; empty if there is none."""
    next_to_python = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "nvccache")
    for program in (os.path.abspath(sys.argv[0]), next_to_python):
        if os.path.basename(program) == "nvccache" and is_program(program):
            return program
    return ""


def install_command(extra: str) -> str:
    """The pip command that installs the packages of an extra, such as `remote`, for this nvccache."""
    from importlib import metadata  # slow to import

    try:
        lines = metadata.requires("nvccache") or []
    except metadata.PackageNotFoundError:  # nvccache runs from its sources
        lines = []
    packages = [line.split(";")[0] for line in lines if line.endswith(f"; extra == '{extra}'")]
    return shlex.join([sys.executable, "-m", "pip", "install", *(packages or [f"nvccache[{extra}]"])])


def version() -> dict[str, str]:
    """The version, and a text with the commit, machine and C library of the build (empty if unknown)."""
    try:
        with open(os.path.join(os.path.dirname(observer.LIBRARY), "build"), encoding="utf-8") as stream:
            return {"version": __version__, "build": stream.read()}
    except OSError:
        return {"version": __version__, "build": ""}


def version_text() -> str:
    build = version()["build"]
    return f"nvccache {__version__}" + (f" ({build})" if build else "")
