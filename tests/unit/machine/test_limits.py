"""How many cores and how much memory the machine and control groups leave, and what a tool may take."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from nvccache.machine import slots

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
def test_cgroup_cpu_quotas_limit_the_cores(tmp_path, monkeypatch, own, files, cores):
    """On a machine with eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    if own is not None:
        (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert slots.usable_cores(str(tmp_path / "own"), str(tmp_path / "mount")) == list(range(cores))


def test_cpu_affinity_limits_the_cores(monkeypatch):
    assert set(slots.usable_cores()) <= os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert slots.usable_cores() == [3]


GIB = 1 << 30
MEMINFO = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine with the given files; all others are missing."""

    def make(**files: str) -> None:
        named = {"/" + name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
        monkeypatch.setattr(slots, "read", lambda path: named.get(path, ""))
        slots._memory_limits.cache_clear()

    yield make
    slots._memory_limits.cache_clear()


GROUP = "sys__fs__cgroup__build__memory_dot_"
OLD_GROUP = "sys__fs__cgroup__memory__a__memory_dot_"


@pytest.mark.parametrize(
    ("own", "files", "free"),
    [
        ("", {}, 4 * GIB),
        ("0::/build\n", {f"{GROUP}max": f"{3 * GIB}\n", f"{GROUP}current": f"{2 * GIB}\n"}, GIB),
        (
            "0::/build\n",
            {
                f"{GROUP}max": f"{3 * GIB}\n",
                f"{GROUP}current": f"{2 * GIB}\n",
                f"{GROUP}stat": f"anon 1\ninactive_file {GIB}\n",  # which it can drop
            },
            2 * GIB,
        ),
        ("0::/build\n", {f"{GROUP}max": "max\n", f"{GROUP}current": f"{2 * GIB}\n"}, 4 * GIB),
        (
            "4:memory:/a\n1:cpu:/b\n",
            {f"{OLD_GROUP}limit_in_bytes": f"{2 * GIB}\n", f"{OLD_GROUP}usage_in_bytes": f"{GIB}\n"},
            GIB,
        ),
        (
            "4:memory:/a\n",
            {f"{OLD_GROUP}limit_in_bytes": f"{2**63 - 4096}\n", f"{OLD_GROUP}usage_in_bytes": "0\n"},
            4 * GIB,
        ),
    ],
)
def test_free_memory_is_limited_by_machine_and_cgroups(machine, own, files, free):
    machine(proc__meminfo=MEMINFO, proc__self__cgroup=own, **files)
    assert slots.free_memory() == free


def test_if_free_memory_is_unknown_no_tool_waits_for_it(machine):
    machine()
    assert slots.has_memory(64 * GIB, 64 * GIB)


def test_memory_promised_to_running_tools_is_not_free(machine):
    machine(proc__meminfo=MEMINFO)
    assert slots.has_memory(GIB, 2 * GIB)
    assert not slots.has_memory(2 * GIB, 2 * GIB)


@pytest.mark.parametrize(
    ("factor", "size", "is_heavy", "expected"),
    [(72, 200, False, 14464), (72, 10, True, 5 * 1024), (1, 10, False, 74), (256, 1024, True, 262208)],
)
def test_the_memory_expected_of_a_tool_depends_on_its_input_or_the_largest_tool_so_far(
    monkeypatch, factor, size, is_heavy, expected
):
    usage = SimpleNamespace(ru_maxrss=5 << 20)  # KiB
    monkeypatch.setattr(slots.resource, "getrusage", lambda whose: usage)
    assert slots.memory_of(factor, size << 20, is_heavy=is_heavy) == expected << 20
