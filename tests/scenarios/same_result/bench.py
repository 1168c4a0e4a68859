"""A directory for one command line, which is put back as it was before each run, and edited on request."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import filelock

from installations import launcher_of_tree
from nvccache.store import event_totals
from scenarios.same_result.lines.line import Line
from scenarios.support.both_ways import described
from scenarios.support.toolkits import CCBIN, HOST_OPTIONS
from workspaces import OLD_ENOUGH, REFERENCE_KEEP_DIRECTORY, Counters, Workspace

LISTED = "and by the list"  # In messages about an outcome that is not the one expected.
TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_")
_RANDOM = re.compile(rb"(?<=-)[0-9a-f]{6}(?=\.\.)")  # in what cicc of CUDA 11 leaves when it fails


@dataclasses.dataclass(frozen=True)
class File:
    """What a path holds: `content` is a link's target for a symbolic link."""

    mode: int
    links: int
    content: bytes
    is_written: bool  # since the run began


@dataclasses.dataclass(frozen=True)
class Run:
    """One run and what it left behind."""

    status: int
    stdout: bytes
    stderr: bytes
    files: dict[str, File]
    temporary: list[str]


class Bench:
    """A workspace that can be put back as it was before each run, with its files edited or not."""

    def __init__(self, line: Line, workspace: Workspace, release: tuple[int, int]) -> None:
        self.line = line
        self.release = release
        self.warm = line.warm_in(release)
        self.workspace = workspace
        root = workspace.directory.parent
        self.directory = workspace.directory
        self.cwd = self.directory / line.cwd
        self.pristine = root / "pristine"
        self.temporary = root / "temporary"
        self.bin = root / "bin"
        self.environ = {**workspace.environ, "TMPDIR": str(self.temporary)}
        self.kept = root / "kept"
        self.temporary.mkdir()
        self.bin.mkdir()
        (self.bin / "nvcc").symlink_to(Path(sys.executable).with_name("nvccache"))
        self._make(line.all_files)

    def plain(self) -> Run:
        return self._run([self.workspace.nvcc, *self._arguments()])

    def cached(self) -> tuple[Run, Counters]:
        """Run through nvccache, and count what that alone added to the journal."""
        argv, path = [str(launcher_of_tree()), self.workspace.nvcc], self.environ["PATH"]
        if self.line.is_shim:
            argv, path = ["nvcc"], f"{self.bin}:{path}"
        self.workspace.begin_with_digests(self.line.environ)
        event_totals.reset(str(self.workspace.cache))
        run = self._run([*argv, *self._arguments()], PATH=path)
        return run, self.workspace.counters()

    def described(self, difference: str) -> str:
        """A failure, with both command lines to paste, from the same files, and what `explain` says."""
        self._put_back()
        environ = dict(map(self._filled, self.line.environ.items()))
        return described(self.workspace, self._arguments(), [difference], self.cwd, **environ)

    def reference(self) -> Run:
        with self._keep_directory() as kept:
            argv = [self.workspace.nvcc, *self._arguments(), "-keep", "-keep-dir", str(kept)]
            return self._run(argv)

    def edit(self, change: Callable[[str, str], str]) -> None:
        """Edit one file, given its name and text, and make again what was prepared from it."""
        name = self.line.edited_file
        text = change(name, self.line.all_files[name])
        if "$NVCC" in self.line.prepare:
            self._make({**self.line.all_files, name: text})
        else:
            (self.pristine / name).write_text(text)

    def _make(self, files: Mapping[str, str | bytes]) -> None:
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        for name, text in files.items():
            self.workspace.write(name, text)
        self.cwd.mkdir(parents=True, exist_ok=True)
        if self.line.prepare:
            self._emptied(self.kept)
            nvcc = shlex.join([self.workspace.nvcc, *HOST_OPTIONS, "-keep", "-keep-dir", str(self.kept)])
            environ = {**self.environ, "NVCC": nvcc}
            subprocess.run(["sh", "-euc", self.line.prepare], cwd=self.directory, env=environ, check=True)
        _copy(self.directory, self.pristine)

    def _run(self, argv: list[str], **variables: str) -> Run:
        self._put_back()
        time.sleep(OLD_ENOUGH)
        environ = {**self.environ, **dict(map(self._filled, self.line.environ.items())), **variables}
        done = subprocess.run(
            argv, cwd=self.cwd, env=environ, input=self.line.stdin, capture_output=True, check=False
        )
        files = {name: self._read(name) for name in _names(self.directory)}
        temporary = [_without_random_parts(name) for name in _names(self.temporary)]
        return Run(done.returncode, done.stdout, done.stderr, files, temporary)

    def _put_back(self) -> None:
        _copy(self.pristine, self.directory)
        shutil.rmtree(self.temporary)
        self.temporary.mkdir()

    def _arguments(self) -> list[str]:
        argv = [self._fill(word) for word in shlex.split(self.line.command)]
        names_compiler = any(word.partition("=")[0] in ("-ccbin", "--compiler-bindir") for word in argv)
        return argv if names_compiler else [*HOST_OPTIONS, *argv]

    def _filled(self, item: tuple[str, str]) -> tuple[str, str]:
        return item[0], self._fill(item[1])

    def _fill(self, word: str) -> str:
        compiler = CCBIN or shutil.which("g++", path=self.environ["PATH"]) or ""
        word = word.replace("{ccbin}", compiler).replace("{ccbin_directory}", os.path.dirname(compiler))
        word = word.replace("{toolkit}", str(Path(self.workspace.nvcc).parents[1]))
        return word.replace("{work}", str(self.directory))

    @contextlib.contextmanager
    def _keep_directory(self) -> Iterator[Path]:
        """Where the reference keeps its intermediates; objects with debug information name it."""
        if not self.line.names_keep_directory:
            yield self._emptied(self.directory.parent / "reference")
            return
        with filelock.FileLock("/tmp/nvccache-tests.lock"):
            yield self._emptied(REFERENCE_KEEP_DIRECTORY)
            shutil.rmtree(REFERENCE_KEEP_DIRECTORY)

    @staticmethod
    def _emptied(directory: Path) -> Path:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        return directory

    def _read(self, name: str) -> File:
        path, before = self.directory / name, self.pristine / name
        status = os.lstat(path)
        content, links = b"", 0
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            content, links = path.read_bytes(), status.st_nlink
        is_old = os.path.lexists(before) and os.lstat(before).st_mtime_ns == status.st_mtime_ns
        return File(status.st_mode, links, content, not is_old and not stat.S_ISDIR(status.st_mode))


def _copy(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def _without_random_parts(name: str) -> str:
    return os.fsdecode(_RANDOM.sub(b"", TEMPORARY.sub(b"", os.fsencode(name))))


@functools.cache
def release_of(nvcc: str) -> tuple[int, int]:
    text = subprocess.run([nvcc, "--version"], capture_output=True, check=True).stdout.decode()
    found = re.search(r"release (\d+)\.(\d+)", text)
    assert found
    return int(found.group(1)), int(found.group(2))
