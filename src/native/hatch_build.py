"""Builds what is written in C into the wheel: the launcher, its library, the observer and the class check.

Without a C compiler the script that the launcher runs is the command, and the others are left out. The
class check runs before stages on other machines.

The observer is loaded into compilers, so it is built here and installed with the package: a cache that others
can write to would be no safe place for it.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Callable, Iterator
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_OPTIONS = ("-O2", "-Wall", "-Wextra", "-s")
_NO_PYTHON = 127  # what the launcher ends with where it is alone
_OBSERVER = "nvccache/native/observer.so"
_CHECK = "nvccache/native/class-check"
_NOTES = "nvccache/native/notes"  # what `doctor` has to say of the build
_BUILD = "nvccache/native/build"  # what `--version` has to say of it
_COMMIT = "src/native/commit"  # in an sdist, which has no history
_REDIRECT = "nvccache-redirect.so"  # the launcher's library, next to it
_USAGE = 98  # what the check ends with where it is asked for nothing
# Behind the user's CFLAGS: the wrappers must be the functions that they are named after, and look at their
# arguments as the real ones do; that of dlopen must end in a jump.
_OF_LIBRARY = (
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-O2",
    "-fno-lto",
    "-ftls-model=initial-exec",
    "-fno-delete-null-pointer-checks",
    "-U_FORTIFY_SOURCE",
    "-U_FILE_OFFSET_BITS",
    "-U_TIME_BITS",
)


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if sys.platform != "linux":
            self.app.abort("nvccache runs on Linux only: there is nothing to build here")
        self._folder = tempfile.mkdtemp(prefix="nvccache-build-")
        if self.target_name == "sdist":
            build_data["force_include"][self._written("commit", commit_of(self.root))] = _COMMIT
            return
        native = os.path.join(self.root, "src", "native")
        script = os.path.join(native, "launcher", "nvccache-python")
        trials = {name: Trial() for name in _BUILT}
        launcher, redirect, observer, check = (
            compiled(name, native, self._folder, trial) for name, trial in trials.items()
        )
        notes = self._written("notes", "".join(self._notes(trials)))
        build = self._written("build", build_text(commit_of(self.root), version == "editable"))
        # Also where neither could be built: what is left runs on no other system either.
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{system}"
        build_data["pure_python"] = False
        if not launcher:
            self.app.display_warning(
                "there is no launcher: no replays, and no compile where Python cannot start"
            )
            launcher = shutil.copyfile(script, os.path.join(self._folder, "nvccache"))
            os.chmod(launcher, 0o755)  # which the script lacks
        build_data["shared_scripts"][launcher] = "nvccache"
        build_data["shared_scripts"][script] = "nvccache-python"
        if redirect:
            os.chmod(redirect, 0o644)  # no command, though it is where these are
            build_data["shared_scripts"][redirect] = _REDIRECT
        else:
            self.app.display_warning("an nvcc that is a script runs without the cache")
        if not observer:
            self.app.display_warning("the tools of compiles will not be observed: there are no direct hits")
        if not check:
            self.app.display_warning("no stage can be sent to other machines")
        for built, place in ((observer, _OBSERVER), (check, _CHECK), (notes, _NOTES), (build, _BUILD)):
            if built and version == "editable":
                put(built, os.path.join(self.root, "src", place))
            elif built:
                build_data["force_include"][built] = place

    def _notes(self, trials: dict[str, Trial]) -> Iterator[str]:
        """A line for each file that was not built as it should be."""
        for name, trial in trials.items():
            if trial.note:
                self.app.display_warning(f"{name}: {trial.note}")
                yield f"{name}: {trial.note}\n"

    def _written(self, name: str, text: str) -> str:
        """The path of a new file with this text."""
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        return path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def commit_of(root: str) -> str:
    """The abbreviated commit of the checkout or sdist at `root`, or empty."""
    if os.path.exists(os.path.join(root, ".git")):  # a repository further up is somebody else's
        argv = ["git", "-C", root, "rev-parse", "--short=10", "HEAD"]
        try:
            return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""
    try:
        with open(os.path.join(root, _COMMIT), encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def build_text(commit: str, is_editable: bool) -> str:
    library = " ".join(platform.libc_ver())
    how = (
        "editable"
        if is_editable
        else f"built on {platform.machine()} with {library or 'an unknown C library'}"
    )
    return f"commit {commit}, {how}" if commit else how


class Trial:
    """How the building of one file went: what came of it, and what was in the way first."""

    def __init__(self) -> None:
        self.trouble = ""
        self.is_built = False
        self.is_without_flags = False  # the user's did not suit

    def fail(self, trouble: str) -> None:
        self.trouble = self.trouble or trouble

    @property
    def note(self) -> str:
        if not self.is_built:
            return f"not built: {self.trouble}"
        return f"built without CFLAGS and LDFLAGS: {self.trouble}" if self.is_without_flags else ""


def compilers() -> list[list[str]]:
    """The commands to try."""
    named = words_of("CC")
    return [named] if named else [["cc"], ["gcc"], ["clang"]]


def words_of(variable: str, trial: Trial | None = None) -> list[str]:
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        if trial:
            trial.fail(f"{variable}: {error}")
        return []


def compiled(name: str, native: str, folder: str, trial: Trial) -> str:
    """The path of a built file in `folder`, or empty if it cannot be compiled or does not work here.

    Compiled with the user's flags, then without.
    """
    directory, built, linkings, works = _BUILT[name]
    sources = sorted(glob.glob(os.path.join(native, directory, "*.c")))
    path = os.path.join(folder, built)
    flags, late = words_of("CFLAGS", trial), words_of("LDFLAGS", trial)
    is_odd = bool(trial.trouble)
    for cflags, ldflags in ((flags, late), ([], [])) if flags or late else (([], []),):
        for compiler, linking in itertools.product(compilers(), linkings):
            words = [*compiler, *_OPTIONS, *cflags, "-o", path, *sources, *linking, *ldflags]
            try:
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            except OSError as error:
                trial.fail(f"`{compiler[0]}`: {error.strerror}")
            except subprocess.CalledProcessError as error:
                trial.fail(_complaint(error.stderr))
            else:
                with contextlib.suppress(OSError):  # it cannot even be executed
                    trial.is_built = works(path)
                trial.is_without_flags = is_odd or [cflags, ldflags] != [flags, late]
                if trial.is_built:
                    return path
                trial.fail("what it was compiled to does not work")
    return ""


def _complaint(stderr: bytes) -> str:
    """The line that says what is wrong."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else "it failed")


def _starts(path: str) -> bool:
    """Whether a launcher runs, which finds no Python here."""
    tried = subprocess.run([path], check=False, stderr=subprocess.PIPE)
    return tried.returncode == _NO_PYTHON and tried.stderr.startswith(b"nvccache: no Python")


def _checks(path: str) -> bool:
    return subprocess.run([path], check=False, stderr=subprocess.PIPE).returncode == _USAGE


def _is_quiet(library: str) -> bool:
    """Whether a program into which the library is loaded starts another as it would without."""
    folder, name = os.path.split(library)
    environ = {**os.environ, "LD_PRELOAD": f"./{name}"}
    argv = ["sh", "-c", "exec true"]
    tried = subprocess.run(argv, cwd=folder, env=environ, check=False, stderr=subprocess.PIPE)
    return tried.returncode == 0 and not tried.stderr


def _reports(library: str) -> bool:
    """Whether a program into which the library is loaded writes a log, and nothing else."""
    folder, name = os.path.split(library)
    log = os.path.join(folder, "log")
    # The folder's own path may have blanks.
    environ = {**os.environ, "LD_PRELOAD": f"./{name}", "_NVCCACHE_SCRATCH": folder}
    with open(log, "wb"):
        pass
    tried = subprocess.run(["true"], cwd=folder, env=environ, check=False, stderr=subprocess.PIPE)
    is_written = os.path.getsize(log) > 0
    os.unlink(log)
    return is_written and tried.returncode == 0 and not tried.stderr


# For each the directory of its sources, its name, how it is linked, and whether it works. The launcher is
# linked statically where the C library can be: that starts faster, and on other systems, too. The check is
# linked so only: where it is sent there may be no C library, or another.
_BUILT: dict[str, tuple[str, str, tuple[tuple[str, ...], ...], Callable[[str], bool]]] = {
    "launcher": ("launcher", "nvccache", (("-static",), ()), _starts),
    "redirect": ("redirect", _REDIRECT, (_OF_LIBRARY,), _is_quiet),
    "observer": ("observer", "observer.so", (_OF_LIBRARY,), _reports),
    "class-check": ("class_check", "class-check", (("-static",),), _checks),
}


def put(built: str, path: str) -> None:
    """At once, and only where it is another one: a tool may be about to load it."""
    if os.path.exists(path) and filecmp.cmp(built, path, shallow=False):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.{os.getpid()}"
    shutil.copy2(built, new)
    os.replace(new, path)
