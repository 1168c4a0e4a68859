"""Direct hits: the names of a call's outputs, and the answer of a call under other names."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from nvccache.files import keys
from nvccache.records import direct, output_names, record
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.output_names import Outputs
from nvccache.records.products import Answer
from nvccache.records.record import Entry, LookupKey, Result
from typed_calls import NOWHERE, parse

DIGEST = keys.digest_bytes(b"object")
WHOLE = "-c a.cu -MD -odir out"
LISTED = [("a.cu", False), ("/usr/include/s y s.h", True), ("sub/x.h", False)]


def given(product: str, dependency_file: str = "") -> Answer:
    answer = Answer(Result())
    answer.products = [(product, DIGEST, True)]
    answer.dependency_file, answer.rule = dependency_file, b"" if dependency_file else None
    answer.result.stdout, answer.result.stderr, answer.result.seconds = b"out\0", b"\xff\n", 2.5
    return answer


def result_of(answer: Answer, line: str) -> Result | None:
    return direct.result_of(answer, LISTED if answer.rule is not None else [], parse(line))


def answer_of(result: Result | None, line: str, relocation: Relocation = NOWHERE) -> Answer | None:
    """The answer of a call with this result stored."""
    assert result
    return direct.answer_of(Entry(LookupKey("key", relocation), InputRecord(), result), parse(line))


def written(answer: Answer | None) -> list[str]:
    assert answer
    files = [destination for destination, _, _ in answer.products]
    return files + ([answer.dependency_file] if answer.rule is not None else [])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-c a.cu", (["a.o"], "")),
        ("-c s/a.cu t/b.cu", (["a.o", "b.o"], "")),
        ("-c a.b.cu", (["a.b.o"], "")),
        ("-c .cu", ([".o"], "")),
        ("-x cu -c noext", (["noext.o"], "")),
        ("-dc a.cu", (["a.o"], "")),
        ("-ptx a.cu", (["a.ptx"], "")),
        ("-cubin -odir out e.ptx", (["out/e.cubin"], "")),
        ("-fatbin a.cu", (["a.fatbin"], "")),
        ("-optix-ir a.cu", (["a.optixir"], "")),
        ("-dlink a.o b.o", (["a_dlink.o"], "")),
        ("-dlink -cubin a.o -odir out", (["out/a_dlink.cubin"], "")),
        ("-dlink a.o -o x", (["x"], "")),
        ("a.cu b.cu -o prog", ([], "")),
        ("-c a.cu -MD", (["a.o"], "a.d")),
        ("-c a.cu -MD -odir out", (["out/a.o"], "out/a.d")),
        ("-c a.cu -MD -odir out -MF y.d", (["out/a.o"], "y.d")),
        ("-c a.cu -MD -odir out -o x.o", (["x.o"], "x.d")),
        ("-c a.cu -o x/y.o -MMD -MF z", (["x/y.o"], "z")),
        # From these the name of the depfile does not follow.
        ("-c a.cu -o x.y.o -MD", None),
        ("-c a.cu -o x -MD", None),
        ("-c a.cu -o d/.o -MD", None),
        ("-c a.cu b.cu -MD", None),
    ],
)
def test_names_follow_from_the_call(line, expected):
    found = output_names.outputs_of(parse(line))
    assert (found and (found.products, found.dependency_file)) == expected


def test_what_is_given_are_all_products_once():
    wanted = Outputs(["a", "b"], "d", are_objects=True)
    assert wanted.match(["b", "a"], "d")
    for products, dependency_file in (
        (["a"], "d"),
        (["a", "b", "b"], "d"),
        (["a", "b", "x"], "d"),
        (["a", "b"], ""),
        (["a", "b"], "x"),
    ):
        assert not wanted.match(products, dependency_file)


@pytest.mark.parametrize(
    ("line", "made", "other", "found"),
    [
        ("-c a.cu -o a.o", ("a.o",), "-c a.cu -o /x/b.o", ["/x/b.o"]),
        ("-c a.cu", ("a.o",), "-c a.cu", ["a.o"]),
        ("-c a.cu -odir out", ("out/a.o",), "-c a.cu -odir /y", ["/y/a.o"]),
        ("-c a.cu -MD", ("a.o", "a.d"), "-c a.cu -MD -MT x", ["a.o", "a.d"]),
        ("-c a.cu -MD -o a.o", ("a.o", "a.d"), "-c a.cu -MD -o x/b.obj", ["x/b.obj", "x/b.d"]),
        ("-c a.cu -MD -o a.o -MF r", ("a.o", "r"), "-c a.cu -MD -o b.o -MF x/s", ["b.o", "x/s"]),
        ("-c a.cu -MD -odir out", ("out/a.o", "out/a.d"), "-c a.cu -MD -odir y", ["y/a.o", "y/a.d"]),
        ("-c a.cu -odir out -o x.o", ("x.o",), "-c a.cu -odir y -o y.o", ["y.o"]),
        ("-c é=\udcff.cu", ("é=\udcff.o",), "-c é=\udcff.cu -o \udcff", ["\udcff"]),
    ],
)
def test_an_answer_is_given_under_the_names_of_the_call(line, made, other, found):
    kept = result_of(given(*made), line)
    assert written(answer_of(kept, line)) == list(made)
    again = answer_of(kept, other)
    assert written(again) == found
    assert (again.result.stdout, again.result.stderr, again.result.seconds) == (b"out\0", b"\xff\n", 2.5)


def test_what_is_unlinked_first_follows_from_the_call():
    """Otherwise a record could write through a link that nvcc replaces."""
    made = given("a.o")
    made.products = [("a.o", DIGEST, False)]
    assert result_of(made, "-c a.cu -o a.o") is None
    for line, is_unlinked in (("-c a.cu -o x", True), ("-ptx a.cu -o x", False), ("-dlink a.o -o x", True)):
        made.products = [("x", DIGEST, is_unlinked)]
        assert answer_of(result_of(made, line), line).products == made.products


_REST = b" : a.cu \\\n    /usr/include/s\\ y\\ s.h \\\n    sub/x.h\n"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("-MD", b"b.o" + _REST),
        ("-MD -MT me", b"me" + _REST),
        ("-MD -MP", b"b.o" + _REST + b"\n/usr/include/s\\ y\\ s.h:\n\nsub/x.h:\n"),
        ("-MMD", b"b.o : a.cu \\\n    sub/x.h\n"),
    ],
)
def test_the_depfile_is_rewritten_for_the_call(options, rule):
    kept = result_of(given("a.o", "a.d"), f"-c a.cu {options} -o a.o")
    assert answer_of(kept, f"-c a.cu {options} -o b.o").rule == rule


def test_paths_of_a_shared_answer_are_those_of_the_checkout():
    one, two = (Relocation("/base", f"/base/{name}/build") for name in ("one", "two"))
    kept = direct.result_of(given("a.o", "a.d"), [("/base/one/a.cu", False)], parse("-c a.cu -MD"))
    found = answer_of(record._decoded(record._encoded(kept, one), two), "-c a.cu -MD", two)
    assert b"/base/two/a.cu" in found.rule


@pytest.mark.parametrize(
    "roles",
    [[], ["x"], ["1"], ["-1"], ["0.0"], ["=/x"], ["9" * 4000], ["0", "0"], ["0", "link/a.o"], ["link/a.o"]],
)
def test_no_record_decides_what_is_written(roles):
    """Also one of a remote: it gives all products of the call and nothing else."""
    result = result_of(given("out/a.o", "out/a.d"), WHOLE)
    assert written(answer_of(result, WHOLE)) == ["out/a.o", "out/a.d"]
    result.outputs = [(role, DIGEST) for role in roles]
    assert answer_of(result, WHOLE) is None


def test_a_depfile_is_there_if_it_is_asked_for():
    whole = result_of(given("out/a.o", "out/a.d"), WHOLE)
    assert answer_of(whole, "-c a.cu -odir out") is None
    whole.listed = []
    assert answer_of(whole, WHOLE) is None


def test_a_product_beside_the_one_that_is_named_is_not_recorded():
    made = given("x.ptx")
    made.products = [("x.ptx", "0" * 64, False), ("x.ltoir", "1" * 64, False)]
    for line in ("-ptx a.cu -o x.ptx", "-ptx x.cu"):
        assert result_of(made, line) is None


def made_by_nvcc(workspace, line: str) -> Sequence[str]:
    """The product and the depfile of a compile by plain nvcc."""
    assert workspace.plain(*line.split()).status == 0
    found = [
        os.path.relpath(os.path.join(folder, name), workspace.directory)
        for folder, _, names in os.walk(workspace.directory)
        for name in names
        if name != "a.cu"
    ]
    return sorted(found, key=lambda name: not name.endswith((".o", ".ptx")))


@pytest.mark.parametrize("names", ["-o d.e/x.o", "-odir d"])
def test_dependency_files_lie_where_nvcc_writes_them(workspace, nvcc, names):
    for folder in ("d", "d.e"):
        (workspace.directory / folder).mkdir()
    workspace.write("a.cu", "__global__ void k() {}\n")
    line = f"-c a.cu -MD {names}"
    named = output_names.outputs_of(parse(line))
    assert [*named.products, named.dependency_file] == made_by_nvcc(workspace, line)
