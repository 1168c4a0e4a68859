"""Control groups: which directories may have limits, and how many cores these leave."""

from __future__ import annotations

import os

import pytest

from nvccache.machine import slots


@pytest.fixture
def found(tmp_path):
    """The directories below the mount, for a controller and the lines of /proc/self/cgroup."""

    def find(controller: str, text: str) -> list[str]:
        (tmp_path / "own").write_text(text)
        return list(slots.directories(controller, str(tmp_path / "own"), ""))

    return find


def test_the_own_group_and_all_above_it(found):
    assert found("cpu", "0::/a/b\n") == ["/a/b", "/a", "", "/unified/a/b", "/unified/a", "/unified"]
    assert found("cpu", "0::/\n") == ["", "/unified"]


def test_a_file_that_cannot_be_read_is_empty(tmp_path):
    assert slots.read(str(tmp_path / "none")) == slots.read(str(tmp_path)) == ""
    (tmp_path / "bytes").write_bytes(b"0::/\xff\n")
    assert slots.read(str(tmp_path / "bytes")) == "0::/\udcff\n"


OF_FIRST_VERSION = "9:name=systemd:/a\n4:memory:/b\n3:cpuset:/a\n2:{}:/a\n0::/\n"


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, 8),
        (None, {}, 8),
        ("", {}, 8),
        ("garbage\n0\n::\n4:cpu\n", {}, 8),
        # rounded up
        ("0::/a/b\n", {"a/b/cpu.max": "300000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "1000 100000\n"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "0 100000\n"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "9900000 100000\n"}, 8),
        # of outer groups, and not of others
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "500000 100000"}, 2),
        ("0::/a\n", {"b/cpu.max": "100000 100000\n"}, 8),
        # where the mount shows only the own group
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/docker/1f2e\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/../..\n", {"cpu.max": "150000 100000\n"}, 2),
        # of the first version, and where both are mounted
        (
            OF_FIRST_VERSION.format("cpu"),
            {"cpu/a/cpu.cfs_quota_us": "150000\n", "cpu/a/cpu.cfs_period_us": "50000\n"},
            3,
        ),
        (
            OF_FIRST_VERSION.format("cpu,cpuacct"),
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "150000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "50000\n"},
            3,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ("1:memory:/\n0::/a\n", {"unified/a/cpu.max": "400000 100000\n"}, 4),
    ],
)
def test_quotas_limit_the_cores(tmp_path, monkeypatch, own, files, cores):
    """On a machine with eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert slots.usable_cores(str(tmp_path / "own"), str(tmp_path / "mount")) == list(range(cores))


def test_affinity_limits_the_cores(monkeypatch):
    assert set(slots.usable_cores()) <= os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert slots.usable_cores() == [3]
