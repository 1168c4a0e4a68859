"""Programs linked in one call: their stages hit, the host's link runs, and the program is plain nvcc's.

NVCCACHE_TEST_NVCC=/path/to/nvcc pytest tests/scenarios/reuse/test_relinks.py    another toolkit
NVCCACHE_TEST_CCBIN=/path/to/g++                                           and host compiler
"""

from __future__ import annotations

import shutil

import pytest

from scenarios.support.linking import (
    CALLER,
    LTO,
    MAIN,
    ONE,
    called,
    device_sections,
    make_objects,
    run_program,
    skip_without_lto,
    where_libraries_are,
)
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import Workspace

SOURCES = ("one.cu", "two.cu", "main.cu")
OBJECTS = ("one.o", "two.o", "main.o")
PASSES = {"host_preprocess", "device_preprocess"}


@pytest.fixture
def place(workspace: Workspace) -> Workspace:
    workspace.write("one.cu", CALLER)
    workspace.write("two.cu", called())
    workspace.write("main.cu", MAIN)
    make_objects(workspace, ONE, ("one", "two", "main"))
    return workspace


def words_of(place: Workspace, *inputs: str, options: tuple[str, ...] = ONE) -> tuple[str, ...]:
    return ("-rdc=true", *options, *inputs, *where_libraries_are(place))


def is_relinked(place: Workspace, argv: tuple[str, ...]) -> bool:
    """Make the program both ways, compare, and say whether only passes and the host's link ran."""
    counters = run_program(place, argv)
    return counters.outcome == "stage_hit" and not counters.ran().keys() - PASSES


@pytest.mark.by_default("one-objects", smoke={"one-objects": "link"})
@pytest.mark.parametrize("inputs", [SOURCES, OBJECTS], ids=["sources", "objects"])
@pytest.mark.parametrize("options", [ONE, LTO], ids=["one", "lto"])
def test_relinking_touched_inputs_reruns_only_the_hosts_link(
    place: Workspace, options: tuple[str, ...], inputs: tuple[str, ...]
) -> None:
    if options is LTO:
        skip_without_lto(place)
        make_objects(place, options, ("main",))
    argv = words_of(place, *inputs, options=options)
    assert not is_relinked(place, argv)
    for name in inputs:
        (place.directory / name).touch()
    assert is_relinked(place, argv)


@pytest.mark.by_default("objects")
@pytest.mark.parametrize("inputs", [SOURCES, OBJECTS], ids=["sources", "objects"])
def test_relinking_puts_changed_device_code_into_the_program(
    place: Workspace, inputs: tuple[str, ...]
) -> None:
    argv = words_of(place, *inputs)
    run_program(place, argv)
    before = device_sections(place.directory / "ours")
    place.write("two.cu", called(factor=7))
    make_objects(place, ONE, ("two",))
    assert not is_relinked(place, argv)
    assert device_sections(place.directory / "ours") != before


@pytest.mark.full
def test_a_changed_shared_library_is_linked_by_the_host_linker_again(place: Workspace) -> None:
    """nvlink does not look for shared libraries, so that the record holds when one changes."""

    def library(value: int) -> None:
        place.write("value.cc", f'extern "C" int value() {{ return {value}; }}\n')
        argv = ["-shared", "-Xcompiler", "-fPIC", "value.cc", *HOST_OPTIONS, "-cudart=none", "-o"]
        assert place.plain(*argv, "lib/libvalue.so").status == 0

    (place.directory / "lib").mkdir()
    place.write("main.cu", 'extern "C" int value();\nint main() { return value(); }\n')
    make_objects(place, ONE, ("main",))
    argv = (*words_of(place, *OBJECTS), "-Llib", "-lvalue", "-Xlinker", "-rpath=lib")
    library(3)
    run_program(place, argv)
    assert place.run([place.directory / "ours"]).status == 3
    library(4)
    assert is_relinked(place, argv)
    assert place.run([place.directory / "ours"]).status == 4
    (place.directory / "lib" / "libvalue.so").unlink()
    check_failure(place, argv)


@pytest.mark.by_default("script.ld")
@pytest.mark.parametrize("broken", ["script.ld", "nested.ld"])
def test_a_failing_link_prints_what_nvcc_prints(place: Workspace, broken: str) -> None:
    """With inputs that are recorded, and with inputs that only the linker finds."""
    place.write("script.ld", "INCLUDE nested.ld\n")
    place.write("nested.ld", "script_defines_this = 1;\n")
    argv = (*words_of(place, *OBJECTS), "-Xlinker", "script.ld")
    run_program(place, argv)
    place.write(broken, "no script {\n")
    check_failure(place, argv)


def check_failure(place: Workspace, argv: tuple[str, ...]) -> None:
    before = (place.directory / "ours").read_bytes()
    found, counters = place.since(lambda: place.cached(*argv, *HOST_OPTIONS, "-o", "ours"))
    shutil.copy(place.directory / "plain", place.directory / "copy")
    plain = place.plain(*argv, *HOST_OPTIONS, "-o", "plain")
    assert (found.status, found.stdout) == (plain.status, plain.stdout)
    assert found.status != 0
    assert found.stderr.replace(b"ours", b"plain").count(b"\n") == plain.stderr.count(b"\n")
    assert counters.outcome == "failed"
    ours, theirs = (place.directory / name for name in ("ours", "plain"))
    assert ours.exists() == theirs.exists()
    assert not ours.exists() or ours.read_bytes() == before
