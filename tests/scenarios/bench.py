"""A workspace put back as it was before each run, so that plain nvcc and nvccache start from the same files.

Compared are the exit status, standard output, standard error, and the files afterwards: which there are,
their modes, links, contents, and whether they were written at all. What plain nvcc makes differently on
every run, since it names its temporary files in it, is compared with `nvcc -keep`, which does not.
"""

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
from collections.abc import Iterator
from pathlib import Path

import filelock

from nvccache import journal
from scenarios.command_lines import Line
from workspaces import OLD_ENOUGH, REFERENCE_KEEP_DIRECTORY, Counters, Workspace

CCBIN = os.environ.get("NVCCACHE_TEST_CCBIN", "")
_TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_")
_FATBIN = b"\x50\xed\x55\xba"  # the beginning of such a file
_MILLISECONDS = re.compile(rb"Compile time = [0-9.]+ ms")
_MODULE_ID = re.compile(rb"_[0-9a-f]{8}_(\d+)_")
_TIME_AND_PROCESS = re.compile(rb"_[0-9a-f]{8}_\d+")


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
    """A workspace that can be put back as it was before each run."""

    def __init__(self, line: Line, workspace: Workspace, release: tuple[int, int]) -> None:
        self.line = line
        self.release = release
        self.warm = line.warm_before_13 if line.warm_before_13 and release < (13, 0) else line.warm
        self.workspace = workspace
        root = workspace.directory.parent
        self.directory = workspace.directory
        self.cwd = self.directory / line.cwd
        self.pristine = root / "pristine"
        self.temporary = root / "temporary"
        self.bin = root / "bin"
        self.environ = {**workspace.environ, "TMPDIR": str(self.temporary)}
        self._make(root / "kept")

    def plain(self) -> Run:
        return self._run([self.workspace.nvcc, *self._arguments()])

    def cached(self) -> tuple[Run, Counters]:
        """Run through nvccache, and count what that alone added to the journal."""
        words, path = [sys.executable, "-m", "nvccache", self.workspace.nvcc], self.environ["PATH"]
        if self.line.is_shim:
            words, path = ["nvcc"], f"{self.bin}:{path}"
        journal.reset(str(self.workspace.cache))
        run = self._run([*words, *self._arguments()], PATH=path)
        return run, self.workspace.counters()

    def reference(self) -> Run:
        with self._keep_directory() as kept:
            words = [self.workspace.nvcc, *self._arguments(), "-keep", "-keep-dir", str(kept)]
            return self._run(words)

    def _make(self, kept: Path) -> None:
        for name, text in self.line.all_files.items():
            self.workspace.write(name, text)
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir()
        self.bin.mkdir()
        (self.bin / "nvcc").symlink_to(Path(sys.executable).with_name("nvccache"))
        nvcc = shlex.join([self.workspace.nvcc, *_ccbin(), "-keep", "-keep-dir", str(kept)])
        if self.line.prepare:
            kept.mkdir()
            environ = {**self.environ, "NVCC": nvcc}
            subprocess.run(["sh", "-euc", self.line.prepare], cwd=self.directory, env=environ, check=True)
        _copy(self.directory, self.pristine)

    def _run(self, words: list[str], **variables: str) -> Run:
        _copy(self.pristine, self.directory)
        shutil.rmtree(self.temporary)
        self.temporary.mkdir()
        time.sleep(OLD_ENOUGH)
        environ = {**self.environ, **dict(map(self._filled, self.line.environ.items())), **variables}
        done = subprocess.run(
            words, cwd=self.cwd, env=environ, input=self.line.stdin, capture_output=True, check=False
        )
        files = {name: self._read(name) for name in _names(self.directory)}
        temporary = [os.fsdecode(_shortened(os.fsencode(name))) for name in _names(self.temporary)]
        return Run(done.returncode, done.stdout, done.stderr, files, temporary)

    def _arguments(self) -> list[str]:
        words = [self._fill(word) for word in shlex.split(self.line.command)]
        names_compiler = any(word.partition("=")[0] in ("-ccbin", "--compiler-bindir") for word in words)
        return words if names_compiler else [*_ccbin(), *words]

    def _filled(self, item: tuple[str, str]) -> tuple[str, str]:
        return item[0], self._fill(item[1])

    def _fill(self, word: str) -> str:
        compiler = CCBIN or shutil.which("g++", path=self.environ["PATH"]) or ""
        word = word.replace("{ccbin}", compiler).replace("{ccbin_directory}", os.path.dirname(compiler))
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


def _ccbin() -> list[str]:
    return ["-ccbin", CCBIN] if CCBIN else []


def _copy(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@functools.cache
def release_of(nvcc: str) -> tuple[int, int]:
    text = subprocess.run([nvcc, "--version"], capture_output=True, check=True).stdout.decode()
    found = re.search(r"release (\d+)\.(\d+)", text)
    assert found
    return int(found.group(1)), int(found.group(2))


def _shortened(name: bytes) -> bytes:
    return _TEMPORARY.sub(b"", name)


def _plain_text(text: bytes, bench: Bench) -> bytes:
    """Diagnostics without what differs from one plain run to the next."""
    text = _TEMPORARY.sub(b"", text.replace(os.fsencode(bench.temporary) + b"/tmpxft_", b"tmpxft_"))
    return _MILLISECONDS.sub(b"Compile time = # ms", text)


def assert_same_streams(plain: Run, cached: Run, bench: Bench) -> None:
    assert _plain_text(cached.stderr, bench) == _plain_text(plain.stderr, bench)
    assert cached.status == plain.status
    assert _plain_text(cached.stdout, bench) == _plain_text(plain.stdout, bench)


def assert_same_files(plain: Run, cached: Run, bench: Bench) -> None:
    assert list(cached.files) == list(plain.files)
    assert set(cached.temporary) <= set(plain.temporary)
    kept: Run | None = None
    for name, expected in plain.files.items():
        found = cached.files[name]
        assert _without_content(found) == _without_content(expected), name
        wanted = expected.content
        if _TEMPORARY.search(wanted) and not _TEMPORARY.search(found.content):
            kept = kept or bench.reference()
            wanted = kept.files[name].content
        assert_same_content(found.content, wanted, name, bench)


def _without_content(file: File) -> File:
    return dataclasses.replace(file, content=b"")


def assert_same_content(found: bytes, wanted: bytes, name: str, bench: Bench) -> None:
    found, wanted = _TEMPORARY.sub(b"", found), _TEMPORARY.sub(b"", wanted)
    if found == wanted:
        return
    heads = _ids_with_process(wanted)
    assert heads, f"{name} differs"
    assert bench.warm == "miss" or not _ids_with_process(found), f"{name} has a process id in it"
    assert _without_ends(_readable(found, bench), heads) == _without_ends(_readable(wanted, bench), heads), (
        name
    )


def _ids_with_process(content: bytes) -> list[bytes]:
    """The module ids made of time and process, without these."""
    ends = (match.end() + int(match[1][-3:]) for match in _MODULE_ID.finditer(content))
    starts = (match.start() for match in _MODULE_ID.finditer(content))
    return sorted(
        {content[s:e] for s, e in zip(starts, ends, strict=True) if _TIME_AND_PROCESS.match(content, e)}
    )


def _without_ends(text: bytes, heads: list[bytes]) -> list[bytes]:
    """The lines of a text, in any order, without what the last part of a module id decides.

    That is the part itself, and the lengths in mangled names that hold the id.
    """
    for head in heads:
        text = re.sub(re.escape(head) + rb"_[0-9a-f]{8}(_\d+)?", head, text)
        text = re.sub(rb"\w*" + re.escape(head) + rb"\w*", lambda name: re.sub(rb"\d", b"", name[0]), text)
    return sorted(text.splitlines())


def _readable(content: bytes, bench: Bench) -> bytes:
    """What an object holds, as far as the length of the module id does not show in it."""
    if not content.startswith((b"\x7fELF", _FATBIN)):
        return content
    path = bench.directory.parent / "object"
    path.write_bytes(content)
    dumps = [["nm", "--format=just-symbols"], ["objdump", "-d"]]
    cuobjdump = Path(bench.workspace.nvcc).with_name("cuobjdump")
    if cuobjdump.exists():
        dumps.append([str(cuobjdump), "-ptx", "-sass"])
    return b"".join(bench.workspace.run([*words, path]).stdout for words in dumps)
