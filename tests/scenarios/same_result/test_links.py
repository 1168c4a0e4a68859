"""Objects that plain nvcc can link with each other can be linked when they come from the cache.

The hard cases are units whose device code has no external definition: nvcc distinguishes their internal
entities by a process id, so stored results must be distinguished by something else (module_id.py).
"""

from __future__ import annotations

import shutil

import pytest

from scenarios.support.linking import INTERNAL, TWO, compile_cached, link
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

MODES = [("-c",), ("-dc",)]
# The directory, the source and the object of each of two compiles.
PAIRS = {
    "two files": ((".", "one.cu", "one.o"), (".", "two.cu", "two.o")),
    "one file to two outputs": ((".", "a.cu", "first.o"), (".", "a.cu", "second.o")),
    # As a recursive make does it: the same words, in two working directories.
    "one name in two directories": (("one", "a.cu", "a.o"), ("two", "a.cu", "a.o")),
    "one file from two directories": (("one", "../a.cu", "a.o"), ("two", "../a.cu", "a.o")),
    "the same below a base directory": (("one", "../a.cu", "a.o"), ("two", "../a.cu", "a.o")),
}


@pytest.mark.by_default(
    "-dc-one file to two outputs", "-dc-one name in two directories", "-dc-the same below a base directory"
)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("mode", [*MODES, ("-rdc=true", "-c", "-lineinfo")], ids=" ".join)
def test_objects_of_two_sources_link_into_one_program(
    workspace: Workspace, mode: tuple[str, ...], pair: str
) -> None:
    """Cold, and by the stages, which make the same."""
    if "base" in pair:
        workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory.parent)
    for directory, source, _ in PAIRS[pair]:
        workspace.write(f"{directory}/{source}", INTERNAL)
    objects = [f"{directory}/{made}" for directory, _, made in PAIRS[pair]]
    contents = []
    for _ in ("cold", "stages"):
        for directory, source, made in PAIRS[pair]:
            compile_cached(workspace, *mode, source, "-o", made, cwd=workspace.directory / directory)
        contents.append([(workspace.directory / name).read_bytes() for name in objects])
        workspace.forget_calls()
    assert contents[0] == contents[1]
    link(workspace, objects, mode)


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_one_source_compiled_in_several_configurations_links_without_clashes(
    workspace: Workspace, mode: tuple[str, ...]
) -> None:
    """By a macro, by an included file, and by what a directory of the call or the environment holds."""
    used = "static const int values[] __attribute__((used)) = {CONFIG, SETTING + 0};\n"
    workspace.write("a.cu", "#include <config.h>\n" + used + INTERNAL)
    for number in (1, 2):
        workspace.write(f"config{number}/config.h", f"#define CONFIG {number}\n")
    workspace.write("forced.h", "static const int forced = 1;\n")
    configurations: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("-Iconfig1", "-DSETTING"), {}),
        (("-Iconfig2", "-DSETTING"), {}),
        (("-Iconfig1", "-DSETTING", "-include", "forced.h"), {}),
        (("-DSETTING=2",), {"CPATH": "config1"}),
        (("-DSETTING=2",), {"CPATH": "config2"}),
    ]
    objects = []
    for number, (options, variables) in enumerate(configurations):
        compile_cached(workspace, *mode, "a.cu", *options, "-o", "a.o", **variables)
        objects.append(f"{number}.o")
        (workspace.directory / "a.o").rename(workspace.directory / objects[-1])
    link(workspace, objects, mode)


@pytest.mark.by_default("-c")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_objects_with_an_added_architecture_link_together(
    workspace: Workspace, mode: tuple[str, ...]
) -> None:
    """The stub registers names that all architectures' code must have, though one was cached before."""
    workspace.write("a.cu", INTERNAL)
    for options, made in ((TWO[:2], "a.o"), (TWO, "a.o"), (TWO, "b.o")):
        compile_cached(workspace, *mode, "a.cu", "-o", made, *options)
    link(workspace, ["a.o", "b.o"], mode)


def test_whole_and_relocatable_objects_share_nothing_that_differs(workspace: Workspace) -> None:
    """In one cache, in both orders: each is the same as when compiled alone."""
    workspace.write("a.cu", "__device__ int twice(int x) { return 2 * x; }\n" + INTERNAL)
    made: dict[str, set[bytes]] = {"-c": set(), "-dc": set()}
    for modes in (("-c", "-dc"), ("-dc", "-c")):
        for mode in modes:
            compile_cached(workspace, mode, "a.cu", "-o", "a.o")
            made[mode].add((workspace.directory / "a.o").read_bytes())
        shutil.rmtree(workspace.cache)
    assert [len(contents) for contents in made.values()] == [1, 1]
    assert made["-c"].isdisjoint(made["-dc"])
