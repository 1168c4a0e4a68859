"""A stage by a launcher: what it starts, what comes back, and what becomes of launchers that fail."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from pathlib import Path

import pytest
from remote_execution.sent_work import NEEDS_CHECK, copying, sorting

from nvccache import endpoint
from nvccache.machine.process import Handle
from nvccache.remote_execution import faults
from nvccache.remote_execution.faults import AwayError
from nvccache.remote_execution.prefix import LauncherTry
from nvccache.remote_execution.work import PLACE, CameBack, Work
from nvccache.store.store import Store

pytestmark = NEEDS_CHECK


def fake_srun(folder: Path, body: str = 'exec "$@"') -> str:
    """A launcher that has something to say itself, as the one of Slurm does."""
    path = folder / "srun"
    path.write_text(f'#!/bin/sh\nshift 2\necho "srun: job 7 queued" >&2\n{body}\n')
    path.chmod(0o755)
    return f"prefix:{shlex.quote(str(path))} -n1 --"


def run(prefix: str, work: Work, shared: Path, cache: Store, **options: float) -> CameBack:
    where = endpoint.parse(prefix)
    for name, value in options.items():
        setattr(where, name, value)
    return LauncherTry(where, work, str(shared), dict(os.environ), cache, Handle()).run()


def word_of(prefix: str, work: Work, shared: Path, cache: Store, **options: float) -> str:
    with pytest.raises(AwayError) as caught:
        run(prefix, work, shared, cache, **options)
    return caught.value.word


def test_what_the_tool_says_comes_back_without_the_launchers_words(tmp_path: Path, cache: Store) -> None:
    shared = tmp_path / "shared"
    back = run(fake_srun(tmp_path), copying(tmp_path, cache), shared, cache)
    assert back.outputs == {"out.txt": b"b\na\n"}
    assert b"srun" not in back.stderr
    assert b"records in" in back.stderr
    assert (back.costs.sent_bytes, back.costs.fetched_bytes) == (4, 4)
    assert [path.name[:6] for path in shared.iterdir()] == ["tools-"]


def test_only_named_variables_reach_the_tool(tmp_path: Path, cache: Store) -> None:
    prefix = fake_srun(tmp_path, f'cp "$2" {tmp_path}/script\nexec "$@"')
    run(prefix, sorting(tmp_path, cache), tmp_path / "shared", cache)
    assert (tmp_path / "script").read_text().startswith("exec env -i LC_ALL=C ")


def test_tools_are_copied_once_and_checked(tmp_path: Path, cache: Store) -> None:
    shared = tmp_path / "shared"
    work = sorting(tmp_path, cache)
    run(fake_srun(tmp_path), work, shared, cache)
    (folder,) = shared.glob("tools-*")
    before = (folder / work.tool.program).stat().st_ino
    run(fake_srun(tmp_path), work, shared, cache)
    assert (folder / work.tool.program).stat().st_ino == before
    (folder / work.tool.program).unlink()
    (folder / work.tool.program).write_bytes(b"another")
    assert word_of(fake_srun(tmp_path), work, shared, cache) == faults.WRONG_RESULT


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("echo 'srun: error: Unable to contact slurm controller' >&2; exit 1", faults.UNREACHABLE),
        ("kill -9 $$", faults.UNREACHABLE),
        ("sleep 30", faults.NO_WORKERS),
        ('"$@"; sleep 30', faults.TIMEOUT),
        ('sed -i "s/&\\([0-9a-f]*\\)=/\\&\\1=f/" "$2"; exec "$@"', faults.OTHER_MACHINE),
        ('sed -i "s/-o \\([^ ]*\\)out.txt/-o \\1other.txt/" "$2"; exec "$@"', faults.FAILED),
        ('sed -i "s/--inhibit-cache.*/--inhibit-cache \\/nowhere/" "$2"; exec "$@"', faults.FAILED),
    ],
)
def test_each_trouble_has_its_word(tmp_path: Path, cache: Store, body: str, word: str) -> None:
    work = sorting(tmp_path, cache)
    shared = tmp_path / "shared"
    assert word_of(fake_srun(tmp_path, body), work, shared, cache, queue=1.0, deadline=2.0) == word
    assert not list(shared.glob("away-*"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_directory_that_is_full_is_told(
    tmp_path: Path, cache: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    work = sorting(tmp_path, cache)
    monkeypatch.setattr(shutil, "copyfile", full)
    assert word_of(fake_srun(tmp_path), work, tmp_path / "shared", cache) == faults.FULL
    assert not list((tmp_path / "shared").iterdir())


def test_a_launcher_that_is_not_there_is_told(tmp_path: Path, cache: Store) -> None:
    work = sorting(tmp_path, cache)
    assert word_of("prefix:/nowhere/srun", work, tmp_path / "shared", cache) == faults.UNREACHABLE


def test_a_launcher_is_found_from_where_the_build_is(
    tmp_path: Path, cache: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_srun(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("prefix:./srun -n1 --", sorting(tmp_path, cache), tmp_path / "shared", cache).outputs


def test_a_launcher_does_not_read_what_the_build_reads(
    tmp_path: Path, cache: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = os.pipe()
    os.write(ends[1], b"for the build")
    os.close(ends[1])
    before = os.dup(0)
    os.dup2(ends[0], 0)
    try:
        prefix = fake_srun(tmp_path, 'cat >/dev/null; exec "$@"')
        assert run(prefix, sorting(tmp_path, cache), tmp_path / "shared", cache).outputs
        assert os.read(0, 99) == b"for the build"
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(ends[0])


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_directory_that_everybody_may_write_to_is_not_used(tmp_path: Path, cache: Store, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    assert word_of(fake_srun(tmp_path), sorting(tmp_path, cache), shared, cache) == faults.BROKEN
    assert not list(shared.iterdir())


def test_a_directory_of_somebody_else_is_not_used(
    tmp_path: Path, cache: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    work = sorting(tmp_path, cache)
    assert word_of(fake_srun(tmp_path), work, tmp_path / "shared", cache) == faults.BROKEN


def test_what_killed_calls_have_left_goes_after_two_days(tmp_path: Path, cache: Store) -> None:
    shared = tmp_path / "shared"
    names = ["away-old", "away-new", "tools-new-old", "tools-old", "mine"]
    for name in names:
        (shared / name / "below").mkdir(parents=True)
        if name != "away-new":
            os.utime(shared / name, (1, 1))
    run(fake_srun(tmp_path), sorting(tmp_path, cache), shared, cache)
    assert [name for name in names if (shared / name).exists()] == ["away-new", "tools-old", "mine"]


@pytest.mark.parametrize("folder", ["", "with blank", "quote'd"])
def test_the_shared_directory_has_a_name_that_no_launcher_reads_otherwise(
    tmp_path: Path, cache: Store, folder: str
) -> None:
    work = sorting(tmp_path, cache)
    shared = tmp_path / folder if folder else Path("relative")
    assert word_of(fake_srun(tmp_path), work, shared, cache) == faults.BROKEN


def test_words_of_any_form_arrive_as_they_are(tmp_path: Path, cache: Store) -> None:
    """Also through a launcher that joins them, as ssh does."""
    work = sorting(tmp_path, cache)
    odd = Work(
        work.kind, work.tool, ["-t", "$", "--key", "2", f"{PLACE}/in $x'.txt", "-o", f"{PLACE}/out.txt"],
        work.environment, {"in $x'.txt": work.inputs["in.txt"]}, work.outputs,
    )  # fmt: skip
    prefix = fake_srun(tmp_path, 'exec sh -c "$*"')
    assert run(prefix, odd, tmp_path / "shared", cache).outputs == {"out.txt": b"a\nb\n"}


def test_the_place_is_taken_out_of_what_comes_back(tmp_path: Path, cache: Store) -> None:
    prefix = fake_srun(tmp_path, f'd=${{2%/*}}/{PLACE}; echo $d/x >$d/in.txt; "$@"')
    back = run(prefix, sorting(tmp_path, cache), tmp_path / "shared", cache)
    assert back.outputs == {"out.txt": PLACE.encode() + b"/x\n"}


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        ('truncate -s 1 "$out"', faults.WRONG_RESULT),
        (': >"$out"', faults.WRONG_RESULT),
        ('echo x >>"$out"', faults.WRONG_RESULT),
        ('printf "b\na\n" >"$out"', faults.WRONG_RESULT),
        ('mv "$out" "$out.x"; ln -s "$out.x" "$out"', faults.WRONG_RESULT),
        ('rm "$out"; mkfifo "$out"', faults.FAILED),
        ('rm "$out"; mkdir "$out"', faults.FAILED),
        ('rm "$out"', faults.FAILED),
        ('echo "srun: warning" >>"$folder/stderr"', faults.WRONG_RESULT),
        ('rm "$folder/stderr"; mkfifo "$folder/stderr"', faults.FAILED),
        ('rm "$folder/report"', faults.FAILED),
        ('rm "$folder/report"; mkfifo "$folder/report"', faults.FAILED),
        ('truncate -s 9 "$folder/report"', faults.FAILED),
        ('sed -i 1s/0/137/ "$folder/report"', faults.FAILED),
    ],
)
def test_what_is_not_as_the_worker_made_it_is_not_taken(
    tmp_path: Path, cache: Store, damage: str, word: str
) -> None:
    body = f'folder=${{2%/*}}; out=$folder/{PLACE}/out.txt; "$@"; {damage}; exit 0'
    shared = tmp_path / "shared"
    assert word_of(fake_srun(tmp_path, body), sorting(tmp_path, cache), shared, cache) == word
    assert not list(shared.glob("away-*"))


def test_a_launcher_that_hides_how_the_tool_ended_is_not_believed(tmp_path: Path, cache: Store) -> None:
    work = sorting(tmp_path, cache, options=("--no-such-option",))
    found = word_of(fake_srun(tmp_path, '"$@"; exit 0'), work, tmp_path / "shared", cache)
    assert found == faults.FAILED
