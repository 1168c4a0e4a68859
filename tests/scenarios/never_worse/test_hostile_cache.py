"""A cache directory with files planted by an attacker: nothing outside it is touched, nothing hangs.

Paths come from the table of the layout and from a compile's entries. Each case has a seed and a
kind of file, of which it plants at least one. The next compile must equal plain nvcc's, and files outside the
cache must be unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest

import kept_records
from installations import launcher_of_tree
from nvccache.store import layout, store
from nvccache.store.cachedir_tag import NAME as TAG
from scenarios.support.toolkits import HOST_OPTIONS
from unprivileged import NOBODY
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
PLANTINGS = 40  # of each kind; one by default
COMMANDS = [
    ("stats",),
    ("stats", "--reset"),
    ("explain", "a.o"),
    ("explain",),
    ("clean", "--max-size", "1K"),
    ("clean", "--older-than", "0s"),
    ("clean", "--all"),
]
LONGEST = 60  # seconds; opening a FIFO without a writer never returns
SECRET = b"-----BEGIN PRIVATE KEY-----\n"
KEY = "0123456789abcdef" * 2  # as a temporary file has; twice that is one
NAMES = {  # of each pattern of the layout, some that it allows
    "": ["usage-v2", "usage-v1", TAG],
    "tmp": [KEY],
    "journal": ["usage-v4", "calls-v1.log", "calls-v2.log", "calls-v3.log", "calls-v4.log",
                "calls-v7.log", "recent-v2.log", "recent-v3.log", "totals-v2.json", "folding-v2.1-1.log",
                "folding-v6.1-1.log", "events-v6.1-1.log", "totals-v1.json.1"],
    "locks": ["0.lock", "a.lock", "usage.lock", "journal.lock"],
    "locks/running": [KEY, KEY * 2],
    "remote": [f"{KEY[:16]}.lock", f"{KEY[:16]}-{KEY[:16]}-{KEY[:8]}.queue"],
}  # fmt: skip


def test_the_names_are_those_of_the_layout() -> None:
    assert NAMES.keys() == layout.OUTSIDE_BUCKETS.keys()
    for folder, names in NAMES.items():
        assert all(layout.OUTSIDE_BUCKETS[folder].fullmatch(name) for name in names)


class Outside:
    """Files next to the cache that it must not touch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "key").write_bytes(SECRET)
        (directory / "key").chmod(0o600)
        for name in (KEY, "calls-v2.log", "0.lock", f"ab/{KEY}", f"tmp/{KEY}", f"running/{KEY}"):
            path = directory / "folder" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(SECRET)
        for path in directory.rglob("*"):
            os.utime(path, (10**9, 10**9))
        self.before = self.now()

    def now(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in sorted(self.directory.rglob("*")):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.directory))] = (status.st_mode, status.st_mtime_ns, content)
        return found


def _plant(path: Path, kind: str, outside: Outside, choose: random.Random) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link to a file":
        path.symlink_to(outside.directory / "key")
    elif kind == "link to a folder":
        path.symlink_to(outside.directory / "folder")
    elif kind == "link to nothing":
        path.symlink_to(outside.directory / "new")
    elif kind == "second name":
        os.link(outside.directory / "key", path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket must be short
            listener.bind(path.name)
            os.chdir(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
        if os.geteuid() == 0:
            path.unlink()
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    elif kind == "folder":
        (path / "x").mkdir(parents=True)
    elif kind == "huge":
        with open(path, "wb") as stream:
            stream.truncate(1 << 42)
    elif kind == "bomb":
        path.write_bytes(_bomb())
    elif kind == "deep":
        path.write_bytes(b'{"folded": "", "counters": ' + b"[" * 200_000)
    elif kind == "of somebody else":
        path.write_bytes(choose.randbytes(100))
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    elif kind == "not to be read":
        path.write_bytes(b"")
        path.chmod(0)


KINDS = (
    "link to a file", "link to a folder", "link to nothing", "second name", "fifo", "socket", "device",
    "folder", "huge", "bomb", "deep", "of somebody else", "not to be read",
)  # fmt: skip


@functools.cache
def _bomb() -> bytes:
    import zstandard

    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=3 << 30)
    block = bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(3 << 10)), compressor.flush()])


def _places(cache: Path) -> list[Path]:
    """All paths that exist, and all that nvccache could create."""
    beside = [cache / folder / name for folder, names in NAMES.items() for name in names]
    in_buckets = [
        cache / bucket / "ab" / f"ab{(KEY * 2)[2:]}{end}" for bucket in store.BUCKETS for end in ("", ".zst")
    ]
    possible = [*beside, *in_buckets]
    return sorted({*cache.rglob("*"), *possible, *(path.parent for path in possible)} - {cache})


def _choose_place(cache: Path, choose: random.Random) -> Path | None:
    """One of them, each part of the layout with the same chance; None if it cannot be reached any more."""
    places = _places(cache)
    part = choose.choice(sorted({place.relative_to(cache).parts[0] for place in places}))
    place = choose.choice([place for place in places if place.relative_to(cache).parts[0] == part])
    above = [parent for parent in place.parents if cache in parent.parents]
    is_blocked = any(parent.is_symlink() or (parent.exists() and not parent.is_dir()) for parent in above)
    return None if is_blocked else place


def _run(workspace: Workspace, *argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(launcher_of_tree()), *argv],
        cwd=workspace.directory,
        env={**workspace.environ, "NVCCACHE_LOG": str(workspace.directory.parent / "log")},
        capture_output=True,
        timeout=LONGEST,
        check=False,
    )


def _command(workspace: Workspace, *argv: str) -> None:
    """Run an nvccache command, which may fail, but must neither hang nor end in a traceback."""
    done = _run(workspace, *argv)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert SECRET not in done.stdout + done.stderr


def _forget_calls(cache: Path) -> None:
    if (cache / store.REPLAY).is_dir() and not (cache / store.REPLAY).is_symlink():
        shutil.rmtree(cache / store.REPLAY, ignore_errors=True)
    if (cache / store.RECORD).is_dir() and not (cache / store.RECORD).is_symlink():
        for path in (cache / store.RECORD).glob("*/*"):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > 1 << 26:
                continue  # planted
            with contextlib.suppress(OSError, ValueError):
                if kept_records.is_of_call(path.read_bytes().partition(b"\n")[2]):
                    path.unlink()


def _compile(workspace: Workspace, expected: bytes) -> None:
    log = workspace.directory.parent / "log"
    log.unlink(missing_ok=True)
    done = _run(workspace, workspace.nvcc, "-c", "a.cu", "-o", "a.o", *HOST_OPTIONS)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # Without `-keep` nvcc names temporary files in the object.
    log_text = log.read_bytes()
    is_plain = b"] left to nvcc: " in log_text or b"] bypass " in log_text
    assert is_plain or (workspace.directory / "a.o").read_bytes() == expected, log_text
    (workspace.directory / "a.o").unlink()


def _check(workspace: Workspace, expected: bytes, choose: random.Random) -> None:
    """Compile as it is, touched, and from stages, with a command in between."""
    steps = [
        lambda: None,
        lambda: os.utime(workspace.directory / "a.cu"),
        lambda: _forget_calls(workspace.cache),
        lambda: _command(workspace, *choose.choice(COMMANDS)),
    ]
    for step in choose.sample(steps, 3):
        step()
        _compile(workspace, expected)


@pytest.mark.by_default(
    "link to a file-0",
    "link to a folder-0",
    "fifo-0",
    "device-0",
    "folder-0",
    "huge-0",
    "bomb-0",
    "of somebody else-0",
)
@pytest.mark.parametrize("number", range(PLANTINGS))
@pytest.mark.parametrize("kind", KINDS)
def test_planted_files_lead_nowhere(
    primed: tuple[Workspace, bytes], kind: str, number: int, tmp_path: Path
) -> None:
    workspace, expected = primed
    choose = random.Random(f"{kind} {number}")
    outside = Outside(tmp_path / "outside")
    for count in range(choose.choice((1, 1, 3, 10))):
        place = _choose_place(workspace.cache, choose)
        if place:
            _plant(place, choose.choice(KINDS) if count else kind, outside, choose)
    _check(workspace, expected, choose)
    assert outside.now() == outside.before
