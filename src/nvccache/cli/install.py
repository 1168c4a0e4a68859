"""`nvccache install DIR`: makes the `nvcc` shim, a symbolic link to the launcher.

So what the launcher does is done under either name: an isolated start of Python, ^C while it starts, and the
real nvcc where Python or nvccache cannot be used.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys

import click

from nvccache import config
from nvccache.cli.output import Failure, json_option, say, say_json
from nvccache.real_nvcc import is_ours, is_program
from nvccache.toolkit.discovery import find_nvcc

_IMPORTED = (
    "nvccache",
    "blake3",
    "xxhash",
    "zstandard",
    "filelock",
    "platformdirs",
    "click",
    "rich",
    "tomli",
    "tomlkit",
)

_PROGRAM = """\
import sys

sys.argv[0] = "nvccache"
sys.path += {folders!r}
from nvccache.shim import main

sys.exit(main())
"""


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(file_okay=False), required=False)
@json_option
def install(folder: str | None, as_json: bool) -> None:
    """Make a link named nvcc in DIR that compiles through the cache.

    DIR is made when it does not exist; without it, it is `bin` in the user's data directory of nvccache,
    `~/.local/share/nvccache/bin`. An nvcc that is there already is replaced only if it is nvccache.
    """
    folder = os.path.abspath(folder or _usual_folder())
    path, program = os.path.join(folder, "nvcc"), launcher()
    if not program:
        raise Failure("this nvccache has no launcher that a shim could lead to: it was not installed")
    if os.path.lexists(path) and not is_ours(path):
        raise Failure(f"`{path}` exists and is not nvccache")
    try:
        os.makedirs(folder, exist_ok=True)
        _link(path, program)
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror}") from None
    if as_json:
        nvcc = find_nvcc(os.environ, config.load(os.environ).nvcc)
        say_json({"shim": path, "nvcc": nvcc, "cmake_launcher": _words_for_cmake()})
        return
    say(f"linked `{path}` to `{program}`", *_usage(folder))


def _usual_folder() -> str:
    from platformdirs import user_data_dir

    found = os.path.join(user_data_dir("nvccache"), "bin")
    if not os.path.isabs(found):  # there is no home directory
        raise Failure("there is no home directory: say where the shim should be", "nvccache install DIR")
    return found


def _interpreter() -> str:
    """The interpreter itself: that of a virtual environment only adds looking for what it belongs to."""
    return os.path.abspath(getattr(sys, "_base_executable", None) or sys.executable)


def _import_folders() -> list[str]:
    """The directories that hold nvccache and what it imports; the interpreter adds its own library."""
    folders = []
    for name in _IMPORTED:
        found = importlib.util.find_spec(name)
        if found and found.origin:
            folder = os.path.dirname(os.path.abspath(found.origin))
            folders.append(os.path.dirname(folder) if found.submodule_search_locations else folder)
    return list(dict.fromkeys(folders))


def _link(path: str, program: str) -> None:
    """Replace `path` in one step, since a build may be running it. Raises OSError."""
    fresh = f"{path}.{os.getpid()}"
    os.symlink(program, fresh)
    try:
        os.replace(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise


def _usage(folder: str) -> list[str]:
    lines = ["", "Put it first on PATH, so that builds find it before the real nvcc:"]
    lines.append(f'  export PATH={shlex.quote(folder)}:"$PATH"')
    settings = config.load(os.environ)
    nvcc = find_nvcc(os.environ, settings.nvcc)
    if nvcc is None:
        lines += ["No real nvcc was found; say where it is:", "  export NVCCACHE_NVCC=/path/to/nvcc"]
    elif not settings.nvcc and os.path.dirname(nvcc) not in os.environ.get("PATH", "").split(":"):
        lines += ["The real nvcc is not on PATH; say where it is:"]
        lines += [f"  export NVCCACHE_NVCC={shlex.quote(nvcc)}"]
    lines += ["CMake needs no shim:"]
    lines += [f"  cmake -DCMAKE_CUDA_COMPILER_LAUNCHER={shlex.quote(_words_for_cmake())} ..."]
    return lines


def launcher() -> str:
    """The executable `nvccache`: the one that was started, or that of this Python; empty if there is none."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "nvccache")
    for program in (os.path.abspath(sys.argv[0]), beside):
        if os.path.basename(program) == "nvccache" and is_program(program):
            return program
    return ""


def _words_for_cmake() -> str:
    """What a build system puts before the compiler; its parts are separated by `;` as CMake wants it."""
    if launcher():
        return launcher()
    interpreter = os.path.abspath(sys.executable)
    isolated = [interpreter, "-I", "-m", "nvccache"]
    if subprocess.run([*isolated, "--version"], capture_output=True, check=False).returncode == 0:
        return ";".join(isolated)
    return f"{interpreter};-m;nvccache"  # found by PYTHONPATH, or a user's own


def private_launcher() -> list[str]:
    """Words that start this very nvccache, isolated, wherever its parts were found."""
    options = "-ISBc" if sys.dont_write_bytecode else "-ISc"
    return [_interpreter(), options, _PROGRAM.format(folders=_import_folders())]
