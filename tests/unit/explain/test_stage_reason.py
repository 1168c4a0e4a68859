"""Why a stage ran: the sentence for each component of its key, from records made by hand."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from answering import Answering
from hand_made_plans import CICC, COMPILE, CUDAFE, DEVICE, FATBINARY, HOST, PTXAS, planned
from nvccache import environment
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.explain.stage_reason import FIRST, LOST, NOT_CACHED, NOT_STORED, RECACHED, StageReasons
from nvccache.files import keys
from nvccache.files.signatures import UNKNOWN
from nvccache.plan.model import Plan, Stage
from nvccache.records import record
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.record import Entry, LookupKey, Result
from nvccache.run.stage_run import StageRun
from nvccache.store.event_line import HIT, RAN, StageEvent
from nvccache.store.store import Store
from nvccache.values import replace

PIPELINE = (HOST, CUDAFE, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)
NAMES = [
    "preprocess host",
    "cudafe++",
    "preprocess compute_80",
    "cicc compute_80",
    "ptxas sm_80",
    "fatbinary",
    "host compile",
]


def ended(stage: Stage, has_run: bool = True) -> StageEvent:
    return StageEvent(stage.kind, RAN if has_run else HIT, 1.0)


def run_of(stage: Stage, event: StageEvent, is_cached: bool = True, entry: Entry | None = None) -> StageRun:
    run = StageRun(0, stage)
    run.front_key, run.event, run.entry = "f" * 64 if is_cached else "", event, entry
    return run


class Compile:
    """One compile of an object, with changeable key components of its stages, and which stages ran."""

    def __init__(self, cache: Store, plan: Plan | None = None, **environ: str) -> None:
        self.cache = cache
        self.plan = plan or planned(*PIPELINE)
        self.environ = environ
        self.components = {id(stage): list(self._usual(stage)) for stage in self.plan.stages}
        self.ran = {id(stage) for stage in self.plan.stages}
        self.found: dict[int, Entry] = {}
        self.stored: dict[int, str] = {}  # the names of records of those that ran
        outputs = {out.path: (stage, out) for stage in self.plan.stages for out in stage.outputs}
        self.call = SimpleNamespace(
            plan=self.plan, environ=environ, store=cache, cwd=os.getcwd(), outputs=outputs,
            read_by=lambda stage: list(stage.inputs), workspace=SimpleNamespace(passes={}),
            module_id_of=lambda stage: b"",
        )  # fmt: skip

    def _usual(self, stage):
        yield "stage", (stage.kind,)
        yield "tool", ("program's digest", "library's digest")
        yield "arguments", stage.key_argv
        yield "inputs", tuple(f"digest of {path}" for path in stage.inputs)
        yield "files", ()

    def stage(self, start: str):
        (found,) = [one for one in self.plan.stages if one.argv[0] == start or one.kind == start]
        return found

    def change(self, start: str, tag: str, *parts: str) -> None:
        stage = self.stage(start)
        kept = [component for component in self.components[id(stage)] if component[0] != tag]
        self.components[id(stage)] = [*kept, (tag, parts)]

    def reasons_for(self) -> StageReasons:
        looked_up = []
        for stage in self.plan.stages:
            event = ended(stage, id(stage) in self.ran)
            looked_up.append(run_of(stage, event, entry=self.found.get(id(stage))))
            looked_up[-1].components = self.components[id(stage)]
            looked_up[-1].record_name = self.stored.get(id(stage), looked_up[-1].record_name)
        return StageReasons(self.call, looked_up, Answering(self.environ))

    def recorded(self, digest_key: str = "key") -> ObjectRecord:
        """The stages in the object's record afterwards."""
        made = ObjectRecord()
        made.digest_key = digest_key
        made.stages = self.reasons_for().keys_of_stages(digest_key)
        object_record.add(["/a.o"], made, self.cache)
        found = object_record.find("/a.o", self.cache)
        assert found
        return found


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Store:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Store(str(tmp_path / "cache"))


@pytest.fixture
def before(cache) -> Compile:
    return Compile(cache)


@pytest.fixture
def now(cache) -> Compile:
    return Compile(cache)


def why(now: Compile, before: Compile, *names: str) -> dict[str, str]:
    """The reasons, except for stages without a known difference."""
    found = dict(now.reasons_for().reasons(before.recorded(), is_recaching=False))
    assert list(found) == NAMES
    return {name: clause for name, clause in found.items() if clause not in (LOST, NOT_STORED)}


def test_without_a_record_each_stage_is_a_first_compile_unless_it_is_recached(now, before):
    reasons = now.reasons_for().reasons(None, is_recaching=False)
    assert reasons == [(name, FIRST) for name in NAMES]
    assert {clause for _, clause in now.reasons_for().reasons(before.recorded(), True)} == {RECACHED}


def test_only_a_stage_that_ran_has_a_reason_and_one_that_is_not_cached_says_so(now, before):
    now.ran = {id(now.stage("ptxas"))}
    assert now.reasons_for().reasons(before.recorded(), False) == [("ptxas sm_80", NOT_STORED)]
    stage = now.stage("ptxas")
    reasons = StageReasons(now.call, [run_of(stage, ended(stage), is_cached=False)], Answering())
    assert reasons.reasons(before.recorded(), False) == [("ptxas sm_80", NOT_CACHED)]
    assert reasons.keys_of_stages("key") == []


def test_stages_of_one_name_have_numbers(cache, before):
    again = [replace(before.stage("ptxas")) for _ in range(2)]
    now = Compile(cache, replace(before.plan, steps=(*before.plan.steps, *again)))
    names = [name for name, _ in now.reasons_for().reasons(None, False)]
    assert names[4:5] + names[7:] == ["ptxas sm_80", "ptxas sm_80 (2)", "ptxas sm_80 (3)"]


def test_values_that_may_be_secret_are_compared_and_not_shown(now, before):
    before.change("ptxas", "arguments", "-DN=s3cret", "-D", "M=s3cret")
    now.change("ptxas", "arguments", "-DN=other", "-D", "M=other")
    clause = "the value of `-DN` changed; the value of `-DM` changed"
    assert why(now, before) == {"ptxas sm_80": clause}
    for stage in before.recorded().stages:
        assert "s3cret" not in repr(stage.components)


def test_an_input_is_named_after_the_stage_that_made_it(now, before):
    now.change("ptxas", "inputs", "another digest")
    now.change("fatbinary", "inputs", "another digest", "digest of /s/a.ptx")
    now.change("host_compile", "inputs", "another digest")
    assert why(now, before) == {
        "ptxas sm_80": "cicc's output changed",
        "fatbinary": "ptxas sm_80's output changed",
        "host compile": "cudafe++'s output changed",
    }


def test_changed_preprocessed_text_is_explained_by_its_preprocessors_changes(now, before):
    before.change("device_preprocess", "arguments", "-DN=1", "a.cu")
    now.change("device_preprocess", "arguments", "-DN=2", "a.cu", "-O1")
    now.change("cicc", "inputs", "another digest")
    before.change("cicc", "inputs", "digest")
    line = "the command line of its preprocessor"
    assert why(now, before) == {
        "preprocess compute_80": "the value of `-DN` changed; `-O1` was added to its command line",
        "cicc compute_80": f"the value of `-DN` changed; `-O1` was added to {line}",
    }


def test_a_text_whose_pass_did_not_run_is_an_input(now, before):
    now.change("cudafe", "inputs", "another digest")
    now.ran -= {id(now.stage("host_preprocess"))}
    reasons = dict(now.reasons_for().reasons(before.recorded(), False))
    assert reasons["cudafe++"] == "the preprocessed text changed"


TOOL = ("program's digest",)


@pytest.mark.parametrize(
    ("tag", "old", "new", "clause"),
    [
        ("tool", TOOL, ("another",), "the program `ptxas` changed"),
        (
            "tool",
            ("1", "/a/g++", "/a/g++-12"),
            ("1", "/b/g++", "/b/g++-12"),
            "its program is `/b/g++` instead of `/a/g++`",
        ),
        ("files", ("a.ptx", "1"), ("a.ptx", "2"), "`a.ptx` changed"),
        ("files", (), ("a.ptx", "2"), "`a.ptx` is now read"),
        ("module ids", ("_1_id",), ("_2_id",), "its module id changed"),
        ("directory", ("/one", "/one"), ("/two", "/two"), "the working directory changed from `/one`"),
        ("names", ("a.ptx",), ("b.ptx",), "its intermediate files have other names"),
        ("dates", ("/a:b.cu:1:2",), ("/a:b.cu:3:2",), "the date of `/a:b.cu` changed"),
    ],
)
def test_each_other_component_is_a_reason(now, before, tag, old, new, clause):
    before.change("ptxas", tag, *old)
    now.change("ptxas", tag, *new)
    assert why(now, before) == {"ptxas sm_80": clause}


def test_of_many_differences_the_first_are_shown_and_the_others_counted(now, before):
    now.change("ptxas", "arguments", *now.stage("ptxas").key_argv, *(f"-W{letter}" for letter in "abcde"))
    (clause,) = why(now, before).values()
    assert clause.count("was added") == 3 and clause.endswith("; and 2 more")


def read_by(compile_: Compile, start: str) -> Entry:
    """Store a stage's input record: `a.h` and CPATH."""
    made = InputRecord()
    made.files, made.kinds, made.digests = ["a.h"], "s", [keys.digest_file("a.h")]
    made.signatures = [UNKNOWN]
    made.variables = [("CPATH", environment.digest_of("CPATH", compile_.environ))]
    entry = Entry(LookupKey("f" * 64, Relocation("", os.getcwd())), made, Result())
    record.add(entry, compile_.cache, time.time_ns())
    compile_.found[id(compile_.stage(start))] = entry
    return entry


@pytest.fixture
def observed(before, tmp_path) -> Compile:
    (tmp_path / "work" / "a.h").write_text("int a;\n")
    read_by(before, "host_preprocess")
    return before


@pytest.mark.parametrize(
    ("path", "environ", "clause"),
    [
        ("a.h", {}, "`a.h` changed"),
        ("", {"CPATH": "x"}, "the environment variable `CPATH` was set"),
        ("", {"OTHER": "x"}, LOST),
    ],
)
def test_with_equal_key_components_the_changed_input_is_named(cache, observed, path, environ, clause):
    now = Compile(cache, **environ)
    if path:
        with open(path, "w") as stream:
            stream.write("int other;\n")
    now.change("cudafe", "inputs", "another digest")
    reasons = dict(now.reasons_for().reasons(observed.recorded(), False))
    assert reasons["preprocess host"] == clause
    printed = clause if clause != LOST else "the preprocessed text changed"
    assert reasons["cudafe++"] == printed


def test_a_stage_that_ran_names_the_record_that_it_stored(cache, observed):
    stage = observed.stage("host_preprocess")
    observed.found.clear()
    observed.stored[id(stage)] = "front/result"
    kept = {one.name: one.record_name for one in observed.recorded().stages if one.record_name}
    assert kept == {"preprocess host": "front/result"}
