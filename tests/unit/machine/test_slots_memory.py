"""Memory: what is free, in the machine and in control groups, and what a tool may take."""

from __future__ import annotations

import pytest

from nvccache.machine import slots

GIB = 1 << 30
MEMINFO = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine with the given files; all others are missing."""

    def make(**files: str) -> None:
        named = {"/" + name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
        monkeypatch.setattr(slots, "read", lambda path: named.get(path, ""))

    return make


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
    ],
)
def test_memory_is_free_that_machine_and_groups_have_left(machine, own, files, free):
    machine(proc__meminfo=MEMINFO, proc__self__cgroup=own, **files)
    assert slots.free_memory() == free


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
