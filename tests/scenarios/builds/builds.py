"""A build directory made by plain nvcc and through the cache, always at the same path.

Plain nvcc runs with `-keep`, whose names for intermediates are the same on every run.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from installations import launcher_of_tree
from nvccache.plan.stages import tool_of
from nvccache.store import event_totals, events
from nvccache.store.event_line import Event, StageEvent
from scenarios.builds.small_project import System
from scenarios.support.ids import are_alike
from scenarios.support.toolkits import CCBIN, toolkit_of
from workspaces import OLD_ENOUGH, Result, Workspace

KEPT = "NVCC_APPEND_FLAGS"
_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib")


@dataclasses.dataclass(frozen=True)
class Made:
    """The results of a build: objects, device code, the dependencies of each, and warnings."""

    objects: dict[str, bytes]
    dependencies: dict[str, bytes]
    warnings: list[bytes]
    workspace: Workspace = dataclasses.field(compare=False)

    def differing(self, other: Made) -> list[str]:
        """The names of results that differ."""
        found = []
        for part in ("objects", "dependencies"):
            mine, others = getattr(self, part), getattr(other, part)
            for name in sorted({*mine, *others}):
                is_in_both = name in mine and name in others
                if not is_in_both or not are_alike(mine[name], others[name], self.workspace):
                    found.append(name)
        return found


class Build:
    """A project built by a build system, in `build` below the workspace."""

    def __init__(self, workspace: Workspace, system: System, keep: Path) -> None:
        self.workspace = workspace
        self.system = system
        self.directory = workspace.directory / "build"
        self.keep = keep  # where plain nvcc puts intermediate files
        self.shim = workspace.directory.parent / "shim"
        self._words = {"nvcc": workspace.nvcc, "launcher": str(launcher_of_tree()), "shim": str(self.shim)}
        self._words["make"] = shutil.which(system.programs[-1], path=workspace.environ["PATH"]) or ""
        self._words["work"] = str(workspace.directory)
        self._words["runtime"] = "Shared" if KEPT in workspace.environ else "Static"
        for name, text in system.files.items():
            workspace.write(name, self._filled(text))

    def _filled(self, text: str) -> str:
        return re.sub(r"(?<!\$)\{(\w+)\}", lambda found: self._words[found[1]], text)

    def begin(self, ours: bool) -> None:
        """Begin with a new build directory. It is configured once, and then copied."""
        shutil.rmtree(self.directory, ignore_errors=True)
        configured = self.directory.with_name("configured-by-ours" if ours else "configured")
        if configured.exists():
            shutil.copytree(configured, self.directory, symlinks=True)
        elif self.system.configure:
            argv = [*self.system.configure, *(self.system.ours if ours else self.system.plain)]
            result = self._attempt(argv, self._environ(ours))
            if result.status and not ours:
                pytest.skip(f"{self.system.name} cannot build with this toolkit")
            assert result.status == 0, result.stdout.decode() + result.stderr.decode()
            shutil.copytree(self.directory, configured, symlinks=True)
        else:
            self.directory.mkdir()

    def plainly(self) -> Made:
        """Build what is out of date with plain nvcc."""
        self.keep.mkdir(exist_ok=True)
        flags = f"{self.workspace.environ.get(KEPT, '')} -keep -keep-dir {self.keep}".strip()
        # One at a time: two sources of one name have the same intermediates.
        result = self._run([*self._command(ours=False), "-j1"], {KEPT: flags})
        return self._made(result, ours=False)

    def plainly_and_edited(self, name: str, text: str) -> tuple[Made, Made]:
        """Plain nvcc's results for the project, and with one file edited, which is then restored."""
        self.begin(ours=False)
        first = self.plainly()
        before = (self.workspace.directory / name).read_text()
        self.workspace.write(name, text)
        second = self.plainly()
        assert first.objects != second.objects
        self.workspace.write(name, before)
        return first, second

    def cached(self, jobs: int = 2) -> tuple[Made, list[Event]]:
        """Build what is out of date through the cache; the results, and the calls that were counted."""
        time.sleep(OLD_ENOUGH)
        event_totals.reset(str(self.workspace.cache))
        result = self._run([*self._command(ours=True), f"-j{jobs}"], self._environ(ours=True))
        return self._made(result, ours=True), calls_of(self.workspace)

    def is_done(self, ours: bool) -> bool:
        """Whether the build system finds nothing left to do."""
        result = self._run([*self.system.look, *self._added(ours)], self._environ(ours))
        return re.fullmatch(self.system.nothing_left, result.stdout.decode()) is not None

    def _command(self, ours: bool) -> list[str]:
        return [*self.system.build, *self._added(ours)]

    def _added(self, ours: bool) -> Sequence[str]:
        """Additions to the commands after the first one."""
        if self.system.configure:
            return ()
        return self.system.ours if ours else self.system.plain

    def _environ(self, ours: bool) -> dict[str, str]:
        if not ours or not (self.system.uses_shim or any("{shim}" in word for word in self.system.ours)):
            return {}
        if not self.shim.exists():
            argv = [sys.executable, "-m", "nvccache", "install", self.shim]
            assert self.workspace.run(argv).status == 0
        return {"PATH": f"{self.shim}:{self.workspace.environ['PATH']}"} if self.system.uses_shim else {}

    def _attempt(self, argv: Sequence[str], environ: Mapping[str, str]) -> Result:
        return self.workspace.run([self._filled(word) for word in argv], **environ)

    def _run(self, argv: Sequence[str], environ: Mapping[str, str]) -> Result:
        result = self._attempt(argv, environ)
        assert result.status == 0, result.stdout.decode() + result.stderr.decode()
        return result

    def _made(self, result: Result, ours: bool) -> Made:
        output = (result.stdout + result.stderr).splitlines()
        warnings = sorted(line for line in output if b"): warning" in line)
        return Made(self._objects(), self._dependencies(ours), warnings, self.workspace)

    def _objects(self) -> dict[str, bytes]:
        """All objects, except those of the build system's checks."""
        paths = [path for path in self.directory.rglob("*.o") if "CompilerId" not in str(path)]
        found = {str(path.relative_to(self.directory)): path.read_bytes() for path in sorted(paths)}
        assert found
        return found

    def _dependencies(self, ours: bool) -> dict[str, bytes]:
        """Dependency files, and what Ninja keeps of them instead."""
        paths = [path for path in self.directory.rglob("*.d") if path.is_file()]
        found = {str(path.relative_to(self.directory)): path.read_bytes() for path in sorted(paths)}
        if (self.directory / ".ninja_deps").exists():
            listed = self._run([*self._command(ours), "-t", "deps"], {}).stdout.decode()
            assert "STALE" not in listed
            listed = re.sub(r"deps mtime \d+ ", "", listed)
            found["ninja"] = "\n\n".join(sorted(listed.split("\n\n"))).encode()
        assert found
        return found


def calls_of(workspace: Workspace) -> list[Event]:
    """The calls that were counted since the counts were reset."""
    cache = str(workspace.cache)
    return event_totals.since_reset(events.read(cache), cache)


def outcomes(calls: Sequence[Event]) -> dict[str, str]:
    """Name of a product -> outcome of its call; a build makes none twice."""
    found = {call.product: call.outcome for call in calls}
    assert len(found) == len(calls), [(call.outcome, call.reason, call.product) for call in calls]
    return found


def _is_counted(stage: StageEvent) -> bool:
    return not stage.is_hit and tool_of(stage.kind).is_counted


def stages_run(calls: Sequence[Event]) -> list[str]:
    return sorted(stage.kind for call in calls for stage in call.stages if _is_counted(stage))


def prepare(workspace: Workspace, system: System) -> None:
    """Make the workspace find a build system's programs, and the libraries that a program links with."""
    environ = workspace.environ
    environ["PATH"] += f":{Path(sys.executable).parent}"
    for program in system.programs:
        if not shutil.which(program, path=environ["PATH"]):
            pytest.skip(f"needs {program}")
    toolkit = toolkit_of(workspace)
    present = [toolkit / name for name in _LIBRARIES if (toolkit / name).is_dir()]
    environ["LIBRARY_PATH"] = ":".join(map(str, present))
    if not any((folder / "libcudart_static.a").exists() for folder in present):
        environ[KEPT] = "-cudart=shared"
    if CCBIN:
        environ["NVCC_PREPEND_FLAGS"] = f"-ccbin {CCBIN}"
    workspace.begin_with_digests({})


def touch(path: Path) -> None:
    """Make a file newer than all its products."""
    time.sleep(0.02)
    os.utime(path)
