"""Reading ELF files: those of compilers, and files that only claim to be one."""

from __future__ import annotations

import contextlib
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from nvccache.files import elf

SOURCE = r"""
int data[100] = {1};
int zeros[100];
__asm__(".section .mine,\"a\"\n.ascii \"words\"\n.text\n");
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An object."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", "a.c"], cwd=folder, check=True)
    return folder / "a.o"


def test_sections_have_names_and_contents(made):
    image = made.read_bytes()
    assert elf.is_understood(image)
    assert elf.type_and_machine(image)[0] == elf.RELOCATABLE
    found = {section[0]: section for section in elf.sections(image)}
    assert elf.content_of(image, found[b".mine"]) == b"words"
    assert found[b".mine"][1] == 1  # SHT_PROGBITS
    assert elf.content_of(image, found[b".data"]) == struct.pack("<100i", 1, *[0] * 99)
    assert found[b".bss"][3] == 400 and elf.content_of(image, found[b".bss"]) == b""


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(32, "<Q", 1 << 63), (54, "<H", 57), (56, "<H", 0xFFFF), (72, "<Q", 1 << 63), (96, "<Q", 4097)],
)
def test_a_program_header_that_claims_what_is_not_there_is_no_executable(tmp_path, at, form, value):
    head = elf.MAGIC.ljust(32, b"\0").replace(b"F\0\0", b"F\2\1") + struct.pack("<Q14xHH", 64, 56, 1)
    loader = b"/lib/ld.so\0"
    image = bytearray(head.ljust(64, b"\0") + struct.pack("<I4xQ16xQ16x", 3, 120, len(loader)) + loader)
    (tmp_path / "program").write_bytes(image)
    assert elf.interpreter(str(tmp_path / "program")) == "/lib/ld.so"
    struct.pack_into(form, image, at, value)
    (tmp_path / "program").write_bytes(image)
    assert elf.interpreter(str(tmp_path / "program")) is None


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(40, "<Q", 1 << 62), (58, "<H", 40), (60, "<H", 0), (60, "<H", 99), (62, "<H", 0), (62, "<H", 99)],
)
def test_a_header_that_claims_what_is_not_there_is_an_error(made, at, form, value):
    image = bytearray(made.read_bytes())
    struct.pack_into(form, image, at, value)
    with pytest.raises(ValueError):
        elf.sections(bytes(image))


def test_damage_is_an_error_or_another_answer_and_nothing_else(made):
    whole = made.read_bytes()
    choose = random.Random(1)
    for _ in range(500):
        image = bytearray(whole[: choose.choice([len(whole), choose.randrange(64, len(whole))])])
        for _ in range(choose.randrange(1, 9)):
            image[choose.randrange(len(image))] = choose.randrange(256)
        with contextlib.suppress(ValueError):
            for section in elf.sections(bytes(image)):
                elf.content_of(bytes(image), section)
            elf.symbols(bytes(image))


def test_the_loader_of_a_program(made, tmp_path):
    found = elf.interpreter(sys.executable)
    assert found and os.path.exists(found)
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "a.c", "-o", "static"], cwd=tmp_path, check=True)
    assert elf.interpreter(str(tmp_path / "static")) == ""
    assert elf.interpreter(str(made)) is None
    (tmp_path / "script").write_text("#!/bin/sh\n")
    (tmp_path / "short").write_bytes(made.read_bytes()[:63])
    (tmp_path / "small").write_bytes(b"\x7fELF\x01\x01" + made.read_bytes()[6:])
    for name in ("script", "short", "small"):
        assert elf.interpreter(str(tmp_path / name)) is None
    with pytest.raises(OSError):
        elf.interpreter(str(tmp_path / "none"))


def test_symbols_tell_who_sees_them(tmp_path):
    code = """
int data = 1;
static int inner __attribute__((used)) = 2;
int hidden __attribute__((visibility("hidden"))) = 3;
int weak __attribute__((weak)) = 4;
extern int asked;
int *user(void) { return &asked; }
__asm__(".comm shared,4\\n.globl one\\n.section .text.g,\\"axG\\",@progbits,group,comdat\\n"
        "one: nop\\n.text\\n");
"""
    (tmp_path / "s.c").write_text(code)
    subprocess.run(["gcc", "-c", "s.c"], cwd=tmp_path, check=True)
    found = dict(elf.symbols((tmp_path / "s.o").read_bytes()))
    assert found[b"data"] == elf.GLOBAL | elf.STRONG
    assert found[b"inner"] == 0
    assert found[b"hidden"] == elf.GLOBAL | elf.HIDDEN | elf.STRONG
    assert {found[name] for name in (b"weak", b"asked", b"shared", b"one")} == {elf.GLOBAL}


@pytest.mark.parametrize(
    ("options", "hides"),
    [((), False), (("-g",), False), (("-g", "-gz"), True), (("-flto",), True), (("-gz",), False)],
)
def test_compressed_sections_hide_what_they_name(tmp_path, options, hides):
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", *options, "a.c"], cwd=tmp_path, check=True)
    image = (tmp_path / "a.o").read_bytes()
    assert elf.hides_text(image) == hides
    assert elf.hides_text(image[:100]), "what is damaged may hide anything"
    assert not elf.hides_text(b"text")
