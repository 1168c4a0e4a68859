"""Direct hits: the key of a call, the names of its outputs, and its answer under other names."""

from __future__ import annotations

import os
import shlex

import pytest

from nvccache import config, environment
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.files import keys
from nvccache.records import call_key, output_names
from nvccache.records.call_key import ANY_DIRECTORY, BELOW_BASE, SAME_DIRECTORY, SAME_OUTPUTS
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import InputRecord
from nvccache.records.output_names import Outputs
from nvccache.records.products import Answer
from nvccache.records.record import Entry, LookupKey, Result

SCOPES = (BELOW_BASE, ANY_DIRECTORY, SAME_DIRECTORY, SAME_DIRECTORY + SAME_OUTPUTS)
DIGEST = keys.digest_bytes(b"object")
WHOLE = "-c a.cu -MD -odir out"
LISTED = [("a.cu", False), ("/usr/include/s y s.h", True), ("sub/x.h", False)]


def parse(line: str, **environ: str) -> Invocation:
    call = invocation.parse(shlex.split(line), environ)
    assert isinstance(call, Invocation), call
    return call


def given(product: str, dependency_file: str = "") -> Answer:
    answer = Answer(Result())
    answer.products = [(product, DIGEST, True)]
    answer.dependency_file, answer.rule = dependency_file, b"" if dependency_file else None
    answer.result.stdout, answer.result.stderr, answer.result.seconds = b"out\0", b"\xff\n", 2.5
    return answer


def result_of(answer: Answer, line: str) -> Result | None:
    return call_key.result_of(answer, LISTED if answer.rule is not None else [], parse(line))


def answer_of(result: Result | None, line: str) -> Answer | None:
    """The answer of a call with this result stored."""
    assert result
    return call_key.answer_of(Entry(LookupKey("key"), InputRecord(), result), parse(line))


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
        ("-ptx a.cu", (["a.ptx"], "")),
        ("-cubin -odir out e.ptx", (["out/e.cubin"], "")),
        ("-optix-ir a.cu", (["a.optixir"], "")),
        ("-dlink a.o b.o", (["a_dlink.o"], "")),
        ("-dlink -cubin a.o -odir out", (["out/a_dlink.cubin"], "")),
        ("-dlink a.o -o x", (["x"], "")),
        ("a.cu b.cu -o prog", ([], "")),
        ("-c a.cu -MD -odir out", (["out/a.o"], "out/a.d")),
        ("-c a.cu -MD -odir out -MF y.d", (["out/a.o"], "y.d")),
        ("-c a.cu -MD -odir out -o x.o", (["x.o"], "x.d")),
        # From these the name of the depfile does not follow.
        ("-c a.cu -o x.y.o -MD", None),
        ("-c a.cu -o x -MD", None),
        ("-c a.cu b.cu -MD", None),
    ],
)
def test_output_names_follow_from_the_command_line(line, expected):
    found = output_names.outputs_of(parse(line))
    assert (found and (found.products, found.dependency_file)) == expected


def test_a_result_is_recorded_only_if_it_has_each_requested_output_once():
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
        ("-c a.cu -odir out", ("out/a.o",), "-c a.cu -odir /y", ["/y/a.o"]),
        ("-c a.cu -MD -o a.o", ("a.o", "a.d"), "-c a.cu -MD -o x/b.obj", ["x/b.obj", "x/b.d"]),
        ("-c a.cu -MD -o a.o -MF r", ("a.o", "r"), "-c a.cu -MD -o b.o -MF x/s", ["b.o", "x/s"]),
        ("-c a.cu -MD -odir out", ("out/a.o", "out/a.d"), "-c a.cu -MD -odir y", ["y/a.o", "y/a.d"]),
        ("-c é=\udcff.cu", ("é=\udcff.o",), "-c é=\udcff.cu -o \udcff", ["\udcff"]),
    ],
)
def test_a_hit_writes_its_outputs_under_the_names_of_this_call(line, made, other, found):
    kept = result_of(given(*made), line)
    assert written(answer_of(kept, line)) == list(made)
    again = answer_of(kept, other)
    assert written(again) == found
    assert (again.result.stdout, again.result.stderr, again.result.seconds) == (b"out\0", b"\xff\n", 2.5)


def test_the_command_line_not_the_record_decides_which_old_outputs_are_unlinked():
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


@pytest.mark.parametrize(
    "roles",
    [[], ["x"], ["1"], ["-1"], ["0.0"], ["=/x"], ["9" * 4000], ["0", "0"], ["0", "link/a.o"], ["link/a.o"]],
)
def test_a_record_cannot_decide_which_files_are_written(roles):
    """Also one of a remote: it gives all products of the call and nothing else."""
    result = result_of(given("out/a.o", "out/a.d"), WHOLE)
    assert written(answer_of(result, WHOLE)) == ["out/a.o", "out/a.d"]
    result.outputs = [(role, DIGEST) for role in roles]
    assert answer_of(result, WHOLE) is None


def test_a_record_with_a_missing_or_unrequested_dependency_file_is_no_hit():
    whole = result_of(given("out/a.o", "out/a.d"), WHOLE)
    assert answer_of(whole, "-c a.cu -odir out") is None
    whole.listed = []
    assert answer_of(whole, WHOLE) is None


def test_a_result_with_an_output_that_was_not_requested_is_not_recorded():
    made = given("x.ptx")
    made.products = [("x.ptx", "0" * 64, False), ("x.ltoir", "1" * 64, False)]
    for line in ("-ptx a.cu -o x.ptx", "-ptx x.cu"):
        assert result_of(made, line) is None


# The key of a call.


def request_of(line: str, nvcc: str = "nvcc", checkout: str = "", **environ: str) -> Request:
    request = Request(nvcc, shlex.split(line), environ, config.load({}))
    words = {name: environ[name] for name in environment.OF_ARGUMENTS if name in environ}
    request.invocation, request.checkout = parse(line, **words), checkout
    return request


def key(line: str, scope: str = SAME_DIRECTORY, nvcc: str = "nvcc", checkout: str = "", **environ) -> str:
    return call_key.make_lookup_key(request_of(line, nvcc, checkout, **environ), scope).key


@pytest.mark.parametrize(
    ("line", "other", "is_same"),
    [
        *[(f"-c a.cu {options}", "-c a.cu", False) for options in (
            "-DX", "b.cu", "-I x", "-arch=sm_80", "-Xcompiler -O2", "-MD", "-o a.o", "-odir out", "-x cu",
        )],
        ("-ptx a.cu", "-c a.cu", False),
        ("-c a.cu -I x -I y", "-c a.cu -I y -I x", False),
        ("-c a.cu -Xcompiler -O2", "-c a.cu -Xptxas -O2", False),
        ("-c a.cu -I x", "-c a.cu -isystem x", False),
        # nvcc warns of the second value.
        ("-c a.cu -o a.o -o b.o", "-c a.cu -o b.o", False),
        # Names of outputs, what says how nvcc runs, and spellings.
        ("-c a.cu -o a.o", "-c a.cu -o out/b.o", True),
        ("-c a.cu -o a.o", "-o b.o -c a.cu", True),
        ("-c a.cu -o a.o", "-c a.cu -o a.o -o a.o", True),
        ("-c a.cu -odir out", "-c a.cu -odir other", True),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD -MF b.d", True),
        ("-c a.cu -MD -MT x", "-c a.cu -MD -MT y", True),
        ("-c a.cu -MD -MP", "-c a.cu -MD", True),
        ("-c a.cu -t 4", "-c a.cu", True),
        ("-c a.cu -I x", "-c a.cu --include-path=x", True),
    ],
)  # fmt: skip
def test_effective_options_are_in_the_key_and_output_names_are_not(line, other, is_same):
    for scope in (BELOW_BASE, SAME_DIRECTORY):
        assert (key(line, scope) == key(other, scope)) == is_same


def test_keys_of_results_that_name_their_outputs_differ_with_the_output_options():
    lines = ("-o a.o", "-o b.o", "", "-odir out", "-odir other", "-MD -MF a.d", "-MD -MF b.d")
    assert len({key(f"-c a.cu {line}", SAME_DIRECTORY + SAME_OUTPUTS) for line in lines}) == len(lines)
    # Places of outputs are relative to the directory.
    places = [key(f"-c /p/a.cu -o {name}", ANY_DIRECTORY + SAME_OUTPUTS) for name in ("a.o", "b.o", "/p/a.o")]
    assert len(set(places)) == 3


def test_keys_differ_with_the_scope_and_the_path_of_nvcc():
    assert len({key("-c a.cu", scope) for scope in SCOPES}) == len(SCOPES)
    assert key("-c a.cu", nvcc="/opt/nvcc") != key("-c a.cu", nvcc="/usr/nvcc")


@pytest.mark.parametrize("scope", SCOPES)
def test_environment_variables_are_in_no_call_key(scope):
    """An input record says which of them were read; the values of some are arguments."""
    environ = dict.fromkeys(
        [*environment.OF_LIBC, *environment.OF_SIDE_OUTPUTS, "PATH", "CPATH", "HOME"], "/x"
    )
    assert key("-c a.cu", scope, **environ) == key("-c a.cu", scope)


def test_arguments_in_nvcc_prepend_flags_are_in_the_call_key_like_typed_ones():
    assert key("-c a.cu", NVCC_PREPEND_FLAGS="-DX") == key("-DX -c a.cu")


def test_call_keys_in_another_directory_are_equal_only_in_shared_scopes(tmp_path, monkeypatch):
    found = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        line = "-c a.cu -Iinclude"
        found[name] = [
            key(line, BELOW_BASE, checkout=os.getcwd()),
            *(
                key("-c a.cu", scope)
                for scope in (SAME_DIRECTORY, ANY_DIRECTORY, ANY_DIRECTORY + SAME_OUTPUTS)
            ),
        ]
    assert [one == two for one, two in zip(found["one"], found["two"], strict=True)] == [
        True,
        False,
        True,
        True,
    ]


def test_pwd_is_in_the_call_keys_of_the_same_directory_scope_only():
    for scope in SCOPES:
        is_same = not scope.startswith(SAME_DIRECTORY)
        here = [key("-c a.cu", scope, PWD=path) for path in ("/a", "/b")]
        assert (here[0] == here[1]) == is_same


def test_keys_shared_between_checkouts_are_tried_first_and_only_below_a_base_directory():
    scopes = [
        [each.scope for each in call_key.make_lookup_keys(request_of("-c a.cu", checkout=checkout))]
        for checkout in ("/base/one", "")
    ]
    others = [ANY_DIRECTORY, ANY_DIRECTORY + SAME_OUTPUTS, SAME_DIRECTORY, SAME_DIRECTORY + SAME_OUTPUTS]
    assert scopes == [[BELOW_BASE, BELOW_BASE + SAME_OUTPUTS, *others], others]


@pytest.mark.parametrize(
    ("words", "is_shared"),
    [
        # nvcc gets relative paths; one that is still absolute is another one.
        ("{base}/{name}/a.cu", False),
        ("-ccbin {base}/{name}/bin/g++", False),
        ("""-DROOT='"{base}/{name}"'""", False),
        ("-Xcompiler -isystem,{base}/{name}/sys", False),
        ("-Xcompiler=-ffile-prefix-map={base}/{name}=.", True),
        ("-frandom-seed={base}/{name}", False),
        ("-Xcudafe --user={base}/{name}", False),
        ("-forward-unknown-to-host-compiler -fmacro-prefix-map={base}/{name}=.", True),
        ("-forward-unknown-to-host-compiler -fmade-up={base}/{name}", False),
        # The target of a prefix map may contain the checkout's name, but not the base directory's.
        ("-Xcompiler -ffile-prefix-map={base}=.", False),
        ("-Xcompiler -O2,-fmacro-prefix-map={base}/=/src/,-g", False),
        ('-Xcompiler "-g -fdebug-prefix-map=/=/src"', False),
        ("-Xcompiler -ffile-prefix-map={base}/o=.", False),
        ("-Xcompiler -ffile-prefix-map={base}/{name}/build/deep=.", True),
        ("-Xcompiler -ffile-prefix-map=/elsewhere=.", True),
    ],
)
def test_two_checkouts_share_a_key_only_if_prefix_maps_hide_their_paths(
    tmp_path, monkeypatch, words, is_shared
):
    found = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        line = "-c a.cu " + words.format(base=tmp_path, name=name)
        found.add(key(line, BELOW_BASE, checkout=str(tmp_path / name)))
    assert (len(found) == 1) == is_shared


@pytest.mark.parametrize("scope", [BELOW_BASE, ANY_DIRECTORY])
def test_directory_parts_that_a_prefix_map_leaves_visible_change_shared_keys(tmp_path, monkeypatch, scope):
    """`-ffile-prefix-map=/base/one=.` makes `./build` of one directory, and `./other` of another."""
    found = []
    for folder, old in (("build", ".."), ("other", ".."), ("build", "."), ("build", "../..")):
        (tmp_path / "one" / folder).mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / "one" / folder)
        for named in (old, os.path.abspath(old)):
            line = f"-c a.cu -Xcompiler -ffile-prefix-map={named}=."
            found.append(key(line, scope, checkout=str(tmp_path / "one")))
    assert len(set(found)) == len(found) - 1, "only the relative map to `..` is the same in both"
