"""Direct hits: what is in the key of a call, and its answer under other output names."""

from __future__ import annotations

import os
import shlex

import pytest

from damage import changed, shuffled, torn
from nvccache import environment
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.files import keys
from nvccache.records import direct
from nvccache.records.base_dir import Relocation
from nvccache.records.call_result import CallResult
from nvccache.records.direct import BOUND, PLACED, SHARED
from nvccache.records.input_records import InputRecord
from nvccache.records.manifest import Found
from nvccache.store import sections

NOWHERE = Relocation("", "/")
DIGEST = keys.digest_bytes(b"object")
ENTERED = [("a.cu", False), ("/usr/include/s y s.h", True), ("sub/x.h", False)]
SCOPES = (SHARED, PLACED, BOUND)


def parse(line: str) -> Invocation:
    call = invocation.parse(line.split(), {})
    assert isinstance(call, Invocation), call
    return call


def key(
    line: str, scope: str = PLACED, nvcc: str = "nvcc", relocation: Relocation = NOWHERE, environ=None
) -> str:
    return direct.key_of(scope, nvcc, parse(line), relocation, environ or {})


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "line",
    [
        "-c a.cu -DX",
        "-c b.cu",
        "-c a.cu b.cu",
        "-dc a.cu",
        "-ptx a.cu",
        "-c a.cu -O2",
        "-c a.cu -I x",
        "-c a.cu -arch=sm_80",
        "-c a.cu -Xcompiler -O2",
        "-c a.cu -MD",
        "-c a.cu -MMD",
        "-c a.cu -o a.o",
        "-c a.cu -odir out",
        "-c a.cu -lineinfo",
        "-x cu -c a.cu",
    ],
)
def test_what_decides_is_in_the_key(scope, line):
    assert key(line, scope) != key("-c a.cu", scope)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("-c a.cu -I x -I y", "-c a.cu -I y -I x"),
        ("-c a.cu -DX -UX", "-c a.cu -UX -DX"),
        ("-c a.cu -I -O2", "-c a.cu -I-O2 -I"),
        ("-c a.cu -Xcompiler -O2", "-c a.cu -Xptxas -O2"),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD"),
        ("-c a.cu -I x", "-c a.cu -isystem x"),
    ],
)
def test_order_and_place_of_arguments_are_in_the_key(line, other):
    calls = [invocation.parse(argv.split(), {}) for argv in (line, other)]
    found = [
        direct.key_of(PLACED, "nvcc", call, NOWHERE, {}) for call in calls if isinstance(call, Invocation)
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("scope", [SHARED, PLACED])
@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("-c a.cu -o a.o", "-c a.cu -o out/b.o"),
        ("-c a.cu -o a.o", "-o b.o -c a.cu"),
        ("-c a.cu -odir out", "-c a.cu -odir other"),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD -MF b.d"),
        ("-c a.cu -MD -MT x", "-c a.cu -MD -MT y"),
        ("-c a.cu -MD -MT x", "-c a.cu -MD"),
        ("-c a.cu -MD -MP", "-c a.cu -MD"),
        ("-c a.cu -t 4", "-c a.cu"),
        ("-c a.cu -t4", "-c a.cu -t 2"),
        ("-c a.cu -I x", "-c a.cu -Ix"),
        ("-c a.cu -I x", "-c a.cu --include-path=x"),
    ],
)
def test_names_of_outputs_are_not_in_the_key_and_spelling_is_not(scope, line, other):
    assert key(line, scope) == key(other, scope)


@pytest.mark.parametrize(
    "lines",
    [
        ("-c a.cu -o a.o", "-c a.cu -o b.o", "-c a.cu"),
        ("-c a.cu -odir out", "-c a.cu -odir other", "-c a.cu -o out"),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD -MF b.d"),
    ],
)
def test_a_bound_key_is_for_these_outputs_alone(lines):
    assert len({key(line, BOUND) for line in lines}) == len(lines)


def test_scopes_and_compilers_have_their_own_keys():
    assert len({key("-c a.cu", scope) for scope in SCOPES}) == 3
    assert key("-c a.cu", nvcc="/opt/nvcc") != key("-c a.cu", nvcc="/usr/nvcc")


@pytest.mark.parametrize("scope", SCOPES)
def test_variables_are_not_in_the_key(scope):
    """An input record says which of them were asked for; the words of some are arguments."""
    environ = dict.fromkeys(
        [*environment.OF_LIBC, *environment.OF_SIDE_OUTPUTS, "PATH", "CPATH", "HOME"], "/x"
    )
    assert key("-c a.cu", scope, environ=environ) == key("-c a.cu", scope)


@pytest.mark.parametrize("scope", SCOPES)
def test_words_of_variables_are_arguments(scope):
    call = invocation.parse(["-c", "a.cu"], {"NVCC_PREPEND_FLAGS": "-DX"})
    assert direct.key_of(scope, "nvcc", call, NOWHERE, {}) == key("-DX -c a.cu", scope)


def test_only_a_shared_key_is_the_same_in_another_directory(tmp_path, monkeypatch):
    found = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        relocation = Relocation(str(tmp_path), os.getcwd())
        line = f"-c {tmp_path}/{name}/a.cu -I{tmp_path}/{name}/include"
        found[name] = [
            key(line, SHARED, relocation=relocation), key("-c a.cu", PLACED), key("-c a.cu", BOUND),
            key("-c a.cu", SHARED),
        ]  # fmt: skip
    shared, placed, bound, plain = (one == two for one, two in zip(found["one"], found["two"], strict=True))
    assert (shared, placed, bound, plain) == (True, False, False, True)


def test_the_name_of_the_working_directory_is_in_the_keys_that_are_not_shared():
    for scope, is_same in ((SHARED, True), (PLACED, False), (BOUND, False)):
        here = [key("-c a.cu", scope, environ={"PWD": path}) for path in ("/a", "/b")]
        assert (here[0] == here[1]) == is_same


def test_a_shared_key_is_tried_first_and_only_with_a_base_directory():
    relocation = Relocation("/base", "/base/one")
    assert direct.scopes_of(relocation, NOWHERE) == [
        (SHARED, relocation),
        (PLACED, NOWHERE),
        (BOUND, NOWHERE),
    ]
    assert direct.scopes_of(NOWHERE, NOWHERE) == [(PLACED, NOWHERE), (BOUND, NOWHERE)]


def given(product: str, dependency_file: str = "") -> CallResult:
    answer = CallResult()
    answer.products = [(product, DIGEST, True)]
    answer.dependency_file, answer.rule = dependency_file, b"" if dependency_file else None
    answer.stdout, answer.stderr, answer.seconds_saved = b"out\0", b"\xff\n", 2.5
    return answer


def attached(answer: CallResult, line: str, relocation: Relocation = NOWHERE) -> bytes | None:
    return direct.attach(answer, ENTERED, parse(line), relocation)


def answer_of(kept: bytes | None, line: str, relocation: Relocation = NOWHERE) -> CallResult | None:
    assert kept is not None
    return direct.answer_of(Found("key", InputRecord(), kept), parse(line), relocation)


def written(answer: CallResult | None) -> list[str]:
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
    kept = attached(given(*made), line)
    assert written(answer_of(kept, line)) == list(made)
    assert written(answer_of(kept, other)) == found


def test_what_is_unlinked_first_follows_from_the_call():
    """Or a record could have a link written through that nvcc replaces."""
    made = given("a.o")
    made.products = [("a.o", DIGEST, False)]
    assert attached(made, "-c a.cu -o a.o") is None
    for line, is_unlinked in (("-c a.cu -o x", True), ("-ptx a.cu -o x", False), ("-dlink a.o -o x", True)):
        made.products = [("x", DIGEST, is_unlinked)]
        assert answer_of(attached(made, line), line).products == made.products


def test_an_answer_comes_back():
    found = answer_of(attached(given("a.o"), "-c a.cu -o a.o"), "-c a.cu -o b.o")
    assert found.products == [("b.o", DIGEST, True)]
    assert (found.rule, found.stdout, found.stderr, found.seconds_saved) == (None, b"out\0", b"\xff\n", 2.5)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("-c a.cu -MD -o b.o", b"b.o : a.cu \\\n    /usr/include/s\\ y\\ s.h \\\n    sub/x.h\n"),
        ("-c a.cu -MD -o b.o -MT me", b"me : a.cu \\\n    /usr/include/s\\ y\\ s.h \\\n    sub/x.h\n"),
        ("-c a.cu -MD -o b.o -MP -MT me", None),
    ],
)
def test_the_dependency_file_is_written_anew_for_the_call(line, rule):
    found = answer_of(attached(given("a.o", "a.d"), "-c a.cu -MD -o a.o"), line)
    assert found.rule == rule if rule else found.rule.endswith(b"\nsub/x.h:\n")


def test_a_dependency_file_without_system_headers_leaves_them_out():
    found = answer_of(attached(given("a.o", "a.d"), "-c a.cu -MMD -o a.o"), "-c a.cu -MMD -o b.o")
    assert found.rule == b"b.o : a.cu \\\n    sub/x.h\n"


@pytest.mark.parametrize("line", ["-c a.cu -MD -o a.b.o", "-c a.cu -MD -o a", "-c a.cu -MD -o d/.o"])
def test_a_dependency_file_of_which_the_name_follows_from_nothing_is_not_kept(line):
    assert attached(given("a", "somewhere.d"), line) is None


def test_an_output_with_two_dots_leaves_the_name_of_its_dependency_file_in_doubt():
    assert attached(given("a.b.o", "a.b.d"), "-c a.cu -MD -o a.b.o") is None


def test_calls_differ_in_whether_they_ask_for_a_dependency_file():
    assert answer_of(attached(given("a.o"), "-c a.cu -o a.o"), "-c a.cu -MD -o a.o") is None
    assert answer_of(attached(given("a.o", "a.d"), "-c a.cu -MD -o a.o"), "-c a.cu -o a.o") is None


def test_paths_of_a_shared_answer_are_those_of_the_checkout():
    one, two = (Relocation("/base", f"/base/{name}/build") for name in ("one", "two"))
    kept = direct.attach(given("a.o", "a.d"), [("/base/one/a.cu", False)], parse("-c a.cu -MD"), one)
    found = answer_of(kept, "-c a.cu -MD", two)
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
    kept = direct.attach(given(*names), [(f"{name}.cu", False)], parse(line), NOWHERE)
    assert written(answer_of(kept, line)) == names


WHOLE = attached(given("out/a.o", "out/a.d"), "-c a.cu -MD -odir out")


def test_damaged_answers_are_no_answers_or_stay_within_the_call():
    assert [kept for kept in torn(WHOLE) if answer_of(kept, "-c a.cu -MD -odir out")] == []
    for kept in (*changed(WHOLE), *changed(WHOLE, seed=2), *shuffled(WHOLE, 2000)):
        answer_of(kept, "-c a.cu -MD -odir out")


@pytest.mark.parametrize("kept", [b"", b"\0", WHOLE.replace(b"answer-3", b"answer-2"), WHOLE + b"x"])
def test_an_answer_of_another_version_is_none(kept):
    assert answer_of(kept, "-c a.cu -MD -odir out") is None


@pytest.mark.parametrize("number", ["", "x", "1", "-1", "0.0", "o", "=a.o", "=/x", "d../x", "²", "9" * 5000])
def test_a_product_that_does_not_follow_from_the_call_is_none(number):
    parts = sections.unpack("answer-3", WHOLE, 9)
    parts[0] = sections.join([number, DIGEST])
    assert answer_of(sections.pack("answer-3", parts), "-c a.cu -MD -odir out") is None


@pytest.mark.parametrize("numbers", [[], ["0", "0"], ["0", "1"]])
def test_an_answer_has_every_product_once(numbers):
    parts = sections.unpack("answer-3", WHOLE, 9)
    parts[0] = sections.join([part for number in numbers for part in (number, DIGEST)])
    assert answer_of(sections.pack("answer-3", parts), "-c a.cu -MD -odir out") is None


@pytest.mark.parametrize("rule", [b"", b"1", b"=/x", b"../x"])
def test_a_dependency_file_is_there_if_it_is_asked_for_and_called_as_nvcc_calls_it(rule):
    parts = sections.unpack("answer-3", WHOLE, 9)
    parts[1] = rule
    found = answer_of(sections.pack("answer-3", parts), "-c a.cu -MD -odir out")
    assert (found and found.dependency_file) == ("out/a.d" if rule else None)


def test_what_a_compile_makes_is_no_program_and_the_other_way_round():
    parts = sections.unpack("answer-3", WHOLE, 9)
    assert answer_of(sections.pack("answer-3", parts), "a.cu -MD -o a.x") is None
    parts[7] = sections.join(["a.o", DIGEST])
    assert answer_of(sections.pack("answer-3", parts), "-c a.cu -MD -odir out") is None


@pytest.mark.parametrize("read", ["out/a.o", "out/a.d"])
def test_what_was_read_is_not_written(read):
    """Whatever the command line says."""
    made = InputRecord()
    line = "-c a.cu -MD -odir out"
    for path, is_answer in ((read, False), (os.path.abspath(read), False), ("out/b.o", True)):
        made.files = ["a.cu", path]
        assert bool(direct.answer_of(Found("key", made, WHOLE), parse(line), NOWHERE)) == is_answer


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
    kept = attached(given(dotted + product, dotted + rule), line)
    assert [os.path.normpath(path) for path in written(answer_of(kept, line))] == [product, rule]
    other = line.replace("x.o", "z.o").replace("-MF y", "-MF w")
    moved = [product.replace("x.o", "z.o"), "w" if "-MF" in line else rule.replace("x.d", "z.d")]
    assert [os.path.normpath(path) for path in written(answer_of(kept, other))] == (
        moved if "x.o" in line else [product, rule]
    )


def test_a_product_beside_the_one_that_is_named_is_not_recorded():
    given = CallResult()
    given.products = [("x.ptx", "0" * 32, False), ("x.ltoir", "1" * 32, False)]
    call = invocation.parse(["-ptx", "a.cu", "-o", "x.ptx"], {})
    assert direct.attach(given, [], call, Relocation("", "/")) is None
    call = invocation.parse(["-ptx", "x.cu"], {})
    assert direct.attach(given, [], call, Relocation("", "/")) is not None


@pytest.mark.parametrize(
    ("option", "is_shared"),
    [
        ("-Xcompiler -ffile-prefix-map={base}/{name}=.", True),
        ("-Xcompiler -ffile-prefix-map={base}=.", False),
        ("-Xcompiler -O2,-fmacro-prefix-map={base}/=/src/,-g", False),
        ('-Xcompiler "-g -fdebug-prefix-map=/=/src"', False),
        ("-Xcompiler -ffile-prefix-map={base}/o=.", False),
        ("-Xcompiler -ffile-prefix-map={base}/{name}=. -Xcompiler -fdebug-prefix-map={base}=/src", False),
        ("-Xcompiler -ffile-prefix-map={base}/{name}/build/deep=.", True),
        ("-Xcompiler -ffile-prefix-map=/elsewhere=.", True),
    ],
)
def test_checkouts_that_an_option_tells_apart_share_no_key(option, is_shared):
    """What names are mapped to may hold that of the checkout, and not that of the base directory."""
    made = []
    for name in ("one", "other"):
        argv = ["-c", "a.cu", *shlex.split(option.format(base="/base", name=name))]
        call = invocation.parse(argv, {})
        assert isinstance(call, Invocation)
        made.append(direct.key_of(SHARED, "nvcc", call, Relocation("/base", f"/base/{name}/build"), {}))
    assert (made[0] == made[1]) == is_shared
