"""Reading ELF files: those of compilers, and files that only claim to be one."""

from __future__ import annotations

import struct
import subprocess
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
    [(40, "<Q", (1 << 64) - 1), (58, "<H", 40), (60, "<H", 0), (60, "<H", 99), (62, "<H", 0), (62, "<H", 99)],
)
def test_malformed_elf_section_headers_count_as_hiding_text(made, at, form, value):
    image = bytearray(made.read_bytes())
    assert not elf.hides_text(bytes(image))
    struct.pack_into(form, image, at, value)
    assert elf.hides_text(bytes(image))


@pytest.mark.parametrize(
    ("options", "hides"),
    [((), False), (("-g",), False), (("-g", "-gz"), True), (("-flto",), True), (("-gz",), False)],
)
def test_objects_with_compressed_or_lto_sections_may_hide_text(tmp_path, options, hides):
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", *options, "a.c"], cwd=tmp_path, check=True)
    image = (tmp_path / "a.o").read_bytes()
    assert elf.hides_text(image) == hides
    assert elf.hides_text(image[:100]), "what is damaged may hide anything"
    assert not elf.hides_text(b"text")
