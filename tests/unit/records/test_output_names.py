"""The output names of a call: nvcc's own, the same by both ways to find them, and never inputs."""

from __future__ import annotations

import pytest

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.records import output_names
from nvccache.records.output_names import Outputs


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


def test_names_for_make_are_names_of_files():
    assert output_names.are_plain_names([b"a.cu", b"/usr/include/stdio.h", b"a b.h"])
    assert output_names.are_plain_names([b"x=y.h"], ["x=y.h"])
    for name in (b"x=y.h", b"a\nb", b"a;b", b"$(b)", b"a\tb"):
        assert not output_names.are_plain_names([b"a.cu", name])
