"""What is sent with a stage: a tool, its libraries, and the check of the processor's class."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from remote_execution.sent_work import NEEDS_CHECK, sorting

from nvccache.remote_execution import faults, shipped
from nvccache.remote_execution.faults import AwayError
from nvccache.store.store import Store
from nvccache.toolkit import loader, processor

SORT = shutil.which("sort") or "sort"
LOADER = "/lib64/ld-linux-x86-64.so.2"
needs_x86 = pytest.mark.skipif(not os.path.exists(LOADER), reason=f"there is no {LOADER}")


@NEEDS_CHECK
def test_a_tool_runs_with_the_loader_and_the_libraries_that_are_sent(tmp_path: Path, cache: Store) -> None:
    tool = sorting(tmp_path, cache).tool
    names = {file.name.split("/")[0] for file in tool.files}
    assert names == {"bin", "lib"}
    assert any("libc.so" in file.name for file in tool.files)
    words = tool.words("/tree/")
    assert words[0] == "/tree/bin/class-check"
    assert words[-1] == "/tree/bin/sort"
    assert words[words.index("--") + 1].startswith("/tree/lib/ld")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT"])
def test_nothing_is_sent_that_the_loader_is_told_to_add_to(cache: Store, name: str) -> None:
    environ = {"PATH": os.environ["PATH"]}
    loaded = loader.of_program(SORT, environ, cache)
    with pytest.raises(AwayError):
        shipped.of_tool(SORT, loaded, {**environ, name: "/lib/x.so"}, cache)


def test_without_the_check_nothing_is_sent(cache: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "CHECK", "/dev/null/class-check")
    environ = {"PATH": os.environ["PATH"]}
    with pytest.raises(AwayError) as caught:
        shipped.of_tool(SORT, loader.of_program(SORT, environ, cache), environ, cache)
    assert caught.value.word == faults.NOT_INSTALLED


def test_digests_of_tools_are_remembered_until_they_change(tmp_path: Path, cache: Store) -> None:
    path = tmp_path / "tool"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    first = shipped.digest_of_file(str(path), cache)
    path.write_bytes(b"two")
    os.utime(path, (1, 1))
    assert shipped.digest_of_file(str(path), cache) != first
    assert first[1] == 3


@NEEDS_CHECK
@needs_x86
def test_the_check_lets_this_processor_pass_and_no_other(cache: Store) -> None:
    said = processor.features(LOADER, os.environ, cache, is_of_tool=True)
    checks = processor.checks_of(said)
    assert checks

    def status(checks: list[str]) -> int:
        words = [shipped.CHECK, *checks, "--", LOADER, SORT, "/dev/null"]
        return subprocess.run(words, capture_output=True, check=False).returncode

    assert status(checks) == 0
    for number, check in enumerate(checks):
        place, _, bits = check.partition("=")
        other = f"{place}={int(bits, 16) ^ int(place.partition('&')[2], 16):x}"
        assert status([*checks[:number], other, *checks[number + 1 :]]) == 97
    assert status(["7f.0&1=0"]) == 97  # what the loader says nothing of
    assert status(["nonsense"]) == 97
    assert status([]) == 98


@NEEDS_CHECK
@needs_x86
def test_a_line_is_a_check_as_well() -> None:
    said = subprocess.run([LOADER, "--list-diagnostics"], capture_output=True, check=True).stdout.decode()
    line = next(line for line in said.splitlines() if line.startswith("dl_platform="))

    def status(check: str) -> int:
        words = [shipped.CHECK, check, "--", LOADER, SORT, "/dev/null"]
        return subprocess.run(words, capture_output=True, check=False).returncode

    assert status("=" + line) == 0
    assert status("=" + line[:-1]) == 97
    assert status("=dl_platform=other") == 97


def test_classes_that_cannot_be_checked_give_no_checks() -> None:
    known = processor.checks_of("0.2:10001000 1.1:20 2.2:0")
    assert known == ["0.2&10081000=10001000", "1.1&20=20", "2.2&10000=0"]
    assert processor.checks_of("0.2:7 1.1:20 2.2:0 3.0:5")[0] == "0.2&ffffffff=7"
    assert processor.checks_of("dl_hwcap=0x5\ndl_platform=a") == ["=dl_hwcap=0x5", "=dl_platform=a"]
    assert processor.checks_of(processor.unclassified({})) == []
    assert processor.checks_of("") == []
