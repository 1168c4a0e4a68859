"""A stage's result is stored, unless it is specific to this call or cannot be recognized again."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from nvccache.machine import process
from nvccache.observation.stage_inputs import Subject
from nvccache.plan.model import Plan
from nvccache.records.input_records import UnreadableError
from nvccache.records.record import Entry, LookupKey
from nvccache.run import publish_stage
from nvccache.run.stage_run import StageRun, ToolRun
from nvccache.values import replace
from scripted_toolkit import CICC, PASS, TOOL, Toolkit, stages
from stages_of_nothing import CICC as CICC_STAGE
from stages_of_nothing import DEVICE, HOST, stage


def test_outputs_of_stages_are_stored_and_preprocessed_text_is_not(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int a; int for_cicc_alone; int for_ptxas_alone;\n")
    toolkit.compile()
    assert set(toolkit.blobs().values()) == {b"int a; int ; int for_ptxas_alone;\n", b"int a; int ; int ;\n"}


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("ptxas_embeds_its_input", "an output file of ptxas contains the path of the scratch directory"),
        ("ptxas_names_the_product", "the messages of ptxas contain the name of an output file"),
        ("cicc_asks_for_the_time", "asks for the time"),
    ],
)
def test_a_stage_that_names_files_of_its_call_or_asks_the_time_is_not_stored(
    toolkit: Toolkit, what: str, reason: str
) -> None:
    toolkit.write("a.cu", f"int {what};\n")
    log = toolkit.folder / "log"
    assert toolkit.compile(NVCCACHE_LOG=str(log)).status == 0
    tool = what.partition("_")[0]
    assert f"store: the result of {tool} is not stored" in log.read_text()
    assert reason in log.read_text()
    assert reason in toolkit.last_record().reason_against_record
    assert tool in stages(toolkit.compile())


def test_a_stage_whose_output_names_a_user_file_is_not_stored(toolkit: Toolkit) -> None:
    """Such as ptxas when it checks PTX."""
    toolkit.write("a.cu", "int ptxas_names_the_product;\n")
    pass_and_cicc = (line.format(arch=80, ii="a.ii", ptx="a.cubin", options="") for line in (PASS, CICC))
    toolkit.will_do(*pass_and_cicc, 'ptxas -arch=sm_80 "a.cubin" -o "@scratch@/checked"')
    toolkit.compile()
    assert "contain the name of an output file" in toolkit.last_record().reason_against_record
    assert stages(toolkit.compile()) == ["(device_preprocess)", "(cicc)", "ptxas"]


@pytest.mark.parametrize(("options", "runs"), [("-nvvmpath=/nvvm", True), ("", False)], ids=["lto", "plain"])
def test_a_link_whose_line_table_may_hold_dates_is_not_stored(
    toolkit: Toolkit, options: str, runs: bool
) -> None:
    """One that compiles: only its result names the sources."""
    toolkit.write_tool("nvlink", TOOL.format(name="nvlink", removed="nothing"))
    toolkit.write("a.cu", 'char section[] = ".debug_line";\n')
    toolkit.will_do(
        PASS.format(arch=80, ii="a.ii", options=""),
        CICC.format(arch=80, ii="a.ii", ptx="@scratch@/a.ltoir", options=""),
        f'nvlink {options} "@scratch@/a.ltoir" -o "a.cubin"',
    )
    for is_first in (True, False):
        assert ("nvlink" in stages(toolkit.compile())) == (is_first or runs)
        reason = "the line information of nvlink contains dates"
        assert (reason in toolkit.last_record().reason_against_record) == runs


@pytest.mark.parametrize("what", ["cicc_fails", "cicc_runs_out"])
def test_a_failure_is_not_stored(toolkit: Toolkit, what: str) -> None:
    toolkit.write("a.cu", f"int {what};\n")
    for _ in range(2):
        assert "cicc" in stages(toolkit.compile())
    assert not toolkit.blobs()


def test_a_stage_with_a_process_left_running_is_not_stored(
    toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a tool has left behind: its later messages would be missing from each hit."""
    run = process.run

    def leave_a_process(argv: Sequence[str], *others: Any, **named: Any) -> process.Completed:
        return replace(run(argv, *others, **named), is_cut_short="ptxas" in argv[0])

    monkeypatch.setattr(process, "run", leave_a_process)
    assert toolkit.compile().status == 0
    assert "a process that ptxas started may still print" in toolkit.last_record().reason_against_record
    assert toolkit.answer() is None
    assert "ptxas" in stages(toolkit.compile())


@pytest.mark.parametrize(
    ("path", "printed", "content", "is_specific"),
    [
        ("/src/a.cu", b"/src/a.h: warning", b"", True),
        ("/src/a.cu", b"a warning", b"", False),
        ("/a.cu", b"/a.h: warning", b"", False),
        ("/src/a.cu", b"", b"x _1_a_cu_id", True),
        ("/src/a.cu", b"", None, False),
    ],
)
def test_a_result_with_the_module_id_or_the_path_in_it_is_specific_to_the_id(
    monkeypatch, path, printed, content, is_specific
):
    reading = replace(CICC_STAGE, names=(("source path", path),))
    monkeypatch.setattr(publish_stage, "_contents", lambda call, stage: {"a.ptx": content})
    call = SimpleNamespace(module_id_of=lambda stage: b"_1_a_cu_id")
    assert publish_stage._may_contain_id(call, reading, printed) == is_specific
    call.module_id_of = lambda stage: b""
    assert not publish_stage._may_contain_id(call, reading, printed)


def test_passes_of_one_tu_by_one_program_share_an_input_record(monkeypatch: pytest.MonkeyPatch) -> None:
    host, device, other = (replace(each, argv=("g++",)) for each in (HOST, DEVICE, stage(HOST.kind, "b.ii")))
    others = (other, replace(device, argv=("wrapper",)), device, CICC_STAGE)
    runs = [StageRun(number, each) for number, each in enumerate((host, device, *others))]
    for run in runs:
        log: Any = "log"
        run.tool_run = ToolRun(process.Completed(0, b"", b"", 0), log=log)
    runs[4].tool_run = ToolRun(process.Completed(0, b"", b"", 0), executor="elsewhere")
    destinations = {"a.cpp4.ii": ("a.o",), "a.cpp1.ii": ("a.o",), "b.ii": ("b.o",)}
    call: Any = SimpleNamespace(plan=Plan((), {}, destinations, "/s"), store=None, since_ns=0)
    monkeypatch.setattr(publish_stage, "_reason_against", lambda call, run, tool_run: "")
    monkeypatch.setattr(publish_stage, "_entry_of", lambda call, run, *read: Entry(LookupKey("k"), *read))
    groups: list[list[StageRun]] = []
    monkeypatch.setattr(publish_stage, "_input_record_of", lambda call, group: groups.append(group))
    monkeypatch.setattr(publish_stage.input_records, "follows_directory", lambda read: True)
    monkeypatch.setattr(publish_stage.record, "add", lambda entries, store, since_ns: None)
    publish_stage.publish(call, runs)
    assert groups == [runs[:2], *([run] for run in runs[2:])]


def test_a_stage_of_which_no_run_was_observed_has_no_record() -> None:
    """Without inputs, its record would match every later call."""
    call: Any = SimpleNamespace(subject_of=lambda stage: Subject({}, "g++"))
    run = StageRun(0, HOST)
    run.tool_run = ToolRun(process.Completed(0, b"", b"", 0))
    with pytest.raises(UnreadableError, match="no run of host_preprocess was observed"):
        publish_stage._input_record_of(call, [run])
