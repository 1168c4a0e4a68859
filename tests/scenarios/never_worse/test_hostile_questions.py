"""Records and memos that name a program to be run or a file to be opened, with the right checksums.

What a record says of the machine is checked by asking, and the answer of a dynamic loader is had by running
it: neither which program that is nor what is opened is for the cache to decide.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kept_records
from installations import launcher_of_tree
from nvccache.files import elf
from nvccache.records import facts
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.toolkit import processor
from scenarios.never_worse.primed_cache import check_compiles, check_hits, compile_cached
from scenarios.support.cases import OLD_ENOUGH
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

LOADER = elf.interpreter("/proc/self/exe") or ""
LONGEST = 60  # seconds; opening a FIFO without a writer never returns
MACHINE_OF_INPUT_RECORD = 15
# As a child, since it must not hang or eat up this process.
ASK = """\
import os, resource, sys
from nvccache.files import keys
from nvccache.records import facts
from nvccache.store.store import Store
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
kind, path, cache = sys.argv[1:]
if kind == "digest":
    try:
        keys.digest_file(path)
    except OSError:
        print("refused")
elif not facts.answer(kind, path, os.environ, Store(cache)):
    print("refused")
"""


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A program that leaves a trace, and poses as a loader."""
    path = tmp_path / "ld-evil.so.2"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/has_run\necho 'version.version=\"2.36\"'\n")
    path.chmod(0o755)
    return path


def has_run(evil: Path) -> bool:
    return evil.with_name("has_run").exists()


@pytest.mark.parametrize("name", ["fifo", "/dev/zero", "directory", "missing"])
@pytest.mark.parametrize("kind", ["digest", facts.FEATURES, facts.LIBRARIES])
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, kind: str, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    subject = os.path.join(tmp_path, name)
    if kind == facts.LIBRARIES:
        link = tmp_path / "ld.so.cache"
        link.symlink_to(subject)
        subject = f"{link}:libc.so.6"
    # What is missing is an answer: then the loader finds nothing there.
    refused = b"" if (kind, name) == (facts.LIBRARIES, "missing") else b"refused\n"
    argv = [sys.executable, "-c", ASK, kind, subject, tmp_path / "cache"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=LONGEST)
    assert (done.returncode, done.stdout) == (0, refused), done.stderr.decode()


def test_of_regular_files_only_those_of_a_loader_are_read(tmp_path: Path) -> None:
    cache = Store(str(tmp_path / "cache"))
    other = tmp_path / "notes"
    other.write_bytes(b"precious")
    assert facts.answer(facts.LIBRARIES, f"{other}:libc.so.6", {}, cache) == ""
    for large, names in ((tmp_path / "ld.so.cache", ["libc.so.6"]), (tmp_path / "ld-linux-x86-64.so.2", [])):
        with large.open("wb") as stream:
            stream.truncate(1 << 40)
        topic = facts.LIBRARIES if names else facts.FEATURES
        assert facts.answer(topic, ":".join([str(large), *names]), {}, cache) == ""


def test_a_loader_is_run_only_if_it_is_known_without_the_cache(tmp_path: Path, evil: Path) -> None:
    cache = Store(str(tmp_path / "cache"))
    assert facts.answer(facts.FEATURES, str(evil), {}, cache) == ""
    assert not has_run(evil)
    assert facts.answer(facts.FEATURES, LOADER, {}, cache)


def test_a_loader_that_a_tool_named_is_remembered(tmp_path: Path) -> None:
    """A loader elsewhere, as on NixOS, is run for the tool, and not for a record."""
    cache = Store(str(tmp_path / "cache"))
    elsewhere = tmp_path / "ld-linux.so.2"
    elsewhere.write_bytes(Path(LOADER).read_bytes() + b"\0")
    elsewhere.chmod(0o755)
    assert facts.answer(facts.FEATURES, str(elsewhere), {}, cache) == ""
    assert processor.features(str(elsewhere), {}, cache, is_of_tool=True)
    assert facts.answer(facts.FEATURES, str(elsewhere), {}, Store(cache.root))


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o664])
def test_what_others_may_write_is_no_loader_of_the_system(tmp_path: Path, monkeypatch, mode: int) -> None:
    path = tmp_path / "ld-linux-x86-64.so.2"
    path.write_text("")
    path.chmod(mode)
    monkeypatch.setattr(processor, "_SYSTEM_DIRECTORIES", (str(tmp_path),))
    is_of_root = os.stat(path).st_uid == 0
    assert processor.may_be_run(str(path)) == (is_of_root and mode == 0o644)
    assert not processor.may_be_run(str(tmp_path / "sh"))
    assert not processor.may_be_run(str(tmp_path / "ld-linux\0.so"))


def forge(recorded: Workspace, topic: str, subject: str, answer: str = "x") -> None:
    """Have every input record ask this of the machine, and no replay record be there, which asks nothing."""

    def change(parts: list[bytes]) -> None:
        parts[MACHINE_OF_INPUT_RECORD] = sections.join([topic, subject, answer])

    kept_records.change_inputs(recorded.cache, change)
    for path in recorded.cache.glob(f"{store.REPLAY}/*/*"):
        path.unlink()


@pytest.fixture
def recorded(primed: tuple[Workspace, bytes]) -> tuple[Workspace, bytes]:
    """The same with a replay record that holds: the source is rewritten for each test."""
    workspace, expected = primed
    time.sleep(OLD_ENOUGH)
    check_compiles(workspace, expected)
    return primed


def test_unanswered_facts_do_not_hold(recorded: tuple[Workspace, bytes]) -> None:
    """Not even where the record says that there is no answer."""
    workspace, expected = recorded
    forge(workspace, "nonsense", "x", "")
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, counters.outcome) == (0, "miss")
    assert (workspace.directory / "a.o").read_bytes() == expected


def test_no_record_has_a_program_run(recorded: tuple[Workspace, bytes], evil: Path) -> None:
    workspace, expected = recorded
    forge(workspace, facts.FEATURES, str(evil))
    explained = workspace.run([sys.executable, "-m", "nvccache", "explain", "a.o"])
    assert explained.status == 0
    check_compiles(workspace, expected)
    assert not has_run(evil)


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_no_record_has_a_call_wait(recorded: tuple[Workspace, bytes], tmp_path: Path, kind: str) -> None:
    workspace, expected = recorded
    subject = tmp_path / "ld.so.cache"
    if kind == "fifo":
        os.mkfifo(subject)
    else:
        subject.symlink_to("/dev/zero")
    forge(workspace, facts.LIBRARIES, f"{subject}:libc.so.6")
    compile_in_time(workspace, expected)


def compile_in_time(workspace: Workspace, expected: bytes) -> None:
    script = f'ulimit -v 4000000; exec timeout {LONGEST} "$@"'
    argv = ["sh", "-c", script, "sh", str(launcher_of_tree()), workspace.nvcc]
    done = workspace.run([*argv, "-c", "a.cu", "-o", "a.o", *HOST_OPTIONS])
    assert done.status == 0, done.stderr.decode()
    (workspace.directory / "a.o").unlink()
    check_compiles(workspace, expected)


def memos(cache: Store) -> list[tuple[str, bytes]]:
    found = []
    for path in Path(cache.root).glob(f"{store.MEMO}/*/*"):
        body = cache.find_record(store.MEMO, path.name)
        assert body is not None
        found.append((path.name, body))
    return found


def forge_memos(cache: Store, change: Callable[[bytes], bytes]) -> None:
    done = 0
    for name, body in memos(cache):
        changed = change(body)
        if changed != body:
            cache.add_record(store.MEMO, name, changed, lock=False)
            done += 1
    assert done


def test_no_memo_has_a_program_run(primed: tuple[Workspace, bytes], evil: Path) -> None:
    """What is remembered of a tool's libraries names its loader: it must be the one that the tool names."""
    workspace, expected = primed

    def change(body: bytes) -> bytes:
        if not body.startswith(b"nvccache loaded-1"):
            return body
        parts = sections.unpack("loaded-1", body, 8)
        return sections.pack("loaded-1", [os.fsencode(evil), *parts[1:]])

    forge_memos(Store(str(workspace.cache)), change)
    workspace.forget_calls()
    check_compiles(workspace, expected)
    assert not has_run(evil)
    check_hits(workspace, expected)
