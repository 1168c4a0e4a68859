"""When a stage is found in the store: by the bytes it reads, their normalized text, and its other inputs."""

from __future__ import annotations

import pytest

from nvccache.store import store
from scripted_toolkit import Toolkit, cubin, stages


def test_an_added_comment_line_reruns_only_the_preprocessor(toolkit: Toolkit) -> None:
    toolkit.compile()
    toolkit.write("a.cu", "// a comment\n\nint a;\n")
    assert stages(toolkit.compile()) == ["device_preprocess", "(cicc)", "(ptxas)"]


@pytest.mark.parametrize("text", ["int cicc_says;\n", "int a = __LINE__;\n"])
def test_moved_lines_rerun_cicc_if_its_result_shows_lines(toolkit: Toolkit, text: str) -> None:
    """In a message, which names the line, or in the code."""
    toolkit.write("a.cu", text)
    toolkit.compile()
    toolkit.write("a.cu", "// a comment\n\n" + text)
    assert "cicc" in stages(toolkit.compile())


def test_a_stage_with_unchanged_input_hits_after_its_predecessor_reran(toolkit: Toolkit) -> None:
    toolkit.compile()
    toolkit.write("a.cu", "int a; int for_cicc_alone;\n")
    toolkit.write_tool(
        "cicc",
        (toolkit.folder / "bin" / "cicc").read_text().replace("s/for_", "s/ int for_cicc_alone;//; s/x"),
    )
    assert stages(toolkit.compile()) == ["device_preprocess", "cicc", "(ptxas)"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (cubin(options="-DUNUSED=1"), ["device_preprocess", "(cicc)", "(ptxas)"]),
        (cubin(cicc_options="-ftz=1"), ["(device_preprocess)", "cicc", "(ptxas)"]),
        (cubin(90), ["device_preprocess", "cicc", "ptxas"]),
    ],
)
def test_a_changed_option_reruns_only_the_stages_that_get_it(
    toolkit: Toolkit, lines: list[str], expected: list[str]
) -> None:
    toolkit.compile()
    toolkit.will_do(*lines)
    assert stages(toolkit.compile()) == expected


@pytest.mark.parametrize("name", ["cicc", "ptxas"])
def test_only_the_stage_of_a_replaced_tool_runs_again(toolkit: Toolkit, name: str) -> None:
    toolkit.compile()
    toolkit.replace_tool(name)
    assert [kind for kind in stages(toolkit.compile()) if kind[0] != "("] == [name]


def test_a_header_that_appears_earlier_on_the_search_path_reruns_the_preprocessor(toolkit: Toolkit) -> None:
    toolkit.will_do(*cubin(options="-Iearly -I."))
    toolkit.write("h.h", "int h;\n")
    toolkit.write("a.cu", "#include <h.h>\n")
    toolkit.compile()
    assert stages(toolkit.compile())[0] == "(device_preprocess)"
    (toolkit.work / "early").mkdir()
    toolkit.write("early/h.h", "int early;\n")
    assert stages(toolkit.compile()) == ["device_preprocess", "cicc", "ptxas"]
    assert (toolkit.work / "a.cubin").read_bytes() == b"int early;\n"


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_or_missing_record_reruns_its_stage(toolkit: Toolkit, damage: str) -> None:
    toolkit.compile()
    records = list((toolkit.folder / "cache" / store.RECORD).glob("*/*"))
    for path in records:
        if damage == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1])
    assert stages(toolkit.compile()) == ["device_preprocess", "cicc", "ptxas"]
    assert stages(toolkit.compile()) == ["(device_preprocess)", "(cicc)", "(ptxas)"]
