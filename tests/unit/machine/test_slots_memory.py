"""Memory: what is free, in the machine and in control groups, and what a tool may take."""

from __future__ import annotations

import pytest

from nvccache.machine import cgroups, slots

GIB = 1 << 30
MEMINFO = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine with the given files; all others are missing."""

    def make(**files: str) -> None:
        named = {"/" + name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
        monkeypatch.setattr(cgroups, "read", lambda path: named.get(path, ""))

    return make


def files(limit: str, used: int, stat: str = "") -> dict[str, str]:
    group = "sys__fs__cgroup__build"
    return {
        "proc__meminfo": MEMINFO,
        "proc__self__cgroup": "0::/build\n",
        f"{group}__memory_dot_max": limit + "\n",
        f"{group}__memory_dot_current": f"{used}\n",
        f"{group}__memory_dot_stat": stat,
    }


def test_without_groups_the_kernel_tells(machine):
    machine(proc__meminfo=MEMINFO)
    assert slots.free_memory() == 4 * GIB


def test_a_group_leaves_less(machine):
    machine(**files(str(3 * GIB), 2 * GIB))
    assert slots.free_memory() == GIB


def test_what_a_group_can_drop_is_free(machine):
    machine(**files(str(3 * GIB), 2 * GIB, f"anon 1\ninactive_file {GIB}\n"))
    assert slots.free_memory() == 2 * GIB


def test_groups_of_the_first_version_count(machine):
    machine(
        proc__meminfo=MEMINFO,
        proc__self__cgroup="4:memory:/a\n1:cpu:/b\n",
        sys__fs__cgroup__memory__a__memory_dot_limit_in_bytes=f"{2 * GIB}\n",
        sys__fs__cgroup__memory__a__memory_dot_usage_in_bytes=f"{GIB}\n",
    )
    assert slots.free_memory() == GIB


def test_a_machine_that_does_not_tell_has_plenty(machine):
    machine()
    assert slots.has_memory(64 * GIB, 64 * GIB)


def test_there_is_room_for_what_fits_beside_the_promised(machine):
    machine(proc__meminfo=MEMINFO)
    assert slots.has_memory(GIB, 2 * GIB)
    assert not slots.has_memory(2 * GIB, 2 * GIB)


def test_larger_input_takes_more(monkeypatch):
    for is_heavy in (False, True):
        amounts = [slots.memory_of(72, size << 20, is_heavy=is_heavy) for size in (200, 10)]
        assert amounts[0] > amounts[1] > 0
    assert slots.memory_of(256, 1 << 30, is_heavy=False) > slots.memory_of(1, 1 << 30, is_heavy=False)


def test_the_largest_tool_so_far_is_expected_again(monkeypatch):
    class Usage:
        ru_maxrss = 5 << 20  # KiB

    monkeypatch.setattr(slots.resource, "getrusage", lambda whose: Usage)
    assert slots.memory_of(72, 0, is_heavy=True) == 5 * GIB
    assert slots.memory_of(1, 0, is_heavy=False) < GIB
