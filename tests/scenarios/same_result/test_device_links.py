"""Links: nvlink's output comes from the cache, equals plain nvcc's, and is made again when it must be.

NVCCACHE_TEST_NVCC=/path/to/nvcc pytest tests/scenarios/same_result/test_device_links.py    another toolkit
NVCCACHE_TEST_CCBIN=/path/to/g++                                                and host compiler
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
def test_a_repeated_device_link_is_a_direct_hit(
    place: Workspace, options: tuple[str, ...], kind: tuple[str, ...]
) -> None:
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
    assert "the line information of nvlink contains dates" in explained


def archive(place: Workspace, path: str, *members: str) -> None:
    target = place.directory / path
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    subprocess.run(["ar", "crU", str(target), *members], cwd=place.directory, check=True, capture_output=True)


def test_a_library_that_appears_earlier_on_the_search_path_is_found(place: Workspace) -> None:
    make_objects(place, ONE)
    archive(place, "late/libtwo.a", "two.o")
    argv = ("-dlink", *ONE, "one.o", "-ltwo", "-Learly", "-Llate")
    link(place, *argv)
    assert link(place, *argv).outcome == "direct_hit"
    place.write("two.cu", called(factor=3))
    make_objects(place, ONE, ("two",))
    archive(place, "early/libtwo.a", "two.o")
    assert link(place, *argv).ran()["nvlink"] == 1


def test_a_changed_member_of_a_thin_archive_is_linked_again(place: Workspace) -> None:
    make_objects(place, ONE)
    subprocess.run(["ar", "crT", "libtwo.a", "two.o"], cwd=place.directory, check=True)
    for factor in (2, 3):
        place.write("two.cu", called(factor=factor))
        make_objects(place, ONE, ("two",))
        assert "nvlink" not in link(place, "-dlink", *ONE, "one.o", "libtwo.a").hit()


@pytest.mark.by_default("one")
@pytest.mark.parametrize("options", [ONE, TWO, LTO], ids=["one", "two", "lto"])
def test_linking_from_sources_recompiles_only_the_changed_source(
    place: Workspace, options: tuple[str, ...]
) -> None:
    if options is LTO:
        skip_without_lto(place)
    place.write("one.cu", CALLER + MAIN.partition("\n")[2])
    argv = ("-rdc=true", *options, "one.cu", "two.cu", *where_libraries_are(place))
    assert place.cached(*argv, *HOST_OPTIONS, "-o", "ours").status == 0
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
def test_a_replaced_tool_of_a_device_link_reruns_only_its_stage(
    place: Workspace, toolkit: Path, change: Callable[[Path], None], stage: str
) -> None:
    make_objects(place, ONE)
    argv = ("-dlink", *ONE, "one.o", "two.o")
    link(place, *argv)
    assert link(place, *argv).outcome == "direct_hit"
    change(toolkit)
    assert link(place, *argv).ran() == {stage: 1}


def test_a_replaced_libnvvm_reruns_a_link_time_optimization(place: Workspace, toolkit: Path) -> None:
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
