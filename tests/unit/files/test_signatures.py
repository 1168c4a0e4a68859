"""Stat signatures: they show every change of a file, and say when they cannot."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nvccache.files import signatures

SECOND = 10**9
NOW = 1_700_000_000 * SECOND


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.h"
    path.write_text("int a;\n")
    return path


@pytest.fixture
def on_ext4(monkeypatch):
    """Device 1 has reliable dates; for other devices see test_signatures_dates.py."""
    monkeypatch.setattr(signatures, "_kinds_by_device", {1: "ext4", 2: "lustre", 9: "squashfs"})


def of_times(modified: int, changed: int) -> tuple[int, int, int, int, int]:
    return (1, 2, 3, modified, changed)


def wait_for_the_next_stamp(directory) -> None:
    """Wait until the file system's timestamps move on."""
    probe = directory / "probe"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        time.sleep(0.002)
        probe.write_text("")


@pytest.mark.parametrize("change", ["touch", "content of the same size and date", "mode", "replace", "link"])
def test_any_change_of_a_file_alters_its_signature(file, tmp_path, change):
    before = signatures.signature_of(str(file))
    status = file.stat()
    wait_for_the_next_stamp(tmp_path)
    if change == "touch":
        os.utime(file)
    elif change == "content of the same size and date":
        file.write_text("int b;\n")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert signatures.signature_of(str(file))[:4] == before[:4]
    elif change == "mode":
        file.chmod(0o600)
    elif change == "replace":
        (tmp_path / "other").write_text("int a;\n")
        os.utime(tmp_path / "other", ns=(status.st_atime_ns, status.st_mtime_ns))
        (tmp_path / "other").rename(file)
    else:
        file.rename(tmp_path / "aside.h")
        file.symlink_to("other.h")
        (tmp_path / "other.h").write_text("int a;\n")
    assert signatures.signature_of(str(file)) != before


@pytest.mark.parametrize("path", ["missing", "nul\0", "x" * 5000, "a.h/below", ""])
def test_inaccessible_paths_have_no_signature(file, monkeypatch, path):
    monkeypatch.chdir(file.parent)
    assert signatures.signature_of(path) is None
    assert signatures.all_of(["a.h", path]) is None


def test_the_id_of_a_boot_is_that_of_the_kernel_or_empty(file, monkeypatch):
    assert signatures.of_boot() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    monkeypatch.setattr(signatures, "BOOT", str(file.with_name("missing")))
    assert signatures.of_boot() == ""


def test_a_signature_is_device_inode_size_mtime_and_ctime(file, tmp_path):
    status = file.stat()
    numbers = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    assert signatures.signature_of(str(file)) == numbers
    paths = [str(tmp_path), str(file), str(tmp_path)]
    assert signatures.all_of(paths) == [signatures.signature_of(path) for path in paths]


def test_a_signature_is_settled_only_if_both_times_of_the_file_are_old_enough():
    """By the later of both times."""
    old, young = NOW - 123_456_789, NOW - 50_000_001
    for modified, changed in ((old, old), (young, old), (old, young), (young, young)):
        assert signatures.is_settled(of_times(modified, changed), NOW) == (young not in (modified, changed))


def test_whole_second_file_dates_are_trusted_only_after_two_seconds(on_ext4):
    whole, long_ago = NOW - SECOND, NOW - 3 * SECOND
    assert not signatures.is_settled((2, *of_times(whole, whole)[1:]), NOW)
    assert signatures.is_settled((2, *of_times(long_ago, long_ago)[1:]), NOW)
    # A date set by a program says nothing about the file system: only the change time does.
    assert signatures.is_settled(of_times(whole, NOW - SECOND + 1), NOW)
    # It may have been changed up to two seconds after what the file system says.
    assert signatures.last_change(of_times(whole, whole), NOW) == NOW + SECOND


def test_dates_of_a_file_system_image_are_never_trusted(on_ext4):
    """Another image with the same made-up dates would look the same."""
    old = NOW - 10**6 * SECOND
    assert not signatures.is_settled(of_times(old, old), NOW)
    assert signatures.is_settled(of_times(old, old + 1), NOW), "unpacked from an archive with such dates"


def test_a_future_change_time_is_distrusted_but_a_future_modification_time_is_not(on_ext4):
    ahead, before = NOW + 1000 * SECOND, NOW - 3600 * SECOND - 1
    assert signatures.is_settled(of_times(ahead, before), NOW)
    assert not signatures.is_settled(of_times(before, ahead), NOW)


def test_file_signatures_survive_writing_and_reading():
    many = [(2**64 - 1, 2, 3, 4, 5), (6, 7, 8, 9, 10), (1, 2, 3, -4, -5)]  # the last: dates before 1970
    for given in ([], many[:1], many):
        assert signatures.from_text(signatures.to_text(given)) == given


@pytest.mark.parametrize(
    "text", ["1", "1 2 3 4", "1 2 3 4 5 6", "1 2 3 4 x", "1 2 3 4 5.0", "1 2 3 4 0x5", "9" * 6000, "\0"]
)
def test_malformed_text_of_file_signatures_is_refused(text):
    with pytest.raises(ValueError):
        signatures.from_text(text)
