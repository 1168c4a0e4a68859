"""Reading files that an attacker may have named: regular ones as they are, endless ones not at all."""

from __future__ import annotations

import os

import pytest

from nvccache.files import keys

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
        with pytest.raises(OSError, match="larger than its reported size"):
            keys.digest_descriptor(descriptor)
    finally:
        os.close(descriptor)
