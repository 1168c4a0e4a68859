"""The output of `nvccache explain`, which is never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.store import event_line, store
from nvccache.store.event_line import RemoteUse, StageEvent
from nvccache.store.store import Store
from unprivileged import unreadable
from workspaces import Workspace

FIRST = "no earlier compile is recorded"


def journal(cache_dir: str, product: str, outcome: str, reason: str = "", stages=None) -> None:
    call = event(outcome, reason, stages or ())
    call.product = os.path.abspath(product)
    event_line.append(cache_dir, call)


def note(cache_dir: str, product: str, cause: str, details=(), reason_against_record="", **fields) -> None:
    record = ObjectRecord(cause, "miss", details=list(details), **fields)
    record.reason_against_record = reason_against_record
    object_record.add([os.path.abspath(product)], record, Store(cache_dir))


def test_without_a_cache_nothing_is_known_and_nothing_is_made(nvccache, cache_dir):
    for arguments, sentence in (([], "no compile is recorded"), (["a.o"], "no compile of `a.o` is recorded")):
        result = nvccache("explain", *arguments)
        assert (result.exit_code, result.output) == (1, f"Error: {sentence}\n")
    assert not os.path.exists(cache_dir)


def test_an_unknown_object_is_one_sentence(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    result = nvccache("explain", "sub/b.o")
    assert (result.exit_code, result.output) == (1, "Error: no compile of `sub/b.o` is recorded\n")


@pytest.mark.parametrize(("age", "is_later"), [(0, False), (100, True)])
def test_an_object_that_was_written_again_since_is_noted(
    nvccache, cache_dir, tmp_path, monkeypatch, age, is_later
):
    monkeypatch.chdir(tmp_path)
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    (tmp_path / "a.o").touch()
    os.utime("a.o", (event("").ended + age,) * 2)
    assert ("the object was written again" in nvccache("explain", "a.o").output) == is_later


def test_an_empty_word_is_no_question_for_the_last_compile(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    result = nvccache("explain", "")
    assert result.exit_code == 2
    assert "`[FILE]`: it is empty" in result.output


def test_a_working_directory_that_was_removed_is_one_sentence(nvccache, cache_dir, tmp_path, monkeypatch):
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = nvccache("explain", "a.o")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        1,
        "Error: the working directory was removed",
    )


REASON = "`a.cu` uses `__TIME__`"
NO_RECORD = f"no direct record is kept: {REASON}"
UNCHANGED = "`a.o`: direct hit, because nothing it depends on has changed"


@pytest.mark.parametrize(
    ("noted", "logged", "lines"),
    [
        ([FIRST, ["another"]], [["miss"], ["direct_hit"]], [UNCHANGED]),
        ([], [["bypass", "library"]], [f"`a.o`: bypass, because {outcomes.REASONS['library']}"]),
        ([], [["bypass", "of_tomorrow"]], ["`a.o`: bypass, because of_tomorrow"]),
        ([FIRST], [["failed"]], ["`a.o`: failed, because nvcc reports an error"]),
        (
            [FIRST],
            [["fault"]],
            ["`a.o`: fault, because nvccache had a fault; `NVCCACHE_LOG` has more"],
        ),
        (
            ["`x.h` changed", [NO_RECORD], REASON],
            [["miss"]],
            ["`a.o`: miss, because `x.h` changed", f"  also: {NO_RECORD}"],
        ),
        (
            ["`x.h` changed", ["`y.h` is gone"], REASON],
            [["partial_hit", "", [("cudafe", True, 0.25), ("cicc", False, 12.3456)]]],
            [
                "`a.o`: partial hit, because `x.h` changed",
                "  also: `y.h` is gone",
                f"  also: {NO_RECORD}",
                "  cudafe++  hit        0.25 s saved",
                "  cicc      ran       12.35 s",
            ],
        ),
        ([NO_RECORD, [], REASON], [["stage_hit"]], [f"`a.o`: stage hit, because {NO_RECORD}"]),
        ([], [["miss"]], ["`a.o`: miss, because no record of it is left in the cache"]),
        ([FIRST], [], [f"`a.o`: miss, because {FIRST}"]),
    ],
    ids=[
        "a direct hit has nothing to tell",
        "a bypass has its reason",
        "a reason of another version has its name",
        "a failure",
        "a fault",
        "a reason against a record that is among the differences is not repeated",
        "a miss has all differences and its cost",
        "a reason against a record is shown once",
        "a record that was evicted is missed",
        "what the event log forgot comes from the record",
    ],
)
def test_the_answer(nvccache, cache_dir, noted, logged, lines):
    """From the record of the object and the event log of its calls."""
    if noted:
        note(cache_dir, "a.o", *noted)
    for call in logged:
        journal(cache_dir, "a.o", *call)
    assert nvccache.lines("explain", "a.o") == lines


def stage(kind, result, seconds, architecture="", why=""):
    made = StageEvent(kind, result, seconds, architecture=architecture)
    made.why = why
    return made


def logged(cache_dir: str, outcome: str, stages=(), **fields) -> None:
    """Add a call to the event log; its stages may be a tree."""
    call = event(outcome, **fields)
    call.stages = list(stages)
    event_line.append(cache_dir, call)


TREE = [
    stage("host_preprocess", "ran", 0.1, why="`\udcff` changed"),
    stage("cudafe", "hit", 0.25),
    stage("device_preprocess", "shared", 0.5, "compute_80"),
    stage("cicc", "ran", 12.5, "compute_80", "`-ftz=1` replaced `-ftz=0`; `x; y` changed; and 2 more"),
    stage("ptxas", "failed", 0.75, "sm_80", "cicc's output changed"),
    stage("host_compile", "hit", 0.5),
]


@pytest.mark.parametrize("outcome", [outcomes.MISS, outcomes.PARTIAL_HIT, outcomes.FAILED])
def test_the_stages_are_a_tree_with_the_first_difference_of_each_that_ran(nvccache, cache_dir, outcome):
    logged(cache_dir, outcome, TREE, product="/b/a.o", cause="`x.h` changed")
    found = nvccache.lines("explain", "/b/a.o")
    if outcome == outcomes.FAILED:
        assert found.pop(1) == "  also: `x.h` changed"
    assert found[1].startswith("  preprocess host        ran        0.10 s  `")
    assert found[2:] == [
        "  cudafe++               hit        0.25 s saved",
        "  preprocess compute_80  shared     0.50 s  another process ran it meanwhile",
        "  cicc compute_80        ran       12.50 s  `-ftz=1` replaced `-ftz=0` (and 3 more: `-v`)",
        "  ptxas sm_80            failed     0.75 s  cicc's output changed",
        "  host compile           hit        0.50 s saved",
    ]
    whole = nvccache.lines("explain", "/b/a.o", "--verbose")[-3]
    assert whole.endswith("  `-ftz=1` replaced `-ftz=0`; `x; y` changed; and 2 more")


PASS, HOST, LINK, OTHER = (
    stage(kind, "ran", 0.1) for kind in ("host_preprocess", "host_compile", "nvlink", "opaque")
)


@pytest.mark.parametrize(
    ("sources", "stages", "owners"),
    [
        (["a.cu", "b.cu"], [PASS, HOST, PASS, HOST, LINK, HOST], ["a.cu", "a.cu", "b.cu", "b.cu", "", ""]),
        (["a.cu", "c.cpp", "b.cu"], [PASS, HOST, OTHER, PASS, HOST], ["a.cu", "a.cu", "", "b.cu", "b.cu"]),
        (["a.cpp", "b.cpp"], [PASS, HOST, PASS, HOST], ["a.cpp", "a.cpp", "b.cpp", "b.cpp"]),  # -x cu
        (["a.cu", "b.cu"], [PASS, HOST, LINK], ["", "", ""]),
        (["a.cu", "b.o"], [PASS, HOST, LINK], ["a.cu", "a.cu", ""]),
        (["a.cu"], [PASS, HOST, LINK], ["", "", ""]),
        (["a.o", "b.o"], [LINK, HOST], ["", ""]),
    ],
)
def test_the_stages_of_one_of_several_sources_stand_below_it(nvccache, cache_dir, sources, stages, owners):
    logged(cache_dir, outcomes.PARTIAL_HIT, stages, product="/b/a", sources=sources, directory="/b")
    document = nvccache.json("explain", "/b/a")
    assert [found["source"] for found in document["stages"]] == owners
    lines = nvccache.lines("explain", "/b/a")[1:]
    assert [line[2:] for line in lines if "ran" not in line] == list(dict.fromkeys(filter(None, owners)))
    assert [line.startswith("    ") for line in lines if "ran" in line] == list(map(bool, owners))


def test_the_stages_of_a_compile_that_failed_midway_have_no_known_source(nvccache, cache_dir):
    calls = {"product": "/b/a", "sources": ["b.cpp", "a.cu"], "directory": "/b"}  # with -x cu
    logged(cache_dir, outcomes.FAILED, [PASS], **calls)
    assert len(nvccache.lines("explain", "/b/a")) == 2


def test_each_stage_shows_where_it_ran_and_what_that_cost(nvccache, cache_dir):
    engine, launcher = "grpc://h:1", "prefix:srun"
    found = [stage("cicc", "ran", seconds, f"compute_{name}", "`a.h` changed") for name, seconds in
             (("70", 6.5), ("75", 30.0), ("80", 6.0), ("86", 2.0), ("90", 1.5), ("100", 1.0))]  # fmt: skip
    found[0].where, found[0].away = engine, "0.250 0.125 6.500 0.500 2048 1024 0"
    found[1].where, found[1].away = engine, "0.000 0.000 30.000 0.250 0 1024 1"
    found[2].where, found[2].away = launcher, "0.000 0.500 6.000 0.250 1 2 0"
    found[3].away, found[4].away = "no_workers", "of_tomorrow"
    unserved = outcomes.EXECUTOR_FAULTS["no_workers"]
    found.append(stage("ptxas", "hit", 1.0, "sm_90"))
    logged(cache_dir, outcomes.MISS, found, product=os.path.abspath("a.o"), cause=FIRST)
    expected = [
        f"  cicc compute_70   ran        6.50 s  on {engine}, 0.88 s more"
        " (queue 0.25, send 0.12, fetch 0.50)",
        f"  cicc compute_75   ran       30.00 s  from the action cache of {engine}, fetched in 0.25 s",
        "  cicc compute_80   ran        6.00 s  via srun, 0.75 s more (queue 0.00, send 0.50, fetch 0.25)",
        f"  cicc compute_86   ran        2.00 s  here, though it was sent: {unserved}",
        "  cicc compute_90   ran        1.50 s  here, though it was sent: of_tomorrow",
        "  cicc compute_100  ran        1.00 s  here",
    ]
    why = "  `a.h` changed"
    lines = nvccache.lines("explain", "a.o")[1:]
    assert lines == [*(line + why for line in expected), "  ptxas sm_90       hit        1.00 s saved"]
    verbose = nvccache.lines("explain", "-v", "a.o")[1:]
    assert verbose[0] == f"{expected[0]}, 2.0 KiB sent, 1.0 KiB fetched{why}"
    printed = nvccache.json("explain", "a.o")["stages"]
    assert [(each["where"], each["why_here"]) for each in printed] == [
        (engine, ""), (engine, ""), (launcher, ""), ("local", "no_workers"), ("local", "of_tomorrow"),
        ("local", ""), ("", ""),
    ]  # fmt: skip
    assert printed[0]["away"] == {
        "queue": 0.25, "send": 0.125, "run": 6.5, "fetch": 0.5, "sent_bytes": 2048, "fetched_bytes": 1024,
        "is_cached": 0,
    }  # fmt: skip
    assert [each["away"] and each["away"]["is_cached"] for each in printed] == [
        0,
        1,
        0,
        None,
        None,
        None,
        None,
    ]


def test_where_nothing_was_sent_no_stage_says_that_it_ran_here(nvccache, cache_dir):
    logged(cache_dir, outcomes.MISS, [stage("cicc", "ran", 1.0)], product=os.path.abspath("a.o"), cause=FIRST)
    assert nvccache.lines("explain", "a.o")[1:] == ["  cicc  ran        1.00 s"]


def test_the_record_of_a_call_that_left_the_event_log_has_its_stages(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST, stage_reasons=[("cicc for compute_80", "`a.h` changed; `b.h` changed")])
    line = "  cicc for compute_80  ran  `a.h` changed (and 1 more: `-v`)"
    assert nvccache.lines("explain", "a.o")[1:] == [line]


def test_a_record_of_another_call_than_the_counted_one_is_ignored(nvccache, cache_dir):
    note(cache_dir, "a.o", "`y.h` changed", ["`z.h` is gone"], ended=event("").started - 10)
    logged(cache_dir, outcomes.MISS, product=os.path.abspath("a.o"), cause="`x.h` changed")
    assert nvccache.lines("explain", "a.o") == ["`a.o`: miss, because `x.h` changed"]


def test_the_record_of_a_later_call_than_the_counted_one_is_explained(
    nvccache, cache_dir, tmp_path, monkeypatch
):
    """A call that made it beside another object is in the event log under that one alone."""
    monkeypatch.chdir(tmp_path)
    logged(cache_dir, outcomes.MISS, product=os.path.abspath("a.o"), cause="`x.h` changed")
    ended = event("").ended + 100
    note(cache_dir, "a.o", "`y.h` changed", ended=ended)
    (tmp_path / "a.o").touch()
    os.utime("a.o", (ended,) * 2)
    assert nvccache.lines("explain", "a.o") == ["`a.o`: miss, because `y.h` changed"]


def test_a_call_that_was_not_compiled_shows_no_stage(nvccache, cache_dir):
    note(cache_dir, "a.o", "`a.h` changed", stage_reasons=[("cudafe++", "`a.h` changed")])
    for outcome, reason in (
        (outcomes.DIRECT_HIT, ""),
        (outcomes.BYPASS, "run"),
    ):
        journal(cache_dir, "a.o", outcome, reason)
        assert not [line for line in nvccache.lines("explain", "a.o") if " ran: " in line]


def test_a_direct_hit_from_a_remote_names_the_remote_as_its_cause(nvccache, cache_dir):
    call = event(outcomes.DIRECT_HIT)
    call.product, call.remote = os.path.abspath("a.o"), RemoteUse(5, 2, 2048, 0.25, ())
    event_line.append(cache_dir, call)
    assert nvccache.lines("explain", "a.o")[0] == "`a.o`: direct hit, because a remote has its result"


def test_faults_of_storage_and_settings_are_shown(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    call = event(outcomes.MISS)
    call.product, call.store_fault, call.wrong_settings = (
        os.path.abspath("a.o"),
        "disk_full",
        "NVCCACHE_JOB,file",
    )
    call.remote = RemoteUse(5, 3, 2048, 0.25, ("timeout",))
    event_line.append(cache_dir, call)
    assert nvccache.lines("explain", "a.o") == [
        f"`a.o`: miss, because {FIRST}",
        f"  not all results were stored: {outcomes.STORE_FAULTS['disk_full']}",
        f"  remotes: 3 objects found in 5 lookups, 2.0 KiB, in 0.25 s; {outcomes.REMOTE_FAULTS['timeout']}",
        "  wrong setting: `NVCCACHE_JOB`; the settings file, or a line of it, cannot be read",
    ]
    assert nvccache.json("explain", "a.o")["remote"]["found"] == 3


def test_a_call_that_did_without_a_remote_says_why(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    call = event(outcomes.MISS)
    call.product, call.remote = os.path.abspath("a.o"), RemoteUse(0, 0, 0, 0.0, ("left_alone",))
    event_line.append(cache_dir, call)
    assert f"  remotes: {outcomes.REMOTE_FAULTS['left_alone']}" in nvccache.lines("explain", "a.o")


def test_without_an_object_it_is_the_last_call_of_all(nvccache, cache_dir):
    for name in ("a.o", "b.o"):
        note(cache_dir, name, f"`{name}.h` changed")
        journal(cache_dir, name, outcomes.MISS)
    path = os.path.abspath("b.o")
    assert nvccache.lines("explain") == [f"`{path}`: miss, because `b.o.h` changed"]
    assert nvccache.lines("explain", "a.o") == ["`a.o`: miss, because `a.o.h` changed"]


def test_an_object_is_found_however_its_path_is_spelled(nvccache, cache_dir):
    note(cache_dir, "sub/a.o", FIRST)
    journal(cache_dir, "sub/a.o", outcomes.MISS)
    for name in ("sub/a.o", "./sub/a.o", "sub/../sub//a.o", os.path.abspath("sub/a.o")):
        assert nvccache.lines("explain", name) == [f"`{name}`: miss, because {FIRST}"]


def test_a_damaged_record_is_no_record(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    with open(
        Store(cache_dir).path(store.OBJECT, object_record.key_of(os.path.abspath("a.o"))), "ab"
    ) as stream:
        stream.write(b"x")
    assert nvccache("explain", "a.o").output == "Error: no compile of `a.o` is recorded\n"


def test_unreadable_journal_is_one_sentence(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.MISS)
    nvccache("explain")
    with unreadable(cache_dir) as copy:
        result = nvccache("explain", NVCCACHE_DIR=copy)
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot read ")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_names_that_are_no_text_are_shown_somehow(cache_dir, tmp_path, locale):
    note(cache_dir, tmp_path / "a.o", "`\udcff.h` changed", ["`é\udcfe` is gone"])
    journal(cache_dir, str(tmp_path / "a.o"), outcomes.MISS)
    environ = {"NVCCACHE_DIR": cache_dir, "HOME": str(tmp_path), "LC_ALL": locale}
    done = subprocess.run(
        [sys.executable, "-m", "nvccache", "explain", str(tmp_path / "a.o")],
        env=environ, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"miss, because `" in done.stdout


@pytest.mark.smoke("explain")
def test_a_real_compile_is_explained(workspace: Workspace):
    """From the first compile to a failing one, as a user sees it."""

    def explained(*arguments: str) -> str:
        done = workspace.run([sys.executable, "-m", "nvccache", "explain", *arguments])
        assert done.status == 0, done.stderr.decode()
        return done.stdout.decode().partition("\n")[0]

    workspace.write("a.cu", "__global__ void k() {}\n")
    line = ["-c", "a.cu", "-o", "a.o"]
    os.utime(workspace.directory / "a.cu", (1, 1))
    workspace.cached(*line, "-DX")
    assert explained("a.o") == f"`a.o`: miss, because {FIRST}"
    workspace.cached(*line)
    assert explained("a.o").endswith("because `-DX` was removed from the command line")
    workspace.cached(*line)
    assert (
        explained() == f"`{workspace.directory}/a.o`: direct hit, because nothing it depends on has changed"
    )
    workspace.write("a.cu", "__global__ void k() { no }\n")
    assert workspace.cached(*line).status != 0
    assert explained("a.o") == "`a.o`: failed, because nvcc reports an error"
    workspace.cached("-lib", "a.o", "-o", "liba.a")
    assert explained("liba.a") == f"`liba.a`: bypass, because {outcomes.REASONS['library']}"
