"""The output names of a call: nvcc's own, the same by both ways to find them, and never inputs."""

from __future__ import annotations

import os
import random
import shlex

import pytest

from nvccache.commandline import invocation, tokens
from nvccache.commandline.invocation import Invocation
from nvccache.commandline.options import ARITIES, GLUED_NUMBER, SPELLINGS, SWITCH
from nvccache.records import output_names
from nvccache.records.output_names import COMPLETE, Outputs


def parsed(line: str) -> Outputs:
    call = invocation.parse(line.split(), {})
    assert isinstance(call, Invocation), call
    return output_names.of_call(call)


def named(found: Outputs) -> tuple[list[str], str] | None:
    return (found.products, found.dependency_file) if found.is_known else None


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
        ("-c a.cu -o x.o -MF z", (["x.o"], "")),
        ("-c a.cu -o x.y.o -MD", None),
        ("-c a.cu b.cu -MD", None),
        ("-c a.cu -o a.cu", None),
        ("-c a.cu -o ./a.cu", None),
        ("-c a.cu -o a.o -MD -MF s/../a.cu", None),
        ("-c a.cu -include x.h,y.h -o y.h", None),
        ("-cubin a.ptx -o b.cubin", (["b.cubin"], "")),
        ("-ptx a.ptx", None),
    ],
)
def test_names_follow_from_the_call(line, expected):
    assert named(parsed(line)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-c a.cu -o a.o", (["a.o"], "")),
        ("-o a.o -c a.cu", (["a.o"], "")),
        ("-O3 -c -o ../a.o a.cu", (["../a.o"], "")),
        ("-c a.cu --output-file=/x/a.o", (["/x/a.o"], "")),
        ("-c a.cu -o=a.o", (["a.o"], "")),
        ("-Iinc -o a.o -c a.cu", (["a.o"], "")),
        ("-Xcompiler -fPIC -o a.o -c a.cu", (["a.o"], "")),
        ("-arch sm_80 -o a.o -c a.cu", (["a.o"], "")),
        ("-arch=sm_80 -o a.o -c a.cu", (["a.o"], "")),
        ("-c a.cu -o a.o -MD", (["a.o"], "a.d")),
        ("-MD -MT a.o -MF a.o.d -x cu -c /s/a.cu -o a.o", (["a.o"], "a.o.d")),
        (
            "--generate-dependencies-with-compile --dependency-output /b/a.o.d -c /s/a.cu -o /b/a.o",
            (["/b/a.o"], "/b/a.o.d"),
        ),
        ("-c s/a.b.cu -O3 -arch=sm_80 -Iinc", (["a.b.o"], "")),
        ("-ptx a.cu -MD", (["a.ptx"], "a.d")),
        # Unclear: their meaning needs parsing.
        ("-c a.cu -arch sm_80", None),
        ("-c a.cu b.cu", None),
        ("-c -ptx a.cu", None),
        ("-ptx a.ptx", None),
        ("-c a.cu -optf=x", None),
        ("a.cu", None),
        ("-dlink a.o", None),
        ("-dlink -cubin a.o", None),
        ("-c a.cu -odir out", None),
        ("-odir=out -c a.cu -o a.o", None),
        ("-c a.cu -o a.o -o b.o", None),
        ("-c a.cu -o", None),
        ("-c a.cu -o -MD", None),
        ("-c a.cu -o=", None),
        ("-I -o a.cu -c b.cu", None),
        ("-c a.cu -I -MD -o a.o", None),
        ("-c a.cu -Xcompiler -MF a.d -o a.o", None),
        ("-unheard-of -o a.o -c a.cu", None),
        ("-c a.cu -D= -o a.o", (["a.o"], "")),
        ("-std= -o a.o -c a.cu", None),
        ("-c a.cu -o x.y.o -MD", None),
        ("-c a.cu -o a.o -MF a.d", None),
        ("-c a.cu -o a.cu", None),
        ("-c a.cu -o ./a.cu", None),
        ("-c a.cu -o a.o -MD -MF /../a.cu/../a.cu", (["a.o"], "/../a.cu/../a.cu")),
        ("-c a.cu -include=a.h -o a.h", None),
        ("-c a.cu --options-file=x -o x", None),
    ],
)
def test_names_follow_from_words_that_can_mean_only_one_thing(line, expected):
    assert named(output_names.of_argv(line.split())) == expected


@pytest.mark.parametrize("word", sorted(COMPLETE))
def test_a_word_that_takes_no_value_takes_none(word):
    """Neither alone, nor in nvcc's matching of arguments that are not its own options."""
    name = SPELLINGS.get(word)
    assert name is None or ARITIES[name] == SWITCH
    scanned = tokens.scan([word, "-o", "x"])
    assert isinstance(scanned, list)
    assert [argument.value for argument in scanned[1:]] == ["x"]
    assert name or word[1] in GLUED_NUMBER or scanned[0].name == tokens.FORWARDED


def test_whether_a_file_with_other_names_is_replaced_is_found_by_parsing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = ["-c", "a.cu", "-o", "a.o"]
    (tmp_path / "a.o").write_text("")
    assert output_names.of_argv(line).is_known
    os.link("a.o", "other")
    assert not output_names.of_argv(line).is_known
    os.unlink("a.o")
    os.symlink("other", "a.o")
    assert not output_names.of_argv(line).is_known


@pytest.mark.parametrize("name", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_words_of_variables_may_name_the_product(monkeypatch, name):
    assert output_names.of_argv(["-c", "a.cu"]).is_known
    monkeypatch.setenv(name, "-o b.o")
    assert not output_names.of_argv(["-c", "a.cu"]).is_known


@pytest.mark.parametrize("word", sorted(output_names.SPELLINGS_OF_MODES))
def test_modes_are_nvccs(word):
    assert SPELLINGS[word] == output_names.SPELLINGS_OF_MODES[word]


WORDS = shlex.split(
    """
    -o -o=p.o --output-file --output-file=q.o -MF -MF=r.d --dependency-output -MT -M -E --version -MD
    -MMD -MP -c -ptx -odir -odir=d -I -Ii -D -DX=1 -D= -U -lx -Xcompiler -Xcompiler=-o -fPIC -Wall
    -Werror -include -include=h -optf -x a.cu b.cu c.o d.d cu -O3 -O -t -t2 -arch -arch=sm_80 -rdc -Ofc
    -hls -l -L -Ll -m -m64 -g -std -keep-dir - "" -=x -std= -diag-error
    """
)


def test_words_never_say_more_than_the_parsed_call():
    """Whatever precedes them: a value that looks like an option is none."""
    choose = random.Random(7)
    known = unnamed = 0
    for _ in range(30000):
        line = choose.choices(WORDS, k=choose.randint(1, 8))
        found = output_names.of_argv(line)
        if not found.is_known:
            continue
        arguments = tokens.scan(line)
        if isinstance(arguments, tokens.UnknownOption):
            continue  # such a call is bypassed and not recorded
        known += 1
        if tokens.last_value(arguments, "output-file") is None:
            call = invocation.parse(line, {})
            if isinstance(call, Invocation):
                assert named(output_names.of_call(call)) == named(found), line
                unnamed += 1
            continue
        assert found.products in ([], [tokens.last_value(arguments, "output-file")]), line
        given = tokens.last_value(arguments, "dependency-output")
        default = output_names.default_depfile(tokens.last_value(arguments, "output-file"))
        requests = {"generate-dependencies-with-compile", "generate-nonsystem-dependencies-with-compile"}
        is_requested = not requests.isdisjoint(argument.name for argument in arguments)
        assert found.dependency_file == ((given or default) if is_requested else ""), line
    assert known > 500 and unnamed > 20


def test_what_is_given_are_all_products_once():
    wanted = Outputs(["a", "b"], ["c"], "d")
    assert wanted.match(["b", "a"], "d") and wanted.match(["a", "b", "c"], "d")
    for products, dependency_file in (
        (["a"], "d"),
        (["a", "b", "b"], "d"),
        (["a", "b", "x"], "d"),
        (["a", "b"], ""),
        (["a", "b"], "x"),
    ):
        assert not wanted.match(products, dependency_file)
    assert not output_names.UNKNOWN.match([], "")


@pytest.mark.parametrize(
    "rule",
    [
        b"a.o : a.cu \\\n    x.h\nX:=$(shell touch PWNED)\n",
        b"a.o : a.cu;touch PWNED\n",
        b"a.o : a.cu\n\ttouch PWNED\n",
        b"a.o : a.cu\nX!=touch PWNED\n",
        b"a.o : SHELL=/tmp/evil\n",
        b"include /tmp/evil:x\n",
        b"include : /tmp/evil\n",
        b"a.o : $(shell touch PWNED)\n",
        b"-include /tmp/evil\n",
        b"a.o : a.cu\r\n",
    ],
)
def test_a_rule_that_tells_make_to_do_something_is_none(rule):
    assert not output_names.is_plain_rule(rule)


@pytest.mark.parametrize(
    "rule",
    [b"a.o : a.cu \\\n    x.h \\\n    /usr/include/a\\ b.h\n", b"prog : a.cu\n\nx\\ y.h:\n\nz.h:\n", b""],
)
def test_a_rule_as_nvcc_writes_it_is_one(rule):
    assert output_names.is_plain_rule(rule)


def test_names_for_make_are_names_of_files():
    assert output_names.are_plain_names([b"a.cu", b"/usr/include/stdio.h", b"a b.h"])
    assert output_names.are_plain_names([b"x=y.h"], ["x=y.h"])
    for name in (b"x=y.h", b"a\nb", b"a;b", b"$(b)", b"a\tb"):
        assert not output_names.are_plain_names([b"a.cu", name])
