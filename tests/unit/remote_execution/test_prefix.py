"""A stage run by a launcher: what it starts, what comes back, and failing launchers."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from pathlib import Path

import pytest

from nvccache import endpoint
from nvccache.machine.process import Handle
from nvccache.remote_execution import faults, work
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.prefix import run as run_prefix
from nvccache.remote_execution.work import SCRATCH_NAME, Work
from sent_work import NEEDS_CHECK, sorting

pytestmark = NEEDS_CHECK
_AS_IT_IS = 'exec "$@"'


class Srun:
    """A launcher that prints messages of its own, as Slurm's does; `work` is the stage sent."""

    def __init__(self, folder, cache):
        self.shared = folder / "shared"
        self.work = sorting(folder, cache)
        self.path = folder / "srun"
        self._cache = cache

    def run(self, body=_AS_IT_IS, *, prefix="", **options):
        """Results with this body of the script, after its first lines."""
        self.path.write_text(f'#!/bin/sh\nshift 2\necho "srun: job 7 queued" >&2\n{body}\n')
        self.path.chmod(0o755)
        where = endpoint.parse(f"prefix:{prefix or shlex.quote(str(self.path))} -n1 --")
        for name, value in options.items():
            setattr(where, name, value)
        return run_prefix(where, self.work, str(self.shared), dict(os.environ), self._cache, Handle())

    def word(self, body=_AS_IT_IS, **options):
        """Why there is no result; no file of the stage is left."""
        with pytest.raises(ExecutorError) as caught:
            self.run(body, **options)
        assert not list(self.shared.glob("away-*"))
        return caught.value.fault


@pytest.fixture
def srun(tmp_path, cache):
    return Srun(tmp_path, cache)


def test_stderr_of_a_tool_is_returned_without_launcher_messages(srun, cache):
    tool = work.ship_tool("dd", dict(os.environ), cache)  # prints what it has copied
    arguments = [f"if={SCRATCH_NAME}/in.txt", f"of={SCRATCH_NAME}/out.txt"]
    srun.work = Work(tool, arguments, [("LC_ALL", "C")], srun.work.inputs, ["out.txt"])
    back = srun.run()
    assert back.outputs == {"out.txt": b"b\na\n"}
    assert b"srun" not in back.completed.stderr
    assert b"records in" in back.completed.stderr
    assert [path.name[:6] for path in srun.shared.iterdir()] == ["tools-"]


def test_only_named_variables_reach_a_remotely_run_tool(srun, tmp_path):
    srun.run(f'cp "$2" {tmp_path}/script\nexec "$@"')
    assert "\nenv -i LC_ALL=C bin/class-check " in (tmp_path / "script").read_text()


def test_a_tool_is_copied_for_workers_once_and_a_changed_copy_is_rejected(srun):
    srun.run()
    (folder,) = srun.shared.glob("tools-*")
    program = folder / "bin/sort"
    before = program.stat().st_ino
    srun.run()
    assert program.stat().st_ino == before
    program.unlink()
    program.write_bytes(b"another")
    assert srun.word() == faults.BROKEN


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("echo 'srun: error: Unable to contact slurm controller' >&2; exit 1", faults.UNREACHABLE),
        ("kill -9 $$", faults.UNREACHABLE),
        ("sleep 30", faults.NO_WORKERS),
        ('"$@"; sleep 30', faults.UNREACHABLE),
        ('sed -i "s/ sse4_1 / -sse4_1 /" "$2"; exec "$@"', faults.BROKEN),
        ('sed -i "s/-o \\([^ ]*\\)out.txt/-o \\1other.txt/" "$2"; exec "$@"', faults.FAILED),
        ('sed -i "s/--inhibit-cache.*/--inhibit-cache \\/nowhere/" "$2"; exec "$@"', faults.FAILED),
    ],
)
def test_each_failure_of_a_command_like_srun_is_reported_with_its_kind(srun, body, word):
    assert srun.word(body, queue=1.0, deadline=2.0) == word


def test_a_remote_launcher_may_have_a_relative_path_and_is_unreachable_if_missing(
    srun, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert srun.run(prefix="./srun").outputs
    assert srun.word(prefix="/nowhere/srun") == faults.UNREACHABLE


def test_a_remote_launcher_does_not_consume_the_builds_stdin(srun):
    ends = os.pipe()
    os.write(ends[1], b"for the build")
    os.close(ends[1])
    before = os.dup(0)
    os.dup2(ends[0], 0)
    try:
        assert srun.run('cat >/dev/null; exec "$@"').outputs
        assert os.read(0, 99) == b"for the build"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(ends[0])


@pytest.mark.parametrize("why", ["open to all", "another user's", "relative", "quote'd", "full"])
def test_a_shared_directory_that_is_unsafe_or_unwritable_is_not_used(srun, monkeypatch, why):
    """Nor one with a name that a launcher's shell reads otherwise."""
    srun.shared.mkdir()
    if why == "open to all":
        srun.shared.chmod(0o702)
    elif why == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    elif why == "full":
        monkeypatch.setattr(shutil, "copyfile", _full)
    else:
        srun.shared = Path("relative") if why == "relative" else srun.shared / why
    assert srun.word() == faults.BROKEN
    assert not [*srun.shared.rglob("*")]


def _full(*args):
    raise OSError(errno.ENOSPC, "no")


def test_directories_left_by_killed_calls_are_removed_after_two_days(srun):
    names = ["away-old", "away-new", "tools-old", "mine"]
    for name in names:
        (srun.shared / name / "below").mkdir(parents=True)
        if name != "away-new":
            os.utime(srun.shared / name, (1, 1))
    srun.run()
    assert [name for name in names if (srun.shared / name).exists()] == ["away-new", "tools-old", "mine"]


def test_arguments_with_special_characters_reach_the_tool_unchanged(srun):
    """Also through a launcher that joins them, as ssh does."""
    sent = srun.work
    srun.work = Work(
        sent.tool,
        ["-t", "$", "--key", "2", f"{SCRATCH_NAME}/in $x'.txt", "-o", f"{SCRATCH_NAME}/out.txt"],
        sent.environment, {"in $x'.txt": sent.inputs["in.txt"]}, sent.outputs,
    )  # fmt: skip
    assert srun.run('exec sh -c "$*"').outputs == {"out.txt": b"a\nb\n"}


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        ('truncate -s 1 "$out"', faults.BROKEN),
        ('printf "b\na\n" >"$out"', faults.BROKEN),
        ('rm "$out"; mkfifo "$out"', faults.BROKEN),
        ('rm "$out"', faults.BROKEN),
        ('echo "srun: warning" >>"$folder/stderr"', faults.BROKEN),
        ('rm "$folder/report"', faults.BROKEN),
        ('truncate -s 9 "$folder/report"', faults.FAILED),
        ('sed -i 1s/0/137/ "$folder/report"', faults.FAILED),
    ],
)
def test_damaged_outputs_of_a_worker_are_rejected(srun, damage, word):
    assert srun.word(f'folder=${{2%/*}}; out=$folder/{SCRATCH_NAME}/out.txt; "$@"; {damage}; exit 0') == word
