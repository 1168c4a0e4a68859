"""Whether a compile is recorded, how widely its record is shared, and what the record answers."""

from __future__ import annotations

import pytest

from nvccache.files import keys
from nvccache.run.report import Report
from scripted_toolkit import Toolkit, cubin

PLAIN = "-cubin -arch=sm_80 a.cu -o a.cubin"


def test_the_record_of_a_compile_gives_its_object_and_messages(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int ptxas_says;\n")
    report = toolkit.compile()
    product = (toolkit.work / "a.cubin").read_bytes()
    found = toolkit.answer()
    assert found
    assert [(path, digest) for path, digest, _ in found.products] == [("a.cubin", keys.digest_bytes(product))]
    assert (
        (found.result.stdout, found.result.stderr)
        == (report.stdout, report.stderr)
        == (b"", b"a.cu(1): ptxas warns\n")
    )
    assert found.result.seconds == pytest.approx(sum(stage.cost for stage in report.stages), abs=1e-5)


@pytest.mark.parametrize("change", ["the source", "a header", "an earlier header", "a tool", "the nvcc"])
def test_inputs_of_dry_run_and_stages_are_in_the_record(toolkit: Toolkit, change: str) -> None:
    toolkit.will_do(*cubin(options="-Iearly -Ilate"))
    for folder in ("early", "late"):
        (toolkit.work / folder).mkdir()
    toolkit.write("late/h.h", "int h;\n")
    toolkit.write("a.cu", '#include "h.h"\n')
    toolkit.compile()
    assert toolkit.answer()
    if change == "the source":
        toolkit.write("a.cu", '#include "h.h"\nint more;\n')
    elif change == "a header":
        toolkit.write("late/h.h", "int other;\n")
    elif change == "an earlier header":
        toolkit.write("early/h.h", "int h;\n")
    else:
        toolkit.replace_tool("ptxas" if change == "a tool" else "nvcc")
    assert toolkit.answer() is None


def test_a_file_of_options_is_in_the_record(toolkit: Toolkit) -> None:
    """nvccache reads it, and no stage does."""
    toolkit.write("o.txt", "-arch=sm_80\n")
    line = "-cubin -optf o.txt a.cu -o a.cubin"
    toolkit.compile(line)
    assert toolkit.answer(line)
    for other in ("-arch=sm_80 \n", "-arch=sm_80 -DX\n"):
        toolkit.write("o.txt", other)
        assert toolkit.answer(line) is None


def test_a_failed_compile_is_not_recorded(toolkit: Toolkit) -> None:
    toolkit.write("a.cu", "int cicc_fails;\n")
    assert toolkit.compile().status == 2
    assert toolkit.answer() is None


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (PLAIN.replace("sm_80", "native"), "int a;\n", "the call compiles for the native architecture"),
        (PLAIN, "int cicc_asks_for_the_time;\n", "asks for the time"),
    ],
)
def test_nondeterministic_compiles_are_not_recorded(
    toolkit: Toolkit, line: str, text: str, reason: str
) -> None:
    toolkit.write("a.cu", text)
    assert toolkit.compile(line).status == 0
    assert reason in toolkit.last_record().reason_against_record
    assert toolkit.answer(line) is None


def scope_of(report: Report) -> str:
    assert report.record
    return report.record.lookup_key.scope


def test_a_compile_with_relative_names_is_recorded_for_its_directory_only(toolkit: Toolkit) -> None:
    assert scope_of(toolkit.compile()) == "same_directory"


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("int a;\n", "below_base"),
        ('const char *a = "@work@";\n', "same_directory"),
        ("const char *a = __FILE__;\n", "below_base"),
    ],
)
def test_records_below_a_base_directory_are_shared_unless_the_text_names_the_directory(
    toolkit: Toolkit, text: str, scope: str
) -> None:
    toolkit.write("a.cu", text.replace("@work@", str(toolkit.work)))
    assert scope_of(toolkit.compile(NVCCACHE_BASE_DIR=str(toolkit.folder))) == scope
    assert toolkit.answer(NVCCACHE_BASE_DIR=str(toolkit.folder))


def test_a_product_that_names_its_directory_is_not_shared_with_others(toolkit: Toolkit) -> None:
    """Even though no compiled text names it."""
    toolkit.replace_tool("ptxas", f'echo "{toolkit.work}" >>"$out"\n')
    assert scope_of(toolkit.compile(NVCCACHE_BASE_DIR=str(toolkit.folder))) == "same_directory"
