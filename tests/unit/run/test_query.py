"""Queries, answered by an nvcc that is a shell script: what is recorded of them, and when nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripted_toolkit import Toolkit, write_nvcc


def ask(toolkit: Toolkit, text: str, line: str, **variables: str):
    """The report of a query that nvcc answers by this text of a shell."""
    write_nvcc(Path(toolkit.nvcc), text)
    toolkit.write("a.cu", "int a;\n")
    return toolkit.compile(line, **variables)


@pytest.mark.parametrize("product", ["", "out/a.ii"])
def test_the_answer_to_a_query_is_recorded_with_its_messages_and_inputs(
    toolkit: Toolkit, product: str
) -> None:
    Path("out").mkdir()
    line = f"-E a.cu -o {product}" if product else "-E a.cu"
    report = ask(toolkit, f"cat a.cu {product and '>' + product}; echo told >&2", line)
    answer = b"" if product else b"int a;\n"
    assert (report.stdout, report.stderr, report.status) == (answer, b"told\n", 0)
    assert (report.is_query, report.leave_to_nvcc, report.causes) == (True, "", [])
    assert report.product == (product and str(toolkit.work / product))
    for path in Path("out").iterdir():
        path.unlink()
    found = toolkit.answer(line)
    assert found and found.is_of_query
    assert (found.result.stdout, found.result.stderr, found.sources) == (answer, b"told\n", ["a.cu"])
    assert found.result.seconds > 0
    assert not product or Path(product).read_bytes() == b"int a;\n"
    toolkit.write("a.cu", "int b;\n")
    assert toolkit.answer(line) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo >shown; echo shown; rm shown", "the output of nvcc contains names of temporary files"),
        ("cat a.cu >a.ii; chmod 600 a.ii", "the object of a query has the unusual mode 600"),
        ("true", "No such file or directory"),
    ],
)
def test_an_answer_that_may_differ_next_time_is_not_recorded(
    toolkit: Toolkit, text: str, reason: str
) -> None:
    line = "-E a.cu -o a.ii" if "a.ii" in text or text == "true" else "-E a.cu"
    report = ask(toolkit, text, line)
    assert (report.status, report.leave_to_nvcc) == (0, "")
    assert reason in report.reason_against_record
    assert report.causes == [f"not recorded: {report.reason_against_record}"]
    assert toolkit.answer(line) is None


@pytest.mark.parametrize(
    ("text", "status", "leave_to_nvcc"), [("echo no >&2; exit 3", 3, ""), ("kill -9 $$", -9, "odd_failure")]
)
def test_a_query_that_fails_is_not_recorded(
    toolkit: Toolkit, text: str, status: int, leave_to_nvcc: str
) -> None:
    report = ask(toolkit, text, "-E a.cu")
    assert (report.status, report.leave_to_nvcc, report.causes) == (status, leave_to_nvcc, [])
    assert toolkit.answer("-E a.cu") is None


def test_a_readonly_query_and_one_on_one_stream_are_left_to_nvcc(toolkit: Toolkit, monkeypatch) -> None:
    assert ask(toolkit, "exit 9", "-E a.cu", NVCCACHE_READONLY="1").leave_to_nvcc == "preprocess_only"
    monkeypatch.setattr("nvccache.machine.streams.can_be_written", lambda output, messages: not messages)
    assert ask(toolkit, "echo text", "-E a.cu").leave_to_nvcc == ""
    assert ask(toolkit, "echo text; echo told >&2", "-E a.cu").leave_to_nvcc == "query_streams"
