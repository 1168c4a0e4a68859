"""Module ids: their formula, and the tools of a real nvcc with an id that they are given."""

from __future__ import annotations

import re
import subprocess
import zlib
from pathlib import Path

import pytest

from hand_made_plans import COMPILE, PIPELINE, planned
from nvccache import module_id
from nvccache.plan.stages.tool import GENERATES_ID
from scenarios.support.toolkits import HOST_OPTIONS

KERNEL = "void first() {}\nnamespace { __global__ void k(int *p) { *p = 1; } }\n"


def compose(source: str = "/p/a.cu", outputs: tuple[str, ...] = ("a.o",), text: str = "text") -> bytes:
    return module_id.compose(source, source, outputs, text)


def test_the_first_part_of_a_module_id_is_nvccs(nvcc: str, tmp_path: Path) -> None:
    source = tmp_path / "two-part näme.cu"
    source.write_text(KERNEL)
    argv = [nvcc, *HOST_OPTIONS, "-cubin", source, "-keep", "-keep-dir", tmp_path, "-o", tmp_path / "out"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    (written,) = tmp_path.glob("*.module_id")
    head = compose(str(source))[: -module_id._REST_DIGITS]
    assert written.read_bytes() == head + b"%08x" % zlib.crc32(b"_Z5firstv")


def test_module_ids_differ_with_source_output_and_options() -> None:
    ids = [compose(), compose(outputs=("b.o",)), compose(text="other"), compose("/q/a.cu")]
    assert len({*ids, compose()}) == len(ids)
    assert all(re.fullmatch(rb"_[0-9a-f]{8}_4_a_cu_[0-9a-f]{8}", each) for each in ids)


@pytest.mark.parametrize("option", ["", " -fprofile-use"], ids=["", "an object written in place"])
def test_stages_that_read_a_module_id_contribute_to_the_object_of_their_source(option: str) -> None:
    plan = planned(*PIPELINE[:-1], COMPILE + option)
    reading = [stage for stage in plan.stages if module_id.file_of(stage)]
    assert [module_id.products_of(plan, stage) for stage in reading] == [{"a.o"}, {"a.o"}]


def test_the_module_id_of_a_linked_source_has_the_name_of_the_link() -> None:
    assert module_id.compose("/p/a.cu", "dir/link.cu", (), "")[9:].startswith(b"_7_link_cu_")


def test_copies_of_a_source_share_a_module_id_below_a_base_if_their_texts_are_equal(tmp_path, monkeypatch):
    def compose_in(checkout: str, base: bool = True, text: str = "text") -> bytes:
        (tmp_path / checkout).mkdir(exist_ok=True)
        monkeypatch.chdir(place := tmp_path / checkout)
        plan = planned(*(line.replace("/p/", f"{place}/") for line in PIPELINE))
        stage = next(stage for stage in plan.stages if module_id.file_of(stage))
        return module_id.compose_for(plan, stage, str(place), str(place) if base else "", False, text)

    assert compose_in("a") == compose_in("b") != compose_in("b", text="other")
    assert compose_in("a", base=False) != compose_in("b", base=False)


def test_tools_never_generate_the_module_id_and_no_key_holds_it() -> None:
    reading = [stage for stage in planned(*PIPELINE).stages if module_id.file_of(stage)]
    assert [stage.kind for stage in reading] == ["cudafe", "cicc"]
    for stage in reading:
        assert module_id.file_of(stage) == "/s/a.module_id"
        assert GENERATES_ID not in stage.argv + stage.key_argv
        assert "/s/a.module_id" not in (*stage.inputs, *stage.key_argv, *(out.path for out in stage.outputs))
        assert "/p/a.cu" not in stage.key_argv


def test_all_stages_of_one_source_share_its_module_id() -> None:
    other = [line.replace("a.", "b.") for line in PIPELINE]
    plan = planned(*PIPELINE, *other, argv="-c a.cu b.cu")
    first, second = (module_id.unit_of(plan, stage) for stage in plan.stages if stage.kind == "cudafe")
    assert len(first) == len(second) == len(PIPELINE)
    assert module_id.products_of(plan, first[0]) == {"a.o"}


@pytest.mark.parametrize(
    ("content", "is_found"), [(b"x_%s_y", True), (b"a %s1234", True), (b"none", False), (b"binary\0", True)]
)
def test_a_result_that_may_contain_the_module_id_is_detected(content: bytes, is_found: bool) -> None:
    identifier = compose()
    content = content.replace(b"%s", identifier[1:-9])
    assert module_id.may_occur_in(identifier, [b"", content]) == is_found


@pytest.mark.parametrize(("option", "defines"), [("--device-c ", True), ("", False)])
def test_a_stub_for_separate_compilation_defines_the_module_id(option: str, defines: bool) -> None:
    plan = planned(*[line.replace("-arch compute", f"{option}-arch compute") for line in PIPELINE])
    cicc = next(stage for stage in plan.stages if stage.kind == "cicc")
    assert [module_id.defines_id(cicc, out.role) for out in cicc.outputs if out.role == "stub"] == [defines]
    assert not module_id.defines_id(cicc, "code")


def test_only_the_defined_module_id_is_replaced_in_a_stored_stub() -> None:
    one, two = compose(), compose(outputs=("b.o",))
    stub = b"int x_%s;\n#define __NV_MODULE_ID %s\nint y;\n"
    left_out = module_id.without_id(stub % (one, one), one)
    assert left_out.count(one) == 1
    assert module_id.with_id(left_out, two) == stub % (one, two)
