"""Reading files that an attacker may have named: regular ones as they are, endless ones not at all."""

from __future__ import annotations

import os

import pytest

from nvccache.files import keys, untrusted

ENDLESS = (
    "/proc/self/pagemap",
    "/proc/self/maps",
    "/sys/kernel/notes",
    "/proc/kcore",
    "/dev/zero",
    "fifo",
    "huge",
)


@pytest.mark.parametrize("name", ENDLESS)
def test_only_finite_regular_files_are_digested(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with open("huge", "wb") as stream:
        stream.truncate(1 << 42)
    with pytest.raises(OSError, match=r"not a regular file|No such file|Permission denied"):
        keys.digest_file(name)


def test_a_file_longer_than_its_reported_size_is_not_digested():
    descriptor = os.open("/proc/self/maps", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="the file is larger than its reported size"):
            keys.digest_descriptor(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("mode", "umask", "expected"), [(0o666, 0o022, 0o666), (0o644, 0o077, 0o600)])
def test_only_files_that_others_may_write_ignore_the_umask(tmp_path, mode, umask, expected):
    before = os.umask(umask)
    try:
        untrusted.write_atomically(str(tmp_path / "a"), str(tmp_path / "new-"), b"content", mode)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == expected
    assert (tmp_path / "a").read_bytes() == b"content"


@pytest.mark.parametrize("function", ["open", "write"])  # a signal may come while it is opened
def test_nothing_remains_of_a_file_that_cannot_be_written(tmp_path, monkeypatch, function):
    do = getattr(os, function)

    def fail(*arguments):
        do(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(KeyboardInterrupt):
        untrusted.write_atomically(str(tmp_path / "a"), str(tmp_path / "new-"), b"content", 0o600)
    assert not [*tmp_path.glob("a"), *tmp_path.glob("new-*")]
