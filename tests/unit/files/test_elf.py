"""Reading ELF files: those of compilers, and files that only claim to be one."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from nvccache.files import elf

SOURCE = "int data[100] = {1};\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """An object."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", "a.c"], cwd=folder, check=True)
    return folder / "a.o"


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(32, "<Q", 1 << 63), (54, "<H", 57), (56, "<H", 0xFFFF), (72, "<Q", 1 << 63), (96, "<Q", 4097)],
)
def test_malformed_elf_program_headers_give_no_interpreter(tmp_path, at, form, value):
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
def test_malformed_elf_section_headers_count_as_hiding_text(made, at, form, value):
    image = bytearray(made.read_bytes())
    assert not elf.hides_text(bytes(image))
    struct.pack_into(form, image, at, value)
    assert elf.hides_text(bytes(image))


def test_the_dynamic_loader_of_a_program_is_read_from_its_elf_file(made, tmp_path):
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


@pytest.mark.parametrize(
    ("options", "hides"),
    [((), False), (("-g",), False), (("-g", "-gz"), True), (("-flto",), True), (("-gz",), False)],
)
def test_compressed_elf_sections_count_as_hiding_text(tmp_path, options, hides):
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", *options, "a.c"], cwd=tmp_path, check=True)
    image = (tmp_path / "a.o").read_bytes()
    assert elf.hides_text(image) == hides
    assert elf.hides_text(image[:100]), "what is damaged may hide anything"
    assert not elf.hides_text(b"text")
