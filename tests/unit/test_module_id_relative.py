"""Ids made from a source's relative path: which objects and plans may have one."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import pytest

from hand_made_plans import PIPELINE, built
from nvccache import module_id as ids

HEAD = b"_0a1b2c3d_4_a_cu_"
ID = "0a1b2c3d_4_a_cu"
LONG = b"_Z10start_herev"
NAMED = HEAD + b"%08x" % zlib.crc32(LONG)
DEFINED = "int start_here() { return 1; }\n"
HIDDEN = f'__attribute__((visibility("hidden"))) int inner_{ID}() {{ return 2; }}\n'


def image(folder: Path, text: str, *options: str) -> bytes:
    (folder / "a.cpp").write_text(text)
    subprocess.run(["g++", "-c", "a.cpp", *options], cwd=folder, check=True)
    return (folder / "a.o").read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEFINED + HIDDEN, True),
        (HIDDEN, False),
        ("static int start_here() __attribute__((used));\nstatic " + DEFINED + HIDDEN, False),
        ("int start_here();\nint other() { return start_here(); }\n" + HIDDEN, False),
        ("__attribute__((weak)) " + DEFINED + HIDDEN, False),
        ('int start_here() __asm__("other");\n' + DEFINED + HIDDEN, False),
        (DEFINED + f"int inner_{ID}() {{ return 2; }}\n", False),
        (DEFINED + f"int inner_{ID}();\nint other() {{ return inner_{ID}(); }}\n", False),
        (f"__attribute__((used)) static int inner_{ID}() {{ return 2; }}\n", True),
        ("int other() { return 2; }\n", True),
    ],
    ids=[
        "defined",
        "not there",
        "internal",
        "declared",
        "weak",
        "called otherwise",
        "an id that libraries see",
        "an id that is asked for",
        "an id inside",
        "no id",
    ],
)
def test_objects_with_one_id_are_distinguished_by_what_it_names(tmp_path, text, expected):
    assert ids.may_share_id(image(tmp_path, text), NAMED) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int other() { return 2; }\n" + HIDDEN, True),
        (HIDDEN, False),
        ("__attribute__((weak)) int other() { return 2; }\n" + HIDDEN, False),
        (
            'int other();\nint (*inner)() __attribute__((visibility("hidden"), weak)) = other;\n' + HIDDEN,
            False,
        ),
    ],
    ids=["defined", "only with an id", "weak", "declared"],
)
def test_objects_with_one_seed_are_distinguished_by_any_definition(tmp_path, text, expected):
    assert ids.may_share_id(image(tmp_path, text), NAMED, is_seeded=True) is expected


def test_one_of_several_equal_definitions_distinguishes_nothing(tmp_path):
    """A link keeps one of a group of sections, though the symbol in it is strong."""
    name = LONG.decode()
    section = '.section .text.g,\\"axG\\",@progbits,g,comdat'
    text = f'asm("{section}\\n.globl {name}\\n{name}: ret\\n.text\\n");' + "\n"
    assert not ids.may_share_id(image(tmp_path, text + HIDDEN), NAMED)


def test_a_common_symbol_distinguishes_nothing(tmp_path):
    text = f'asm(".comm {LONG.decode()},4\\n");'
    assert not ids.may_share_id(image(tmp_path, text + HIDDEN), NAMED)


def test_code_that_is_compiled_later_shows_no_symbols(tmp_path):
    assert not ids.may_share_id(image(tmp_path, DEFINED + HIDDEN, "-flto"), NAMED)


def test_a_short_name_stands_in_the_id_itself(tmp_path):
    text = 'extern "C" int one() { return 1; }\n' + HIDDEN
    assert ids.may_share_id(image(tmp_path, text), HEAD + b"one")
    assert not ids.may_share_id(image(tmp_path, text), HEAD + b"two")


@pytest.mark.parametrize("damaged", [b"", b"no object", b"\x7fELF\x02\x01" + b"\xff" * 90])
def test_what_is_no_object_is_not_distinguished(damaged):
    assert not ids.may_share_id(damaged, NAMED)


def test_an_id_that_is_not_understood_distinguishes_nothing(tmp_path):
    assert not ids.may_share_id(image(tmp_path, DEFINED), b"")


def test_the_way_to_the_source_is_in_its_paths_place():
    plan = built(
        [
            line.replace('_name "a.cu"', '_name "/p/src/a.cu"').replace("/p/a.cu", "/p/src/a.cu")
            for line in PIPELINE
        ]
    )
    found = ids.relative(plan, "/p/build")
    for stage, before in zip(found.stages, plan.stages, strict=True):
        if stage.kind in ("cudafe", "cicc"):
            assert ids.source_path(stage.argv) == "../src/a.cu"
            assert "/p/src/a.cu" in stage.argv, "which messages name"
            assert "/p/src/a.cu" not in stage.key_argv
        else:
            assert stage == before


@pytest.mark.parametrize(
    ("change", "base", "expected"),
    [
        (("", ""), "/p", True),
        (("", ""), "", False),
        (("", ""), "/other", False),
        (("", ""), "/p/a", False),
        (("cudafe++", "cudafe++ --device-c"), "/p", False),
        (("cudafe++", "cudafe++ --frandom-seed 1"), "/p", False),
        (("cicc ", "cicc -generate-line-info "), "/p", False),
        (('-c -x c++ "/s', '-g -c -x c++ "/s'), "/p", False),
        (("ptxas", "sometool"), "/p", False),
        ((' -o "a.o"', ' -o "/s/a.o"'), "/p", False),
    ],
)
def test_which_plans_are_tried(change, base, expected):
    plan = built([line.replace(*change) if change[0] else line for line in PIPELINE])
    if not hasattr(plan, "stages"):
        assert not expected
        return
    assert ids.may_be_relative(plan, base, "/p", "/p") is expected
