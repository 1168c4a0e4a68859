"""The walk that makes a key, over the plan of a real dry run: no tool is run here.

The tables say what must count for which stage; they are written by hand.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from nvccache.commandline import invocation
from nvccache.plan import build, stage_key
from nvccache.plan.model import Plan
from nvccache.plan.stages import ptxas
from nvccache.store.store import Store
from nvccache.toolkit import dryrun
from nvccache.values import replace
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Workspace, make_workspace

PASSES = {"host_preprocess", "device_preprocess"}
KINDS = ("cudafe", "cicc", "ptxas", "fatbinary", "host_compile", *PASSES)
HOST = {"host_compile", *PASSES}
FRONT_END = {"cudafe", "cicc"}
MODEL = {"cudafe", "cicc", "ptxas", "fatbinary", *PASSES}
OPTIONS = {
    "-Ione": HOST,
    "-O3": HOST,
    "-Xcompiler -march=native": HOST,
    "-g": HOST,
    "-std=c++14": {*FRONT_END, *HOST},
    "-extended-lambda": {*FRONT_END, *PASSES},
    "-Wreorder": FRONT_END,
    "-w": {*FRONT_END, "ptxas", *HOST},
    "-Xptxas -O1": {"ptxas", "fatbinary"},
    "-Xfatbin -compress-all": {"fatbinary"},
    "-rdc=true": MODEL,
    "-G": MODEL,
    "-lineinfo": {"cicc", "ptxas", "fatbinary"},
    "-use_fast_math": {"cicc", "fatbinary"},
    "-maxrregcount=32": {"cicc", "ptxas", "fatbinary"},
    "-arch=sm_80": {"cicc", "ptxas", "fatbinary", *HOST},
    "-gencode arch=compute_80,code=[sm_80,sm_86]": {"cicc", "ptxas", "fatbinary", *HOST},
    "-restrict": {"cicc"},
    # Options seen only by a preprocessor change its text, or do not matter.
    "-DX": PASSES,
    "-include a.cu": PASSES,
    "-default-stream per-thread": PASSES,
    # These name outputs, or concern only the linker.
    "-o other.o": set(),
    "-MD": set(),
    "-t 2": set(),
    "-cudart=shared": set(),
}


class Stages:
    """The keys of the stages of a call, all of whose intermediates have the same content."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.store = Store(str(workspace.cache))
        self.usual: dict[str, tuple[str, ...]] = {}  # keys of `-c a.cu -o a.o`

    def plan(self, *arguments: str, **variables: str) -> tuple[Plan, dict[str, str]]:
        environ = {**self.workspace.environ, **variables}
        parsed = invocation.parse([*arguments, *HOST_OPTIONS], environ)
        assert isinstance(parsed, invocation.Invocation), parsed
        scratch = str(self.workspace.directory / "scratch")
        os.makedirs(scratch, exist_ok=True)
        transcript = dryrun.transcribe(self.workspace.nvcc, parsed.dryrun_arguments, scratch, environ)
        assert isinstance(transcript, dryrun.Transcript), transcript
        planned = build.plan_of(transcript, parsed, scratch)
        assert isinstance(planned, Plan), planned
        return planned, {**environ, **transcript.variables}

    def keys(self, *arguments: str, **variables: str) -> dict[str, tuple[str, ...]]:
        return self.keys_of(*self.plan(*arguments, **variables))

    def keys_of(
        self, planned: Plan, environ: Mapping[str, str], digest: str = "same", cwd: str = "/cwd"
    ) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for stage in planned.stages:
            if stage.grammar.is_cached:
                digests = [digest for _ in stage.inputs]
                parts = stage_key.of_stage(stage, digests, environ, cwd, self.store)
                found[stage.kind] = (*found.get(stage.kind, ()), stage_key.key_of(parts))
        return found


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> Stages:
    stages = Stages(make_workspace(tmp_path_factory.mktemp("stages"), nvcc))
    stages.workspace.write("a.cu", "")
    return stages


@pytest.fixture
def stages(planner: Stages, monkeypatch: pytest.MonkeyPatch) -> Stages:
    monkeypatch.chdir(planner.workspace.directory)
    planner.usual = planner.usual or planner.keys("-c", "a.cu", "-o", "a.o")
    return planner


def changed(one: Mapping[str, object], other: Mapping[str, object]) -> set[str]:
    return {kind for kind in KINDS if one.get(kind) != other.get(kind)}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_changes_exactly_the_keys_of_the_stages_that_see_it(stages: Stages, option: str) -> None:
    """Its effects on the texts between stages come on top."""
    output = [] if option.startswith("-o ") else ["-o", "a.o"]
    after = stages.keys("-c", "a.cu", *output, *option.split())
    assert changed(stages.usual, after) == OPTIONS[option]


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ("", PASSES),
        ("-g", HOST),
        ("-G", {"cicc", *PASSES}),
        ("-lineinfo", {"cicc", *PASSES}),
        ("-Xcompiler -g0", PASSES),
    ],
)
def test_the_directory_is_in_the_keys_of_preprocessing_and_of_debug_compiles(
    stages: Stages, options: str, kinds: set[str]
) -> None:
    """By its own name, and by that in PWD."""
    planned, environ = stages.plan("-c", "a.cu", *options.split())
    before, elsewhere = {**environ, "PWD": "/cwd"}, {**environ, "PWD": "/other"}
    keys = stages.keys_of(planned, before)
    assert changed(keys, stages.keys_of(planned, elsewhere)) == kinds
    assert changed(keys, stages.keys_of(planned, before, cwd="/other")) == kinds


def test_intermediate_names_are_in_keys_only_if_outputs_contain_them(stages: Stages) -> None:
    """In the symbol table of the object, and in a debug cubin."""
    for options, kinds in (([], {"host_compile"}), (["-G"], {"ptxas", "host_compile"})):
        planned, environ = stages.plan("-c", "a.cu", *options)
        scratch = planned.scratch
        steps = [
            replace(
                stage,
                inputs=tuple(path.replace(scratch + "/a.", scratch + "/b.") for path in stage.inputs),
                outputs=tuple(
                    replace(output, path=output.path.replace(scratch + "/a.", scratch + "/b."))
                    for output in stage.outputs
                ),
            )
            for stage in planned.stages
        ]
        renamed = replace(planned, steps=tuple(steps))
        assert changed(stages.keys_of(planned, environ), stages.keys_of(renamed, environ)) == kinds


def test_the_content_of_a_file_that_an_option_names_is_in_the_stage_key(stages: Stages) -> None:
    for option in ("-include,named.txt", "-frandom-seed=named.txt"):
        stages.workspace.write("named.txt", "first")
        planned, environ = stages.plan("-c", "a.cu", "-Xcompiler", option)
        before = stages.keys_of(planned, environ)
        stages.workspace.write("named.txt", "other")
        assert changed(before, stages.keys_of(planned, environ)) == HOST


def test_dividing_the_same_text_into_other_parts_gives_another_stage_key() -> None:
    assert stage_key.key_of([("stage", ("a",)), ("tool", ("b",))]) != stage_key.key_of(
        [("stage", ("b",)), ("tool", ("a",))]
    )
    assert stage_key.key_of([("a", ("x", "yz"))]) != stage_key.key_of([("a", ("xy", "z"))])
    assert stage_key.key_of([("a", ("x",)), ("b", ())]) != stage_key.key_of([("a", ()), ("b", ("x",))])


def test_source_dates_matter_to_ptxas_with_line_info_in_older_ptx() -> None:
    text = '.version 9.0\n.target sm_80\n\t.file\t1 "/a b.cu"\n\t.file\t2 "/x.h", 1, 2\n// .file 3 "/no"\n'
    assert ptxas.dated_sources(text.encode()) == ["/a b.cu", "/x.h"]
    assert ptxas.dated_sources(text.replace("9.0", "9.5").encode()) == []
    assert ptxas.grammar_of(["ptxas", "--generate-line-info"]).dates_sources
    assert ptxas.grammar_of(["ptxas", "-g"]).dates_sources
    assert not ptxas.grammar_of(["ptxas", "-arch=sm_80"]).dates_sources
