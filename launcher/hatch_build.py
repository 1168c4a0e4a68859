"""Puts the launcher into the wheel: compiled where there is a C compiler, else as a script for sh."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_OPTIONS = ("-O2", "-Wall", "-Wextra", "-s")
_NO_PYTHON = 127  # what the launcher ends with where it is alone


class LauncherHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sources = os.path.join(self.root, "launcher")
        self._folder = tempfile.mkdtemp(prefix="nvccache-launcher-")
        launcher = compiled(os.path.join(sources, "nvccache.c"), self._folder)
        if launcher:
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"
        else:
            self.app.display_warning("no C compiler: the launcher will be a script for sh")
            launcher = os.path.join(sources, "nvccache.sh")
        build_data["shared_scripts"][launcher] = "nvccache"
        build_data["shared_scripts"][os.path.join(sources, "nvccache-python")] = "nvccache-python"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def compiled(source: str, folder: str) -> str:
    """The path of the launcher in `folder`, or empty if it cannot be compiled or run here.

    Linked statically where the C library can be: that starts faster, and on other systems, too.
    """
    named = shlex.split(os.environ.get("CC", ""))
    compilers = [named] if named else [["cc"], ["gcc"], ["clang"]]
    flags = [*_OPTIONS, *shlex.split(os.environ.get("CFLAGS", ""))]
    path = os.path.join(folder, "nvccache")
    for compiler, linking in itertools.product(compilers, (["-static"], [])):
        words = [*compiler, *flags, "-o", path, source, *linking, *shlex.split(os.environ.get("LDFLAGS", ""))]
        try:
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            tried = subprocess.run([path], check=False, stderr=subprocess.PIPE)
        except (OSError, subprocess.CalledProcessError):
            continue
        if tried.returncode == _NO_PYTHON and tried.stderr.startswith(b"nvccache: no Python"):
            return path
    return ""
