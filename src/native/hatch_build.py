"""Compiles the C sources into the wheel: the launcher, its library, the observer and the class check.

Without a C compiler, the script that the launcher would run becomes the command, and the other parts are left
out. The class check starts the tools of stages on other machines.

The observer is installed with the package, not stored in a cache directory to which others may write, since
it is loaded into compilers.
"""

from __future__ import annotations

import filecmp
import glob
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "nvccache/native"
_REDIRECT = "nvccache-redirect.so"  # the launcher's library, next to it
# The user's CFLAGS are not used: they could rename the functions that the observer wraps, or change how these
# treat their arguments, and the wrapper of dlopen must end in a jump.
_OF_LIBRARY = (
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-ftls-model=initial-exec",
    "-fno-delete-null-pointer-checks",
    "-U_FORTIFY_SOURCE",
    "-U_FILE_OFFSET_BITS",
    "-U_TIME_BITS",
)
# For each part, the directory of its sources, its name, ways to link it, and its status without arguments.
# The launcher is linked statically if possible, so that it starts faster, and on other systems, too. The
# class check is always linked statically: it is sent to machines that may have another C library, or none.
_PARTS: dict[str, tuple[str, str, tuple[tuple[str, ...], ...], int]] = {
    "launcher": ("launcher", "nvccache", (("-static",), ()), 127),
    "redirect": ("redirect", _REDIRECT, (_OF_LIBRARY,), 0),
    "observer": ("observer", "observer.so", (_OF_LIBRARY,), 0),
    "class-check": ("class_check", "class-check", (("-static",),), 98),
}
# What does not work if a part is missing.
_LOSSES = {
    "launcher": "calls are not replayed, and fail where Python cannot start",
    "redirect": "an nvcc that is a script runs without the cache",
    "observer": "the tools of compiles are not observed, so nvcc runs every call",
    "class-check": "no stage can be sent to other machines",
}


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if sys.platform != "linux":
            self.app.abort("nvccache runs only on Linux, so it cannot be built here")
        self._folder = tempfile.mkdtemp(prefix="nvccache-build-")
        if self.target_name == "sdist":
            return
        native = os.path.join(self.root, "src", "native")
        built = {name: compiled(name, native, self._folder) for name in _PARTS}
        notes = [f"{name}: not built: {trouble}\n" for name, (_, trouble) in built.items() if trouble]
        for note in notes:
            self.app.display_warning(f"{note.strip()} ({_LOSSES[note.partition(':')[0]]})")
        # Even if no part could be built, since the rest runs on no other system either.
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{system}"
        build_data["pure_python"] = False
        script = os.path.join(native, "launcher", "nvccache-python")
        launcher = built["launcher"][0]
        if not launcher:
            launcher = shutil.copyfile(script, os.path.join(self._folder, "nvccache"))
            os.chmod(launcher, 0o755)  # the script is not executable
        build_data["shared_scripts"] |= {launcher: "nvccache", script: "nvccache-python"}
        if redirect := built["redirect"][0]:
            os.chmod(redirect, 0o644)  # it is no command, although it is installed next to them
            build_data["shared_scripts"][redirect] = _REDIRECT
        package = [path for path in (built["observer"][0], built["class-check"][0]) if path]
        package.append(self._written("notes", "".join(notes)))  # what `doctor` says about the build
        package.append(self._written("build", build_text(self.root, version == "editable")))
        for path in package:
            place = f"{_PACKAGE}/{os.path.basename(path)}"
            if version == "editable":
                put(path, os.path.join(self.root, "src", place))
            else:
                build_data["force_include"][path] = place

    def _written(self, name: str, text: str) -> str:
        """Write a file with this text, and return its path."""
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        return path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def build_text(root: str, is_editable: bool) -> str:
    """What `--version` says about the build, with the commit if this is a checkout."""
    library = " ".join(platform.libc_ver()) or "an unknown C library"
    how = "editable" if is_editable else f"built on {platform.machine()} with {library}"
    if not os.path.exists(os.path.join(root, ".git")):  # a repository in a directory above is a different one
        return how
    argv = ["git", "-C", root, "rev-parse", "--short=10", "HEAD"]
    try:
        commit = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return how
    return f"commit {commit}, {how}"


def compiled(name: str, native: str, folder: str) -> tuple[str, str]:
    """Compile a part into `folder`; returns its path, or an empty path and a reason if none works."""
    directory, built, linkings, status = _PARTS[name]
    sources = sorted(glob.glob(os.path.join(native, directory, "*.c")))
    path = os.path.join(folder, built)
    named = os.environ.get("CC", "").strip()
    troubles = []
    for compiler, linking in itertools.product([named] if named else ["cc", "gcc", "clang"], linkings):
        argv = [*shlex.split(compiler), "-O2", "-s", "-o", path, *sources, *linking]
        try:
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if works(path, status):
                return path, ""
            troubles.append("the compiled program does not work")
        except OSError as error:
            troubles.append(f"`{compiler}`: {error.strerror}")
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or ["the compiler failed"]
            troubles.append(next((line for line in lines if "error" in line), lines[-1]))
    return "", troubles[0]


def works(path: str, status: int) -> bool:
    """Whether a built program ends with this status, or `true` still runs with a built library preloaded."""
    folder, name = os.path.split(path)  # a path with blanks cannot be in LD_PRELOAD
    argv, environ = ([path], None) if status else (["true"], {**os.environ, "LD_PRELOAD": f"./{name}"})
    ended = subprocess.run(argv, cwd=folder, env=environ, check=False, stderr=subprocess.PIPE)
    return ended.returncode == status and not (ended.stderr and status == 0)


def put(built: str, path: str) -> None:
    """Install a file by renaming, and only if it differs, since a tool may be about to load it."""
    if os.path.exists(path) and filecmp.cmp(built, path, shallow=False):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.{os.getpid()}"
    shutil.copy2(built, new)
    os.replace(new, path)
