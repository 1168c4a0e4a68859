"""`nvccache install DIR`, and facts about this installation: its launcher, and how to add an extra to it.

The `nvcc` shim is a symbolic link to the launcher, which does the same under both names: it starts Python
isolated, handles ^C until then, and runs the real nvcc if Python or nvccache cannot be used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import click

from nvccache import config, settings_file
from nvccache.cli.output import Failure, json_option, say, say_json
from nvccache.real_nvcc import is_ours, is_program
from nvccache.toolkit.discovery import find_nvcc

_IMPORTED = tuple(
    """
    nvccache blake3 xxhash zstandard filelock platformdirs click rich tomli
    """.split()
)

_PROGRAM = """\
import sys

sys.argv[0] = "nvccache"
sys.path += {folders!r}
from nvccache.shim import main

sys.exit(main())
"""


@click.command(epilog="Example: nvccache install ~/bin")
@click.argument("folder", metavar="[DIR]", type=click.Path(file_okay=False), required=False)
@json_option
def install(folder: str | None, as_json: bool) -> None:
    """Create a link named nvcc that compiles through the cache.

    DIR is created if it does not exist. By default it is `~/.local/share/nvccache/bin`, or `nvccache/bin`
    in `$XDG_DATA_HOME`. An nvcc that is already there is replaced only if it is nvccache.
    """
    folder = os.path.abspath(folder or _usual_folder())
    path, program = os.path.join(folder, "nvcc"), launcher()
    if not program:
        raise Failure("this nvccache was not installed: it has no launcher for a link to point to")
    if os.path.lexists(path) and not is_ours(path):
        raise Failure(f"`{path}` exists and is not nvccache")
    try:
        os.makedirs(folder, exist_ok=True)
        _link(path, program)
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror}") from None
    if as_json:
        nvcc = find_nvcc(os.environ, config.load(os.environ).nvcc)
        say_json({"shim": path, "nvcc": nvcc, "cmake_launcher": _launcher_for_cmake()})
        return
    say(f"linked `{path}` to `{program}`", *_usage(folder))


def _usual_folder() -> str:
    from platformdirs import user_data_dir

    found = os.path.join(user_data_dir("nvccache"), "bin")
    if not os.path.isabs(found):  # there is no home directory
        raise Failure("there is no home directory: name a directory for the link", "nvccache install DIR")
    return found


def _import_folders() -> list[str]:
    """The directories of nvccache and the packages that it imports, without the standard library."""
    folders = []
    for name in _IMPORTED:
        found = importlib.util.find_spec(name)
        if found and found.origin:
            folder = os.path.dirname(os.path.abspath(found.origin))
            folders.append(os.path.dirname(folder) if found.submodule_search_locations else folder)
    return list(dict.fromkeys(folders))


def _link(path: str, program: str) -> None:
    """Replace `path` in one step: a build may be running it. Raises OSError."""
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
        lines += ["No real nvcc was found. Set its path:", "  export NVCCACHE_NVCC=/path/to/nvcc"]
    elif not settings.nvcc and os.path.dirname(nvcc) not in os.environ.get("PATH", "").split(":"):
        lines += ["The real nvcc is not on PATH. Set its path:"]
        lines += [f"  export NVCCACHE_NVCC={shlex.quote(nvcc)}"]
    lines += ["CMake needs no shim, except for device links:"]
    lines += [f"  cmake -DCMAKE_CUDA_COMPILER_LAUNCHER={shlex.quote(_launcher_for_cmake())} ..."]
    return lines


def launcher() -> str:
    """The path of the `nvccache` that was started, else of the one next to this Python; or empty."""
    next_to_python = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "nvccache")
    for program in (os.path.abspath(sys.argv[0]), next_to_python):
        if os.path.basename(program) == "nvccache" and is_program(program):
            return program
    return ""


def _launcher_for_cmake() -> str:
    """The launcher as a list for CMake, separated by `;`."""
    if launcher():
        return launcher()
    interpreter = os.path.abspath(sys.executable)
    isolated = [interpreter, "-I", "-m", "nvccache"]
    if subprocess.run([*isolated, "--version"], capture_output=True, check=False).returncode == 0:
        return ";".join(isolated)
    return f"{interpreter};-m;nvccache"  # found through PYTHONPATH or the user's packages


def counted(environ: Mapping[str, str]) -> dict[str, Any]:
    """What was counted with these variables since the last call of this; raises CalledProcessError."""
    command = [*private_launcher(), "stats", "--json", "--zero"]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, env=environ))
    return found


def private_launcher() -> list[str]:
    """The start of a command line that runs this very nvccache, isolated, wherever its parts were found."""
    # The interpreter of a virtual environment would only search for its base first.
    interpreter = os.path.abspath(getattr(sys, "_base_executable", None) or sys.executable)
    options = "-ISBc" if sys.dont_write_bytecode else "-ISc"
    return [interpreter, options, _PROGRAM.format(folders=_import_folders())]


def adding(extra: str) -> str:
    """The command that adds one of nvccache's extras to this installation, whatever installer made it.

    It names packages, not `nvccache[EXTRA]`, which some installers would look up on a package index.
    """
    try:
        found = importlib.metadata.distribution("nvccache")
    except importlib.metadata.PackageNotFoundError:  # it was not installed
        return f"pip install 'nvccache[{extra}]'"
    lines = [line.partition(";") for line in found.requires or []]
    packages = [name.strip() for name, _, mark in lines if f"extra == '{extra}'" in mark.replace('"', "'")]
    installer = (found.read_text("INSTALLER") or "").strip()
    start = _start(installer, str(found.locate_file("")))
    if start[:2] == ["uv", "tool"]:
        packages = [word for package in packages for word in ("--with", package)]
    return shlex.join([*start, *packages])


def _start(installer: str, folder: str) -> list[str]:
    """The start of that command, for an installation in a folder of modules."""
    python = os.path.abspath(sys.executable)
    root = os.path.dirname(os.path.dirname(python))
    if not os.path.exists(f"{root}/pyvenv.cfg"):
        is_users = folder.startswith(os.path.join(site.getuserbase(), ""))
        is_managed = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
        options = ["--user"] * is_users + ["--break-system-packages"] * is_managed
        return [python, "-m", "pip", "install", *options]
    if os.path.exists(f"{root}/pipx_metadata.json"):
        return ["pipx", "inject", os.path.basename(root)]
    source = _source_of_tool(f"{root}/uv-receipt.toml")
    if source:
        return ["uv", "tool", "install", source]
    if installer == "uv":
        return ["uv", "pip", "install", "--python", python]
    return [python, "-m", "pip", "install"]


def _source_of_tool(receipt: str) -> str:
    """The source that `uv tool install` noted for nvccache; empty if it no longer exists."""
    try:
        with open(receipt, encoding="utf-8") as stream:
            (first, *_) = settings_file.parsed(stream.read())["tool"]["requirements"]
        if "git" in first:
            return f"git+{first['git']}"
        source = first.get("directory") or first.get("editable") or first["name"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return str(source) if "/" not in source or os.path.isdir(source) else ""
