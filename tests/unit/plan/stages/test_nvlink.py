"""How objects and archives enter a key: by their device code, and nothing else that an edit changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nvccache.plan.stages import nvlink

DEVICE = '__asm__(".section __nv_relfatbin,\\"a\\"\\n.ascii \\"{0}\\"\\n.text\\n");\n'


def build(directory: Path, name: str, text: str, *options: str) -> Path:
    source = directory / f"{name}.c"
    source.write_text(text)
    made = directory / f"{name}.o"
    subprocess.run(["gcc", "-c", str(source), "-o", str(made), *options], check=True)
    return made


def digest(path: Path) -> str:
    return nvlink.digest_of(str(path))


def test_host_code_does_not_count(tmp_path):
    one = digest(build(tmp_path, "a", DEVICE.format("code") + "int f(void) { return 1; }\n"))
    assert one == digest(build(tmp_path, "a", DEVICE.format("code") + "int g(int x) { return x; }\n", "-g"))


@pytest.mark.parametrize("text", [DEVICE.format("Code"), DEVICE.format("code1"), "",
                                  DEVICE.format("code").replace("__nv_relfatbin", "__nv_module_id"),
                                  DEVICE.format("code") * 2])  # fmt: skip
def test_device_code_counts(tmp_path, text):
    assert digest(build(tmp_path, "a", DEVICE.format("code"))) != digest(build(tmp_path, "a", text))


def test_objects_without_device_code_are_alike(tmp_path):
    assert digest(build(tmp_path, "a", "int f;\n")) == digest(build(tmp_path, "b", "double g = 2;\n"))


def archive(directory: Path, name: str, *members: Path) -> Path:
    made = directory / name
    made.unlink(missing_ok=True)
    subprocess.run(["ar", "crU", str(made), *map(str, members)], check=True, capture_output=True)
    return made


def test_an_archive_counts_by_its_members(tmp_path):
    one, two = (build(tmp_path, name, DEVICE.format(name)) for name in ("one", "two"))
    whole = digest(archive(tmp_path, "lib.a", one, two))
    os.utime(one, (1, 1))
    assert digest(archive(tmp_path, "lib.a", one, two)) == whole
    others = [(two, one), (one,), (one, two, one), (one, build(tmp_path, "two", DEVICE.format("Two")))]
    digests = {digest(archive(tmp_path, "lib.a", *members)) for members in others}
    assert len({whole, *digests}) == 1 + len(digests)


def test_a_long_name_of_a_member_counts(tmp_path):
    members = [build(tmp_path, "a_rather_long_name_" + end, DEVICE.format("x")) for end in ("one", "two")]
    assert digest(archive(tmp_path, "lib.a", members[0])) != digest(archive(tmp_path, "lib.a", members[1]))


def test_a_thin_archive_counts_as_it_is_and_so_does_what_is_no_object(tmp_path):
    one = build(tmp_path, "one", DEVICE.format("one"))
    whole = one.read_bytes()
    texts = {"text": b"PTX", "more": b"PTX 2", "cubin": whole[:18] + b"\xbe\0" + whole[20:]}
    digests = set()
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
        digests.add(digest(tmp_path / name))
    assert len({*digests, digest(one)}) == 4


@pytest.mark.parametrize("cut", [0, 3, 8, 20, 63, 64, 200, -1, -64, -100])
def test_what_is_cut_off_is_another_file(tmp_path, cut):
    whole = build(tmp_path, "one", DEVICE.format("one"))
    library = archive(tmp_path, "lib.a", whole)
    for path in (whole, library):
        part = tmp_path / "part"
        part.write_bytes(path.read_bytes()[:cut])
        assert digest(part) != digest(path)


def test_a_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(OSError):
        digest(tmp_path / "none.o")
