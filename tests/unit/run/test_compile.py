"""A call that no record answers, from the dry run to the records and the upkeep of the store."""

from __future__ import annotations

import os
import shutil
import time
from types import SimpleNamespace

import pytest

from nvccache import remote_url
from nvccache.observation import observer
from nvccache.records import send_queued
from nvccache.remote.backend import connect
from nvccache.run import dry_runs
from nvccache.store import store
from scripted_toolkit import Toolkit, cubin, stages

ALL_RUN = ["device_preprocess", "cicc", "ptxas"]
ALL_HIT = [f"({kind})" for kind in ALL_RUN]


def test_a_repeated_compile_finds_every_stage(toolkit: Toolkit) -> None:
    first = toolkit.compile()
    assert (first.status, first.leave_to_nvcc, stages(first)) == (0, "", ALL_RUN)
    assert first.product == "a.cubin"
    made = (toolkit.work / "a.cubin").read_bytes()
    (toolkit.work / "a.cubin").unlink()
    assert stages(toolkit.compile()) == ALL_HIT
    assert (toolkit.work / "a.cubin").read_bytes() == made == b"int a;\n"


def test_nothing_is_left_in_the_scratch_directory(toolkit: Toolkit) -> None:
    for text in ("int a;\n", "int cicc_fails;\n", "#error no\n"):
        toolkit.write("a.cu", text)
        toolkit.compile()
        assert os.listdir(toolkit.folder / "tmp") == []


@pytest.mark.parametrize(
    ("status", "lines", "reason"),
    [
        ("1", cubin(), "dryrun_failed"),
        ("0", ["frobnicate $x"], "shell_expansion"),
        ("0", [*cubin(), "a message\n#$ x"], "unexplained"),
        ("0", [line.replace("ptxas", "no-ptxas", 1) for line in cubin()], "missing_program"),
    ],
)
def test_an_unexplained_dry_run_is_left_to_nvcc(
    toolkit: Toolkit, status: str, lines: list[str], reason: str
) -> None:
    toolkit.status.write_text(status)
    toolkit.will_do(*[line.replace("a message\n#$", "a message\n#$") for line in lines])
    if reason == "unexplained":
        toolkit.transcript.write_text(toolkit.transcript.read_text().replace("#$ a message", "a message"))
    report = toolkit.compile(NVCCACHE_LOG=str(toolkit.folder / "log"))
    assert (report.leave_to_nvcc, report.stages, report.stderr) == (reason, [], b"")
    text = (toolkit.folder / "log").read_text()
    assert f"bypass {reason}" in text and f"left to nvcc: {reason}\n" in text
    assert os.listdir(toolkit.work) == ["a.cu"]
    assert os.listdir(toolkit.folder / "tmp") == []


@pytest.mark.parametrize("has_thread", [True, False])
def test_nvcc_prints_its_dry_run_once_even_if_no_thread_can_be_started(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch, has_thread: bool
) -> None:
    def no_thread(**_: object) -> None:
        raise RuntimeError("can't start new thread")

    runs: list[bool] = []
    run = observer.Watch.run

    def counted(watch: observer.Watch, argv: list[str], *rest: object) -> object:
        runs.append("--dryrun" in argv)
        return run(watch, argv, *rest)

    monkeypatch.setattr(observer.Watch, "run", counted)
    if not has_thread:
        monkeypatch.setattr(dry_runs, "threading", SimpleNamespace(Thread=no_thread))
    assert stages(toolkit.compile()) == ALL_RUN
    assert sum(runs) == 1


def test_an_nvcc_that_cannot_be_started_is_an_error(toolkit: Toolkit) -> None:
    os.unlink(toolkit.nvcc)
    with pytest.raises(FileNotFoundError):
        toolkit.compile()
    assert os.listdir(toolkit.folder / "tmp") == []


def test_a_call_whose_tools_cannot_be_observed_is_left_to_nvcc(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "obstacle", lambda folder, cache: "there is none here")
    assert toolkit.compile().leave_to_nvcc == "not_observable"


def test_a_directory_with_foreign_files_is_not_used_as_the_cache(toolkit: Toolkit) -> None:
    (toolkit.folder / "cache").mkdir()
    (toolkit.folder / "cache" / "letters").write_text("")
    assert toolkit.compile().leave_to_nvcc == "foreign_directory"
    assert os.listdir(toolkit.folder / "cache") == ["letters"]


def test_recaching_runs_every_stage_and_stores_the_results(toolkit: Toolkit) -> None:
    assert stages(toolkit.compile(NVCCACHE_RECACHE="1")) == ALL_RUN
    assert stages(toolkit.compile(NVCCACHE_RECACHE="1")) == ALL_RUN
    assert stages(toolkit.compile()) == ALL_HIT


def test_a_readonly_compile_stores_nothing(toolkit: Toolkit) -> None:
    toolkit.compile(NVCCACHE_READONLY="1")
    assert not (toolkit.folder / "cache").exists()
    toolkit.compile()
    before = sorted(path for path in (toolkit.folder / "cache").rglob("*"))
    toolkit.write("a.cu", "int b;\n")
    assert stages(toolkit.compile(NVCCACHE_READONLY="1")) == ALL_RUN
    assert sorted(path for path in (toolkit.folder / "cache").rglob("*")) == before


def test_a_compile_whose_results_cannot_be_stored_delivers_and_reports_that(toolkit: Toolkit) -> None:
    toolkit.compile()
    shutil.rmtree(toolkit.folder / "cache" / store.BLOB)
    (toolkit.folder / "cache" / store.BLOB).write_text("in the way")
    toolkit.write("a.cu", "int b;\n")
    report = toolkit.compile(NVCCACHE_LOG=str(toolkit.folder / "log"))
    assert (report.status, report.store_fault) == (0, "other")
    assert (toolkit.work / "a.cubin").read_bytes() == b"int b;\n"
    text = (toolkit.folder / "log").read_text()
    assert "store: " in text and "left to nvcc" not in text


def test_a_readonly_call_that_recaches_runs_every_stage_and_stores_nothing(toolkit: Toolkit) -> None:
    toolkit.compile()
    before = sorted((toolkit.folder / "cache").rglob("*"))
    assert stages(toolkit.compile(NVCCACHE_READONLY="1", NVCCACHE_RECACHE="1")) == ALL_RUN
    assert sorted((toolkit.folder / "cache").rglob("*")) == before


def test_each_call_evicts_down_to_the_size_limit(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", f'const char *a = "{os.urandom(40_000).hex()}";\n')
    toolkit.compile(NVCCACHE_MAX_SIZE="20K")
    assert stages(toolkit.compile()) != ALL_HIT
    toolkit.compile()
    assert stages(toolkit.compile()) == ALL_HIT


@pytest.mark.parametrize(("limit", "is_kept"), [("20K", False), ("20M", True)])
def test_objects_fetched_from_a_remote_count_towards_the_size_limit(
    toolkit: Toolkit, limit: str, is_kept: bool
) -> None:
    url = f"file://{toolkit.folder}/remote"
    (toolkit.folder / "remote").mkdir()
    toolkit.write("a.cu", f'const char *a = "{os.urandom(40_000).hex()}";\n')
    remote = connect(remote_url.parse(url)[0], {})
    for item in toolkit.compile(NVCCACHE_REMOTE=f"{url},rw").to_send:
        send_queued.send(item, toolkit.store(), remote)
    other = str(toolkit.folder / "other")
    assert toolkit.compile(NVCCACHE_DIR=other, NVCCACHE_REMOTE=url, NVCCACHE_MAX_SIZE=limit).answer
    assert bool(toolkit.answer(NVCCACHE_DIR=other)) == is_kept


def test_a_call_during_which_the_clock_was_set_is_not_recorded(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that were read may be newer than they look."""
    now, moments = time.time_ns, iter([0])
    monkeypatch.setattr(time, "time_ns", lambda: now() - next(moments, 3600 * 10**9))
    assert toolkit.compile().status == 0
    assert toolkit.last_record().reason_against_record == "the clock was set during the compile"
    assert toolkit.answer() is None


def test_the_report_of_a_compile_says_why_it_was_a_miss(toolkit: Toolkit) -> None:
    assert toolkit.compile().causes == ["no earlier compile is recorded"]
    toolkit.write("a.cu", "int b;\n")
    assert toolkit.compile().causes == ["`a.cu` changed"]
