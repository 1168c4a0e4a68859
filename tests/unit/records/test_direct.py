"""Direct hits: the answer of a call under other output names."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from nvccache.commandline import invocation
from nvccache.files import keys
from nvccache.records import direct, record
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Front, Pair, Result
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


def answer_of(
    result: Result | None, line: str, read: Sequence[str] = (), relocation: Relocation = NOWHERE
) -> Answer | None:
    """The answer of a call with this result stored."""
    assert result
    made = InputRecord()
    made.files = list(read)
    return direct.answer_of(Pair(Front("key", relocation), made, result), parse(line))


def whole() -> Result:
    """The result of a call that has a product and a dependency file."""
    result = result_of(given("out/a.o", "out/a.d"), WHOLE)
    assert result
    return result


def written(answer: Answer | None) -> list[str]:
    assert answer
    files = [destination for destination, _, _ in answer.products]
    return files + ([answer.dependency_file] if answer.rule is not None else [])


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
        ("-c a.cu -odir out -o out/x.o", ("out/x.o",), "-c a.cu -odir out -o out/y.o", ["out/y.o"]),
    ],
)
def test_an_answer_is_given_under_the_names_of_the_call(line, made, other, found):
    kept = result_of(given(*made), line)
    assert written(answer_of(kept, line)) == list(made)
    assert written(answer_of(kept, other)) == found


def test_what_is_unlinked_first_follows_from_the_call():
    """Otherwise a record could write through a link that nvcc replaces."""
    made = given("a.o")
    made.products = [("a.o", DIGEST, False)]
    assert result_of(made, "-c a.cu -o a.o") is None
    for line, is_unlinked in (("-c a.cu -o x", True), ("-ptx a.cu -o x", False), ("-dlink a.o -o x", True)):
        made.products = [("x", DIGEST, is_unlinked)]
        assert answer_of(result_of(made, line), line).products == made.products


def test_an_answer_comes_back():
    found = answer_of(result_of(given("a.o"), "-c a.cu -o a.o"), "-c a.cu -o b.o")
    assert found.products == [("b.o", DIGEST, True)]
    result = found.result
    assert (found.rule, result.stdout, result.stderr, result.seconds) == (None, b"out\0", b"\xff\n", 2.5)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("-c a.cu -MD -o b.o", b"b.o : a.cu \\\n    /usr/include/s\\ y\\ s.h \\\n    sub/x.h\n"),
        ("-c a.cu -MD -o b.o -MT me", b"me : a.cu \\\n    /usr/include/s\\ y\\ s.h \\\n    sub/x.h\n"),
        ("-c a.cu -MD -o b.o -MP -MT me", None),
    ],
)
def test_the_depfile_is_rewritten_for_the_call(line, rule):
    found = answer_of(result_of(given("a.o", "a.d"), "-c a.cu -MD -o a.o"), line)
    assert found.rule == rule if rule else found.rule.endswith(b"\nsub/x.h:\n")


def test_a_dependency_file_without_system_headers_leaves_them_out():
    found = answer_of(result_of(given("a.o", "a.d"), "-c a.cu -MMD -o a.o"), "-c a.cu -MMD -o b.o")
    assert found.rule == b"b.o : a.cu \\\n    sub/x.h\n"


@pytest.mark.parametrize("line", ["-c a.cu -MD -o a.b.o", "-c a.cu -MD -o a", "-c a.cu -MD -o d/.o"])
def test_a_dependency_file_of_which_the_name_follows_from_nothing_is_not_kept(line):
    assert result_of(given("a", "somewhere.d"), line) is None


def test_an_output_with_two_dots_leaves_the_name_of_its_dependency_file_in_doubt():
    assert result_of(given("a.b.o", "a.b.d"), "-c a.cu -MD -o a.b.o") is None


def test_calls_differ_in_whether_they_ask_for_a_dependency_file():
    assert answer_of(result_of(given("a.o"), "-c a.cu -o a.o"), "-c a.cu -MD -o a.o") is None
    assert answer_of(result_of(given("a.o", "a.d"), "-c a.cu -MD -o a.o"), "-c a.cu -o a.o") is None


def test_paths_of_a_shared_answer_are_those_of_the_checkout():
    one, two = (Relocation("/base", f"/base/{name}/build") for name in ("one", "two"))
    kept = direct.result_of(given("a.o", "a.d"), [("/base/one/a.cu", False)], parse("-c a.cu -MD"))
    found = answer_of(record._decoded(record._encoded(kept, one), two), "-c a.cu -MD", relocation=two)
    assert b"/base/two/a.cu" in found.rule


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("-c {}.cu", ("{}.o",)),
        ("-c {}.cu -MD", ("{}.o", "{}.d")),
        ("-c {}.cu -MD -odir out", ("out/{}.o", "out/{}.d")),
        ("-c {}.cu -MD -o {}.o", ("{}.o", "{}.d")),
        ("-c {}.cu -MD -o {}.o -MF {}", ("{}.o", "{}")),
    ],
)
@pytest.mark.parametrize("name", ["é", "\udcff", "=", "o"])
def test_odd_names_come_back(line, made, name):
    line = line.replace("{}", name)
    names = [path.replace("{}", name) for path in made]
    listed = [(f"{name}.cu", False)] if len(names) > 1 else []
    kept = direct.result_of(given(*names), listed, parse(line))
    assert written(answer_of(kept, line)) == names


@pytest.mark.parametrize("number", ["", "x", "1", "-1", "0.0", "o", "=a.o", "=/x", "d../x", "²", "9" * 5000])
def test_a_product_that_does_not_follow_from_the_call_is_none(number):
    result = whole()
    assert answer_of(result, WHOLE)
    result.outputs = [(number, DIGEST)]
    assert answer_of(result, WHOLE) is None


@pytest.mark.parametrize("numbers", [[], ["0", "0"], ["0", "1"]])
def test_an_answer_has_every_product_once(numbers):
    result = whole()
    result.outputs = [(number, DIGEST) for number in numbers]
    assert answer_of(result, WHOLE) is None


def test_a_dependency_file_is_there_if_it_is_asked_for():
    result = whole()
    assert answer_of(result, WHOLE).dependency_file == "out/a.d"
    result.listed = []
    assert answer_of(result, WHOLE) is None


def test_what_is_listed_and_a_dependency_file_go_together():
    assert direct.result_of(given("out/a.o", "out/a.d"), [], parse(WHOLE)) is None
    assert direct.result_of(given("a.o"), LISTED, parse("-c a.cu")) is None


@pytest.mark.parametrize(
    ("name", "read", "is_answer"),
    [("a b.h", [], True), ("x=y.h", ["x=y.h"], True), ("x=y.h", [], False), ("a\nb", ["a\nb"], False),
     ("$(b)", ["$(b)"], False), ("a;b", ["a;b"], False)],
)  # fmt: skip
def test_names_that_mean_something_else_to_make_are_not_written(name, read, is_answer):
    result = whole()
    result.listed = [(name, "")]
    assert bool(answer_of(result, WHOLE, read)) == is_answer


def test_what_a_compile_makes_is_no_program_and_the_other_way_round():
    result = whole()
    assert answer_of(result, "a.cu -MD -o a.x") is None
    result.outputs = []
    assert answer_of(result, WHOLE) is None


@pytest.mark.parametrize("read", ["out/a.o", "out/a.d"])
def test_what_was_read_is_not_written(read):
    """Whatever the command line says."""
    for path, is_answer in ((read, False), (os.path.abspath(read), False), ("out/b.o", True)):
        assert bool(answer_of(whole(), WHOLE, ["a.cu", path])) == is_answer


@pytest.mark.by_default("-o d.e/x.o", "-o ./x.o", "", "-odir d -o x.o", "-o x.o -MF y")
@pytest.mark.parametrize(
    "line",
    [
        "-o x.o",
        "-o d/x.o",
        "-o x.ptx",
        "-o d.e/x.o",
        "-o ./x.o",
        "",
        "-odir d",
        "-o x.o -MF y",
        "-odir d -o x.o",
    ],
)
def test_dependency_files_lie_where_nvcc_writes_them(workspace, nvcc, line):
    """A record is kept only if nvcc's own names follow from the call."""
    for name in ("d", "d.e"):
        (workspace.directory / name).mkdir()
    workspace.write("a.cu", "__global__ void k() {}\n")
    line = f"-c a.cu -MD {line}".strip()
    assert workspace.plain(*line.split()).status == 0
    made = [
        os.path.relpath(os.path.join(folder, name), workspace.directory)
        for folder, _, names in os.walk(workspace.directory)
        for name in names
        if name != "a.cu"
    ]
    (product,) = [name for name in made if name.endswith((".o", ".ptx"))]
    (rule,) = [name for name in made if name != product]
    dotted = "./" if "./x.o" in line else ""
    kept = result_of(given(dotted + product, dotted + rule), line)
    assert [os.path.normpath(path) for path in written(answer_of(kept, line))] == [product, rule]
    other = line.replace("x.o", "z.o").replace("-MF y", "-MF w")
    moved = [product.replace("x.o", "z.o"), "w" if "-MF" in line else rule.replace("x.d", "z.d")]
    assert [os.path.normpath(path) for path in written(answer_of(kept, other))] == (
        moved if "x.o" in line else [product, rule]
    )


def test_a_product_beside_the_one_that_is_named_is_not_recorded():
    given = Answer(Result())
    given.products = [("x.ptx", "0" * 64, False), ("x.ltoir", "1" * 64, False)]
    call = invocation.parse(["-ptx", "a.cu", "-o", "x.ptx"], {})
    assert direct.result_of(given, [], call) is None
    call = invocation.parse(["-ptx", "x.cu"], {})
    assert direct.result_of(given, [], call) is not None
