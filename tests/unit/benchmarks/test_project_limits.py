from __future__ import annotations

import pytest
from real_projects import limits
from real_projects.faults import UnavailableError
from real_projects.limits import Kept, Limit, Stage

TIMES = """\
source file name , phase name , phase input files , phase output file , arch , tool, metric , unit
a.cu , gcc (preprocessing 1) , a.cu  , kk/a.cpp1.ii , compute_80 , nvcc , 70.5000 , ms
a.cu , cicc ,  kk/a.cpp1.ii  , kk/a.ptx , compute_80 , nvcc , 1000.0000 , ms
a.cu , gcc (compiling) ,   , a.o , compute_80 , nvcc , 200.0000 , ms
 , nvcc (driver) ,  , a.o ,  , nvcc , 0.7369 , ms
"""


def test_the_rows_of_time_are_stages_in_seconds():
    assert limits.read_stages(TIMES) == (
        Stage("gcc (preprocessing 1)", "compute_80", ("a.cu",), ("a.cpp1.ii",), 0.0705),
        Stage("cicc", "compute_80", ("a.cpp1.ii",), ("a.ptx",), 1.0),
        Stage("gcc (compiling)", "compute_80", (), ("a.o",), 0.2),
    )


def test_another_unit_is_not_guessed():
    with pytest.raises(UnavailableError, match="counts in `s`"):
        limits.read_stages(TIMES.replace(", ms", ", s"))


def test_stages_whose_output_differs_are_the_limit():
    stages = limits.read_stages(TIMES)
    before = Kept(stages, {"a.cpp1.ii": b"int a;", "a.ptx": b"1", "a.o": b"1"})
    after = Kept(stages, {"a.cpp1.ii": b"int a;", "a.ptx": b"2", "a.o": b"1"})
    assert limits.difference(before, before) == Limit(0, (), 0.0705, pytest.approx(1.2705))
    assert limits.difference(before, after) == Limit(1.0, ("cicc compute_80",), 0.0705, pytest.approx(1.2705))


def test_an_architecture_that_was_not_there_is_in_the_limit():
    stages = limits.read_stages(TIMES)
    before = Kept((), {"a.o": b"1"})
    after = Kept(stages, {"a.cpp1.ii": b"", "a.ptx": b"2", "a.o": b"1"})
    found = limits.difference(before, after)
    assert found.stages == ("gcc (preprocessing 1) compute_80", "cicc compute_80")
    assert found.text_differs


def test_line_markers_count_in_no_text_but_in_ptx(tmp_path):
    marked, moved = b'# 1 "a.cu"\nint a;\n', b'# 2 "a.cu" 3 4\n#line 7\n\nint a;\n'
    for name, is_text in (("a.cpp4.ii", True), ("a.ptx", False)):
        path = tmp_path / name
        path.write_bytes(marked)
        before = limits.content_of(path)
        path.write_bytes(moved)
        assert (limits.content_of(path) == before) is is_text


def test_a_module_id_that_varies_is_no_difference(tmp_path):
    """The id is part of the object, so the object counts as changed only if its inputs did."""
    kept = []
    for module_id, body in (
        (b"_12_4_a_cu_0000ffff_5", b"1"),
        (b"_12_4_a_cu_abcdef01_78", b"1"),
        (b"_12_4_a_cu_00000001_1", b"2"),
    ):
        path = tmp_path / "a.ptx"
        path.write_bytes(module_id + body)
        contents = {"a.cpp1.ii": b"", "a.ptx": limits.content_of(path, module_id), "a.o": module_id + body}
        kept.append(Kept(limits.read_stages(TIMES), contents, b"", module_id))
    first, same, other = kept
    assert limits.difference(first, same).stages == ()
    assert limits.difference(first, other).stages == ("cicc compute_80",)


def test_what_is_made_of_another_output_is_another():
    stages = (
        Stage("ptxas", "sm_80", ("a.ptx",), ("a.cubin",), 1.0),
        Stage("ptxas", "sm_90", ("b.ptx",), ("b.cubin",), 1.0),
        Stage("fatbinary", "", ("a.cubin", "b.cubin"), ("a.fatbin",), 1.0),
        Stage("gcc (compiling)", "", (), ("a.o",), 1.0),
    )
    before = Kept(stages, {"a.ptx": b"1", "b.ptx": b"1", "b.cubin": b"1"}, b"", b"_cu_00000000_1")
    after = Kept(stages, {"a.ptx": b"2", "b.ptx": b"1", "b.cubin": b"2"}, b"", b"_cu_00000000_2")
    assert limits.difference(before, after).stages == ("ptxas sm_80", "fatbinary", "gcc (compiling)")


def test_limits_of_units_are_added():
    one, other = Limit(1.0, ("cicc",), 0.5, 2.0), Limit(2.0, ("cicc", "ptxas"), 0.25, 4.0)
    assert limits.together([one, other]) == Limit(3.0, ("cicc", "ptxas"), 0.75, 6.0)
