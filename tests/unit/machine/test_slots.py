"""Counting cores, sharing the pool between processes, and the slots of one call."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from nvccache.machine.slots import Pool, Slots, open_jobserver, pool_directory, pool_of


def test_job_slots_are_in_a_private_directory_of_this_user(tmp_path):
    directory = pool_directory((str(tmp_path),))
    assert directory == f"{tmp_path}/nvccache-{os.geteuid()}"
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert pool_directory((str(tmp_path),)) == directory


@pytest.mark.parametrize("kind", ["missing", "file", "link", "foreign"])
def test_job_slots_are_never_in_a_directory_that_others_could_exchange(tmp_path, monkeypatch, kind):
    first, second = tmp_path / "first", tmp_path / "second"
    own = first / f"nvccache-{os.geteuid()}"
    if kind != "missing":
        first.mkdir()
    second.mkdir()
    if kind == "file":
        own.write_text("")
    elif kind == "link":
        own.symlink_to(tmp_path)
    elif kind == "foreign":
        monkeypatch.setattr(os, "lstat", lambda path: os.stat_result([stat.S_IFDIR, 0, 0, 0, -1, *[0] * 5]))
    expected = "" if kind == "foreign" else f"{second}/{own.name}"
    assert pool_directory((str(first), str(second))) == expected


def numbers_of(pool):
    """The numbers of the free slots."""
    taken = list(iter(pool.take, None))
    for slot in taken:
        slot.release()
    return [slot.number for slot in taken]


def test_calls_share_job_slots_only_for_the_cores_they_share(tmp_path):
    """Two jobs of a batch system on one node have the same user, but no core in common."""
    first, second, both = (pool_of(cores, str(tmp_path)) for cores in ([0, 1], [2, 3], [1, 2]))
    taken = [first.take(), first.take()]
    assert first.take() is None
    assert numbers_of(second) == [2, 3]
    assert numbers_of(both) == [2]
    assert numbers_of(pool_of([0, 1], str(tmp_path))) == []
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("slot-*")} == {0o600}
    for slot in taken:
        slot.release()
    assert numbers_of(both) == [1, 2]


def test_a_jobs_setting_limits_or_extends_the_slots_beyond_the_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 16)
    assert numbers_of(pool_of([2, 3], str(tmp_path), jobs=1)) == [2]
    assert numbers_of(pool_of([2, 3], str(tmp_path), jobs=4)) == [2, 3, 16, 17]


HOLDER = """
import sys
from nvccache.machine.slots import Pool
taken = [Pool(sys.argv[1], range(3)).take() for _ in range(2)]
print(*map(bool, taken), flush=True)
sys.stdin.read()
"""


def test_processes_share_job_slots_and_a_killed_one_frees_its_slots(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True True\n"
        pool = Pool(str(tmp_path), range(3))
        third = pool.take()
        assert third
        before = os.listdir("/proc/self/fd")
        assert pool.take() is None
        assert os.listdir("/proc/self/fd") == before
        holder.send_signal(signal.SIGKILL)
    taken = [pool.take() for _ in range(3)]
    assert [bool(slot) for slot in taken] == [True, True, False]
    for slot in [third, *taken[:2]]:
        slot.release()


def test_a_released_job_slot_is_free_even_if_a_child_inherited_it(tmp_path):
    pool = Pool(str(tmp_path), range(1))
    slot = pool.take()
    held = [name for name in os.listdir("/proc/self/fd") if is_link_to(name, f"{tmp_path}/slot-0")]
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[int(held[0])]):
        slot.release()
        again = pool.take()
        assert again
        again.release()


def is_link_to(name, target):
    try:
        return os.readlink(f"/proc/self/fd/{name}") == target
    except OSError:
        return False


@pytest.mark.parametrize("kind", ["empty", "missing", "file", "links"])
def test_there_are_no_shared_job_slots_without_a_safe_directory(tmp_path, kind):
    (tmp_path / "file").write_text("")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "slot-0").symlink_to(tmp_path / "file")
    assert Pool("" if kind == "empty" else str(tmp_path / kind), range(1)).take() is None


def test_a_call_uses_its_own_job_slot_before_shared_ones(tmp_path):
    pool = Pool(str(tmp_path), range(3))
    slots = Slots(pool)
    taken = [slots.take() for _ in range(4)]
    assert [slot and slot.is_own for slot in taken] == [True, False, False, None]
    assert not slots.may_become_free()
    for slot in (taken[0], taken[0], taken[2]):
        slots.release(slot)
        assert slots.may_become_free()
    assert [slot and slot.is_own for slot in (slots.take(), slots.take(), slots.take())] == [
        True,
        False,
        None,
    ]
    slots.release_all()
    slots.release_all()
    assert numbers_of(pool) == [0, 1, 2]
    assert Slots(Pool("", ())).take().is_own, "without a condition"


TOKENS = b"ab"


@pytest.fixture
def fifo(tmp_path):
    """A fifo with two tokens, as from make."""
    os.mkfifo(tmp_path / "fifo")
    descriptor = os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK)
    os.write(descriptor, TOKENS)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("cores", [1, 9])
def test_under_make_each_further_job_slot_needs_a_jobserver_token(tmp_path, fifo, cores):
    """And nothing else: neither do free cores help, nor does it wait for one."""
    pool = Pool(str(tmp_path), range(cores))
    descriptor = open_jobserver({"MAKEFLAGS": f"ks -j4 --jobserver-auth=fifo:{tmp_path}/fifo -- A=b"})
    slots = Slots(pool, descriptor)
    taken = [slots.take() for _ in range(4)]
    assert [slot and slot.is_own for slot in taken] == [True, False, False, None]
    assert len(numbers_of(pool)) == max(0, cores - 3), "other calls see that the machine is busy"
    assert slots.may_become_free()
    slots.release(taken[0])
    for _ in range(2):
        slots.release(taken[1])
    assert os.read(fifo, 10) == b"a", "the same byte, and once"
    slots.release_all()
    assert os.read(fifo, 10) == b"b"
    assert len(numbers_of(pool)) == cores
    os.close(descriptor)


@pytest.mark.parametrize(
    "makeflags",
    [
        "",
        "ks -j4",
        "--jobserver-auth=fifo:{0}/fifo --jobserver-auth=fifo:{0}/none",
        "--jobserver-auth=fifo:{0}/file",
        "--jobserver-auth=3,4",
    ],
)
def test_a_jobserver_in_makeflags_is_used_only_if_it_is_a_fifo(tmp_path, fifo, makeflags):
    (tmp_path / "file").write_text("")
    assert open_jobserver({"MAKEFLAGS": makeflags.format(tmp_path)}) == -1


def test_a_running_tool_gets_a_free_pool_slot_before_another_starts(tmp_path):
    """Otherwise a call would run two tools when only one slot has become free."""
    pool = Pool(str(tmp_path), range(1))
    taken = pool.take()
    slots = Slots(pool)
    own = slots.take()
    assert not own.pool_slot
    taken.release()
    assert slots.take() is None
    assert own.pool_slot
    assert pool.take() is None
    slots.release(own)
    assert pool.take() is not None
