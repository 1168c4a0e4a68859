"""Links: nvlink's output comes from the cache, equals plain nvcc's, and is made again when it must be.

NVCCACHE_TEST_NVCC=/path/to/nvcc pytest tests/scenarios/same_result/test_device_links.py    another toolkit
NVCCACHE_TEST_CCBIN=/path/to/g++                                                and host compiler
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nvccache.plan.stages import nvlink
from scenarios.support.both_ways import by_cache, by_plain
from scenarios.support.linking import (
    CALLER,
    LTO,
    MAIN,
    ONE,
    TWO,
    called,
    make_objects,
    run_program,
    skip_without_lto,
    where_libraries_are,
)
from scenarios.support.toolkits import HOST_OPTIONS, copy_toolkit, replace, toolkit_of
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light_by_default

DEVICE_SECTIONS = (b"__nv", b".nv", b".rela__nv", b".rela.nv")
RELOCATIONS, NO_BITS = 4, 8  # types of sections


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    workspace.write("one.cu", CALLER)
    workspace.write("two.cu", called())
    return workspace


def link(place: Workspace, *argv: str, product: str = "d.o", **variables: str) -> Counters:
    """Link through the cache and by plain nvcc, which names nothing temporary here."""
    made = by_cache(place, *argv, "-o", product, **variables)
    assert made == by_plain(place, *argv, "-o", product, **variables)
    assert made.counters
    return made.counters


@pytest.mark.by_default("object-one", "fatbin-two", smoke={"object-one": "device link"})
@pytest.mark.parametrize("options", [ONE, TWO, LTO], ids=["one", "two", "lto"])
@pytest.mark.parametrize("kind", [(), ("-fatbin",), ("-ptx",)], ids=["object", "fatbin", "ptx"])
def test_a_device_link(place: Workspace, options: tuple[str, ...], kind: tuple[str, ...]) -> None:
    if options is LTO:
        skip_without_lto(place)
    if options is not LTO and "-ptx" in kind:
        pytest.skip("nvcc rejects it")
    make_objects(place, options)
    argv = ("-dlink", *kind, *options, "one.o", "two.o")
    cold = link(place, *argv)
    assert cold.ran()["nvlink"] == (2 if options is TWO else 1)
    assert link(place, *argv).outcome == "direct_hit"
    place.forget_calls()
    assert link(place, *argv).ran() == {}


def test_objects_made_again_with_the_same_device_code_are_not_linked_again(place: Workspace) -> None:
    make_objects(place, ONE)
    link(place, "-dlink", *ONE, "one.o", "two.o")
    place.write("two.cu", called(host=2))
    make_objects(place, ONE, ("two",))
    counters = link(place, "-dlink", *ONE, "one.o", "two.o")
    assert counters.outcome == "stage_hit"
    assert counters.ran() == {}


def test_changed_device_code_is_linked_again(place: Workspace) -> None:
    make_objects(place, TWO)
    link(place, "-dlink", *TWO, "one.o", "two.o")
    place.write("two.cu", called(factor=3))
    make_objects(place, TWO, ("two",))
    assert link(place, "-dlink", *TWO, "one.o", "two.o").ran()["nvlink"] == 2


def test_a_link_with_dates_in_its_line_table_is_not_cached(place: Workspace) -> None:
    """The other stages hit, and the compile's dates are those of now."""
    skip_without_lto(place)
    make_objects(place, (*LTO, "-lineinfo"))
    argv = ("-dlink", *LTO, "-lineinfo", "one.o", "two.o")
    link(place, *argv)
    os.utime(place.directory / "one.cu", (1, 1))
    assert link(place, *argv).ran()["nvlink"] == 1
    explained = place.explain("d.o")
    assert "the line information of nvlink holds dates" in explained


def test_an_undefined_name_is_reported_as_by_nvcc(place: Workspace) -> None:
    make_objects(place, ONE, ("one",))
    for _ in range(2):
        assert link(place, "-dlink", *ONE, "one.o").outcome == "failed"


def archive(place: Workspace, path: str, *members: str) -> None:
    target = place.directory / path
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    subprocess.run(["ar", "crU", str(target), *members], cwd=place.directory, check=True, capture_output=True)


@pytest.mark.by_default("library")
@pytest.mark.parametrize("named", ["path", "library"])
def test_an_archive_counts_by_its_members(place: Workspace, named: str) -> None:
    make_objects(place, ONE)
    archive(place, "lib/libtwo.a", "two.o")
    argv = ("-dlink", *ONE, "one.o", *(("lib/libtwo.a",) if named == "path" else ("-Llib", "-ltwo")))
    link(place, *argv)
    os.utime(place.directory / "two.o", (1, 1))
    archive(place, "lib/libtwo.a", "two.o")  # it holds the date of its member
    assert link(place, *argv).ran() == {}
    place.write("two.cu", called(factor=3))
    make_objects(place, ONE, ("two",))
    archive(place, "lib/libtwo.a", "two.o")
    assert link(place, *argv).ran()["nvlink"] == 1


@pytest.mark.by_default("LIBRARY_PATH")
@pytest.mark.parametrize("by", ["words", "LIBRARY_PATH"])
def test_a_library_that_appears_earlier_on_the_search_path_is_found(place: Workspace, by: str) -> None:
    make_objects(place, ONE)
    archive(place, "late/libtwo.a", "two.o")
    searched = {
        "words": ["-Learly", "-Llate"],
        "LIBRARY_PATH": [],
    }[by]
    argv = ["-dlink", *ONE, "one.o", "-ltwo", *searched]
    variables = {} if searched else {"LIBRARY_PATH": f"{place.directory}/early:{place.directory}/late"}
    if variables and place.plain(*argv, *HOST_OPTIONS, "-o", "probe.o", **variables).status:
        pytest.skip("this nvlink does not mind LIBRARY_PATH")
    link(place, *argv, **variables)
    assert link(place, *argv, **variables).outcome == "direct_hit"
    place.write("two.cu", called(factor=3))
    make_objects(place, ONE, ("two",))
    archive(place, "early/libtwo.a", "two.o")
    assert link(place, *argv, **variables).ran()["nvlink"] == 1


@pytest.mark.by_default("path")
@pytest.mark.parametrize("named", ["path", "library"])
def test_members_of_a_thin_archive_change_without_it(place: Workspace, named: str) -> None:
    """Such a link is not recorded."""
    make_objects(place, ONE)
    subprocess.run(["ar", "crT", "libtwo.a", "two.o"], cwd=place.directory, check=True)
    argv = ("-dlink", *ONE, "one.o", *(("libtwo.a",) if named == "path" else ("-L.", "-ltwo")))
    for factor in (2, 3):
        place.write("two.cu", called(factor=factor))
        make_objects(place, ONE, ("two",))
        counters = link(place, *argv)
        assert counters.outcome in ("miss", "failed", "partial_hit", "bypass", "stage_hit")
        assert "nvlink" not in counters.hit()


@pytest.mark.by_default("one")
@pytest.mark.parametrize("options", [ONE, TWO, LTO], ids=["one", "two", "lto"])
def test_a_program_from_sources(place: Workspace, options: tuple[str, ...]) -> None:
    if options is LTO:
        skip_without_lto(place)
    place.write("main.cu", MAIN)
    argv = ("-rdc=true", *options, "one.cu", "two.cu", "main.cu", *where_libraries_are(place))
    run_program(place, argv)
    counters = run_program(place, argv)
    assert counters.outcome == "stage_hit"
    assert counters.ran() == {}
    place.write("two.cu", called(factor=5))
    counters = run_program(place, argv)
    count = 2 if options is TWO else 1
    assert counters.ran()["cicc"] == count
    assert counters.ran()["nvlink"] == count


@pytest.fixture
def toolkit(place: Workspace, tmp_path: Path) -> Path:
    """A toolkit of links whose parts can be replaced."""
    original = toolkit_of(place)
    made = copy_toolkit(place, tmp_path / "toolkit")
    shutil.copytree(original / "bin" / "crt", made / "bin" / "crt")
    for name in ("lib64", "lib", "targets"):
        if (original / name).exists():
            (made / name).symlink_to((original / name).resolve())
    return made


def change_nvlink(toolkit: Path) -> None:
    real = (toolkit / "bin" / "nvlink").resolve()
    replace(toolkit / "bin" / "nvlink", f'#!/bin/sh\nexec "{real}" "$@"\n')


def change_stub(toolkit: Path) -> None:
    stub = toolkit / "bin" / "crt" / "link.stub"
    replace(stub, stub.read_text() + "/* another */\n", 0o644)


@pytest.mark.by_default("nvlink")
@pytest.mark.parametrize(
    ("change", "stage"), [(change_nvlink, "nvlink"), (change_stub, "host_compile")], ids=["nvlink", "stub"]
)
def test_a_part_that_was_replaced_runs(
    place: Workspace, toolkit: Path, change: Callable[[Path], None], stage: str
) -> None:
    make_objects(place, ONE)
    argv = ("-dlink", *ONE, "one.o", "two.o")
    link(place, *argv)
    assert link(place, *argv).outcome == "direct_hit"
    change(toolkit)
    assert link(place, *argv).ran() == {stage: 1}


def test_libnvvm_counts(place: Workspace, toolkit: Path) -> None:
    folder = toolkit / "nvvm" / "lib64"
    original = (toolkit / "bin" / "nvlink").resolve().parent.parent / "nvvm" / "lib64" / "libnvvm.so"
    if not original.exists():
        pytest.skip("this toolkit has no libnvvm beside its tools")
    folder.mkdir()
    shutil.copy(original, folder / "libnvvm.so")
    skip_without_lto(place)
    argv = ("-dlink", *LTO, "one.o", "two.o")
    link(place, *argv)
    assert link(place, *argv).outcome == "direct_hit"
    with (folder / "libnvvm.so").open("ab") as stream:
        stream.write(b"\0")
    assert link(place, *argv).ran()["nvlink"] == 1


@pytest.mark.by_default("code")
@pytest.mark.parametrize("options", [ONE, LTO], ids=["code", "lto"])
def test_nvlink_reads_no_other_sections_than_those_that_count(
    place: Workspace, options: tuple[str, ...]
) -> None:
    """Which is what the digests of objects rest on: all else is overwritten, and links to the same."""
    if options is LTO:
        skip_without_lto(place)
    place.write(
        "two.cu", called() + "__constant__ int table[4];\n__global__ void own(int *x) { *x = table[1]; }\n"
    )
    place.write("three.cc", "int three() { return 3; }\n")
    make_objects(place, options)
    host = place.plain("-c", "three.cc", "-o", "three.o", *HOST_OPTIONS)
    assert host.status == 0
    program = Path(place.nvcc).resolve().parent / "nvlink"
    names = [f"{name}.o" for name in ("one", "two", "three")]
    made = []
    for _ in range(2):
        command = [str(program), "--arch=sm_80", "--register-link-binaries=reg.c", "-m64", "-cpu-arch=X86_64"]
        if options is LTO:
            command += ["-dlto", f"-nvvmpath={toolkit_of(place)}/nvvm"]
        done = place.run([*command, *names, *_device_runtime(place), "-o", "d.cubin"])
        assert done.status == 0, done.stderr
        made.append([(place.directory / name).read_bytes() for name in ("d.cubin", "reg.c")])
        (place.directory / "reg.c").unlink()
        digests = [nvlink.digest_of(str(place.directory / name)) for name in names]
        for name in names:
            overwrite_host_sections(place.directory / name)
        assert digests == [nvlink.digest_of(str(place.directory / name)) for name in names]
    assert made[0] == made[1]


def _device_runtime(place: Workspace) -> list[str]:
    toolkit = toolkit_of(place)
    found = [f"-L{toolkit}/{name}" for name in ("lib64", "lib") if (toolkit / name).is_dir()]
    return [*found, "-lcudadevrt"]


def overwrite_host_sections(path: Path) -> None:
    """Put noise into every section but those of device code and that of the sections' names.

    Relocations become such as relocate nothing: 13.5 refuses those that make no sense.
    """
    chance = random.Random(7)
    content = bytearray(path.read_bytes())
    (table,) = struct.unpack_from("<Q", content, 40)
    size, count, names_index = struct.unpack_from("<HHH", content, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", content, table + index * size) for index in range(count)]
    names = bytes(content[rows[names_index][4] :])
    for index, row in enumerate(rows):
        name = names[row[0] : names.index(b"\0", row[0])]
        if index == names_index or row[1] == NO_BITS or name.startswith(DEVICE_SECTIONS):
            continue
        content[row[4] : row[4] + row[5]] = (
            bytes(row[5]) if row[1] == RELOCATIONS else chance.randbytes(row[5])
        )
    path.write_bytes(content)
