"""Running a stage: its inputs exist, or are made again, and the arguments of its tool."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from nvccache import passes
from nvccache.plan.model import PLAIN_WRAPPER
from nvccache.plan.stages.tool import Grammar
from nvccache.run.run_stage import argv_to_run, facts_of
from nvccache.run.wrappers import PLACES, UNKNOWN
from nvccache.store import store
from nvccache.store.store import Store
from nvccache.values import replace
from scripted_toolkit import Toolkit, cubin, stages
from stages_of_nothing import stage


def lose(toolkit: Toolkit, content: bytes) -> None:
    lost = [path for path, found in toolkit.blobs().items() if found == content]
    assert lost
    for path in lost:
        path.unlink()


def test_a_rerun_stage_gets_its_input_from_the_store(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int a; int for_ptxas_alone;\n")
    toolkit.compile()
    toolkit.replace_tool("ptxas")
    assert stages(toolkit.compile()) == ["(device_preprocess)", "(cicc)", "ptxas"]
    assert (toolkit.work / "a.cubin").read_bytes() == b"int a; int ;\n"


@pytest.mark.parametrize(
    ("options", "is_cached", "wrapper", "effects", "more"),
    [
        ("-g", True, "", (), "-fdebug-prefix-map=/s=/tmp/nvccache"),
        ("-O2", True, "", (), ""),
        ("-g", False, "", (), ""),
        ("-O2", True, PLAIN_WRAPPER, (PLACES,), "-fdebug-prefix-map=/s=/tmp/nvccache"),
        ("-O2", True, PLAIN_WRAPPER, (PLACES, UNKNOWN), ""),
        ("-O2", True, "", (PLACES,), ""),
    ],
)
def test_the_scratch_directory_is_left_out_of_debug_information(options, is_cached, wrapper, effects, more):
    """Even if a wrapper is known to add the option that asks for it."""
    argv = ("g++", "-c", options, "/s/a.ii")
    grammar = Grammar("host_compile", is_cached=is_cached)
    compiling = replace(stage("host_compile", "a.o"), grammar=grammar, argv=argv, wrapper=wrapper)
    call = SimpleNamespace(wrapper_effects={*effects}, plan=SimpleNamespace(scratch="/s"))
    assert argv_to_run(call, compiling) == [*argv, *more.split()]


def test_an_intermediate_missing_from_the_store_is_made_again(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int a; int for_ptxas_alone;\n")
    toolkit.compile()
    lose(toolkit, b"int a; int for_ptxas_alone;\n")
    toolkit.replace_tool("ptxas")
    report = toolkit.compile()
    assert (report.status, report.leave_to_nvcc) == (0, "")
    assert (toolkit.work / "a.cubin").read_bytes() == b"int a; int ;\n"
    assert b"int a; int for_ptxas_alone;\n" in toolkit.blobs().values(), "and is kept"


def test_an_output_evicted_from_the_store_is_compiled_again(toolkit: Toolkit) -> None:
    """A stage that was found may have lost its outputs since."""
    toolkit.write("a.cu", "int a; int for_ptxas_alone;\n")
    toolkit.compile()
    for content in (b"int a; int for_ptxas_alone;\n", b"int a; int ;\n"):
        lose(toolkit, content)
    (toolkit.work / "a.cubin").unlink()
    assert toolkit.compile().status == 0
    assert (toolkit.work / "a.cubin").read_bytes() == b"int a; int ;\n"


def test_temporary_files_of_nvidias_tools_are_in_the_scratch_directory(toolkit: Toolkit) -> None:
    """A host compiler keeps the caller's directory, for servers that it starts (test_compile_servers.py)."""
    toolkit.replace_tool("cicc", 'echo x >"$TMPDIR/left"\necho "$TMPDIR" >"$out"\n')
    toolkit.compile()
    assert (toolkit.work / "a.cubin").read_text().startswith(f"{toolkit.folder}/tmp/nvccache-")
    assert os.listdir(toolkit.folder / "tmp") == []


def test_a_tool_gets_the_variables_that_nvcc_sets_for_it(toolkit: Toolkit) -> None:
    toolkit.replace_tool("cicc", 'echo "$SET $GIVEN" >"$out"\n')
    toolkit.will_do("SET=by nvcc", *cubin())
    toolkit.compile(GIVEN="by the caller")
    assert (toolkit.work / "a.cubin").read_text() == "by nvcc by the caller\n"


@pytest.mark.parametrize("status", [0, 3])
def test_a_tool_that_writes_no_output_is_an_error(toolkit: Toolkit, status: int) -> None:
    toolkit.write_tool("cicc", f"#!/bin/sh\nexit {status}\n")
    if status:
        assert toolkit.compile().leave_to_nvcc == "odd_failure"
    else:
        with pytest.raises(FileNotFoundError):  # the shim has nvcc compile then
            toolkit.compile()
    assert not list((toolkit.folder / "tmp").iterdir())


TEXT = b'# 1 "a.cu"\nint x;\n'


def test_facts_about_a_preprocessed_text_are_remembered(tmp_path, monkeypatch):
    cache = Store(str(tmp_path / "cache"))
    made = facts_of(TEXT, cache)
    assert made == passes.facts_of_text(TEXT)
    monkeypatch.setattr(passes, "facts_of_text", None)
    assert facts_of(TEXT, Store(cache.root)) == made


def test_facts_remembered_about_one_text_are_not_used_for_another(tmp_path):
    cache = Store(str(tmp_path / "cache"))
    text = TEXT.replace(b"x", b"y")
    assert facts_of(text, cache) == passes.facts_of_text(text) != facts_of(TEXT, cache)


def test_damaged_facts_about_a_text_are_computed_again(tmp_path):
    cache = Store(str(tmp_path / "cache"))
    made = facts_of(TEXT, cache)
    (path,) = Path(cache.root).glob(f"{store.MEMO}/*/*")
    cache.add_record(store.MEMO, path.name, b"[]")
    assert facts_of(TEXT, Store(cache.root)) == made


def test_recaching_computes_facts_about_a_text_again(tmp_path):
    cache = Store(str(tmp_path / "cache"))
    facts_of(TEXT, cache)
    (path,) = Path(cache.root).glob(f"{store.MEMO}/*/*")
    cache.add_record(store.MEMO, path.name, passes.facts_of_text(b"").encoded())
    assert facts_of(TEXT, cache) == passes.facts_of_text(b"")
    assert facts_of(TEXT, cache, True) == passes.facts_of_text(TEXT)
