"""`nvccache install DIR`: writes the `nvcc` shim, an executable that starts as fast as Python can.

The shim names its interpreter and its import directories, so that it needs neither site-packages start-up
(`-S`) nor the environment (`-I`): that is most of what a hit costs.
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
from nvccache.real_nvcc import SHIM_MARK, is_ours
from nvccache.toolkit.discovery import find_nvcc

_SHEBANG_LIMIT = 127  # bytes, before Linux 5.1; longer ones were cut off without a word
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

# Python keeps no compiled form of a script, so what is seldom needed stays a string.
_BODY = """\
# Written by `nvccache install`; to be written again when nvccache or its Python moves.
import sys
from os import environ

sys.dont_write_bytecode = bool(environ.get("PYTHONDONTWRITEBYTECODE"))  # -I ignores it
sys.path += {folders!r}
try:
    from nvccache.shim import main
except Exception:
    exec({fallback!r})
if __name__ == "__main__":
    sys.exit(main())
"""
_FALLBACK = '''
def main():
    """Run the real nvcc: nvccache was removed or is broken, but no build may fail for that."""
    import os

    nvcc = os.environ.get("NVCCACHE_NVCC") or "nvcc"
    for folder in [""] if "/" in nvcc else os.environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(folder, nvcc)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            with open(path, "rb") as stream:
                is_shim = {mark!r} in stream.read(8192)
            if not is_shim:
                os.execve(path, [path, *sys.argv[1:]], given_environment())
    named = f"`{{nvcc}}`, which NVCCACHE_NVCC names, cannot be run"
    why = named if os.environ.get("NVCCACHE_NVCC") else "no other nvcc is on PATH"
    sys.stderr.write(f"nvcc: nvccache was removed, and {{why}}\\n")
    return 126 if "/" in nvcc and os.path.exists(nvcc) else 127


def given_environment():
    """The environment without the LC_CTYPE that Python sets where there is no locale."""
    import os

    try:
        with open("/proc/self/environ", "rb") as stream:
            entries = stream.read().split(b"\\0")
    except OSError:
        return os.environb
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
'''


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(file_okay=False), required=False)
@json_option
def install(folder: str | None, as_json: bool) -> None:
    """Write an executable named nvcc into DIR that compiles through the cache.

    DIR is made when it does not exist; without it, it is `bin` in the user's data directory of nvccache,
    `~/.local/share/nvccache/bin`. An nvcc that is there already is replaced only if `install` wrote it.
    """
    folder = os.path.abspath(folder or _usual_folder())
    path = os.path.join(folder, "nvcc")
    if os.path.lexists(path) and (os.path.islink(path) or not is_ours(path)):
        raise Failure(f"`{path}` exists and was not written by nvccache")
    try:
        os.makedirs(folder, exist_ok=True)
        _write_executable(path, _shim_text(_interpreter(), _import_folders()))
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror}") from None
    if as_json:
        nvcc = find_nvcc(os.environ, config.load(os.environ).nvcc)
        say_json({"shim": path, "nvcc": nvcc, "cmake_launcher": _words_for_cmake()})
        return
    say(f"wrote `{path}`", *_usage(folder))


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


def _shim_text(interpreter: str, folders: list[str]) -> bytes:
    """The shim's text. An interpreter that a `#!` line cannot name is started by way of sh."""
    shebang = os.fsencode(f"#!{interpreter} -IS\n")
    if len(shebang) > _SHEBANG_LIMIT or any(blank in interpreter for blank in " \t\n"):
        # For sh this is an exec of the interpreter, for Python a string.
        quoted = interpreter.replace("'", "'\"'\"'")
        shebang = os.fsencode(f"#!/bin/sh\n'''exec' '{quoted}' -IS \"$0\" \"$@\"\n' '''\n")
    body = _BODY.format(folders=folders, fallback=_FALLBACK.format(mark=SHIM_MARK))
    return shebang + SHIM_MARK + b"\n" + body.encode()


def _write_executable(path: str, text: bytes) -> None:
    """Replace `path` in one step, since a build may be running it. Raises OSError."""
    fresh = f"{path}.{os.getpid()}"
    try:
        # The umask applies: whoever may read the directory's other programs may run this one.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o777)
        with open(descriptor, "wb") as stream:
            stream.write(text)
        os.replace(fresh, path)
    except OSError:
        if os.path.lexists(fresh):
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
        if os.path.basename(program) == "nvccache" and os.access(program, os.X_OK):
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


def private_launcher(folder: str) -> list[str]:
    """Words that start this very nvccache, isolated, wherever its parts were found. Raises OSError."""
    path, interpreter = os.path.join(folder, "nvccache"), _interpreter()
    _write_executable(path, _shim_text(interpreter, _import_folders()))
    return [interpreter, "-IS", path]
