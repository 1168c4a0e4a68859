"""A reworded comment is a direct hit, unless something shows comments or could tell that they changed."""

from __future__ import annotations

import os

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.edits import put
from scenarios.support.toolkits import HOST_COMPILER
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

HEADER = "#pragma once\n// One.\ninline __device__ int two() { return 2; } /* one\n more */\n"
SOURCE = '#include "h.h"\n// One.\n__global__ void kernel(int *x) { *x = two(); }  // one\n'
FILES = {"a.cu": SOURCE, "h.h": HEADER}
# Name -> the files, and further arguments.
COUNTING = {
    "the date of a source in line tables": (FILES, ("-lineinfo",)),
    "a message that quotes the source": ({**FILES, "a.cu": SOURCE + "#warning so\n"}, ()),
    "comments in preprocessed text": (FILES, ("-Xcompiler", "-C")),
    "such an option by its long name": (FILES, ("-Xcompiler", "--comments")),
    "the other name of an option": (FILES, ("-Xcompiler", "--input-charset=UTF-8")),
    "a source that the assembler reads by another name": (
        {
            **FILES,
            "B/h.h": "",
            "a.cu": SOURCE + 'asm(".section text; .incbin \\"B/../a.cu\\"; .previous");\n',
        },
        (),
    ),
}
# Of two such headers the second defines SECOND, unless they are one file to `#pragma once`.
COPY = "#pragma once\n// One.\n#ifdef FIRST\n#define SECOND\n#endif\n#define FIRST\n"
COPIES = {
    "d/g.h": COPY.replace("One", "Two"),
    "h.h": COPY,
    "a.cu": '#include <g.h>\n#include "h.h"\n__global__ void kernel(int *x) {\n'
    "#ifdef SECOND\n*x = 2;\n#endif\n}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_reworded_comment_is_a_direct_hit(workspace: Workspace, name: str) -> None:
    put(workspace, FILES)
    rebuild(workspace, "-c", "a.cu")
    put(workspace, {name: FILES[name].replace("One", "Another").replace("one", "some")})
    assert rebuild(workspace, "-c", "a.cu").outcome == "direct_hit"
    put(workspace, {name: FILES[name].replace("2", "3").replace("= two", "= 1 + two")})
    assert rebuild(workspace, "-c", "a.cu").outcome != "direct_hit"


def test_a_header_with_two_names_is_one_file_until_a_directory_before_dots_becomes_a_link(
    workspace: Workspace,
) -> None:
    includes = dict.fromkeys(("a/g.h", "b/g.h", "c/a/g.h"), '#include "../h.h"\n')
    source = '#include "a/g.h"\n' + SOURCE.replace("h.h", "b/g.h").replace("two()", "two() + OTHER")
    header = f"{HEADER}#ifndef OTHER\n#define OTHER 0\n#endif\n"
    put(workspace, {**includes, "a.cu": source, "h.h": header, "c/h.h": "#define OTHER 1\n"})
    rebuild(workspace, "-c", "a.cu")
    put(workspace, {"h.h": header.replace("One", "Another")})
    assert rebuild(workspace, "-c", "a.cu").outcome == "direct_hit"
    (workspace.directory / "a").rename(workspace.directory / "moved")
    (workspace.directory / "a").symlink_to("c/a")
    assert rebuild(workspace, "-c", "a.cu").outcome != "direct_hit"


@pytest.mark.parametrize(("option", "outcome"), [("-DMORE", "direct_hit"), ("-C", "partial_hit")])
def test_a_reworded_comment_is_a_miss_if_a_wrapper_adds_the_option_that_keeps_comments(
    workspace: Workspace, option: str, outcome: str
) -> None:
    workspace.write("compiler", f'#!/bin/sh\nexec {HOST_COMPILER} {option} "$@"\n').chmod(0o755)
    line = ("-c", "a.cu", "-ccbin", workspace.directory / "compiler")
    put(workspace, FILES)
    rebuild(workspace, *line)
    put(workspace, {"a.cu": SOURCE.replace("One", "Another")})
    assert rebuild(workspace, *line).outcome == outcome


@pytest.mark.parametrize("name", COUNTING)
def test_a_reworded_comment_is_a_miss_if_a_message_or_an_output_shows_comments(
    workspace: Workspace, name: str
) -> None:
    files, more = COUNTING[name]
    put(workspace, files)
    rebuild(workspace, "-c", "a.cu", *more)
    put(workspace, {"a.cu": files["a.cu"].replace("One", "Another")})
    assert rebuild(workspace, "-c", "a.cu", *more).outcome != "direct_hit"


def test_an_added_comment_is_noticed_in_c90_where_gcc_warns_of_it(workspace: Workspace) -> None:
    """Options of `-Xcompiler` follow nvcc's own `-x c++`."""
    source = "__global__ void kernel(int *x) { *x = 1; }"
    put(workspace, {"a.cu": source + "\n", "cuda_runtime.h": "#define __global__ __attribute__((global))\n"})
    line = ("-ptx", "a.cu", "-Xcompiler", "-x,c,-std=gnu89,-pedantic")
    rebuild(workspace, *line)
    put(workspace, {"a.cu": source + " // one\n"})
    assert rebuild(workspace, *line).outcome != "direct_hit"


@pytest.mark.parametrize("search", ["-I", "-isystem"])
def test_headers_that_become_equal_count_as_changed(workspace: Workspace, search: str) -> None:
    put(workspace, COPIES)
    rebuild(workspace, "-c", "a.cu", search, "d")
    put(workspace, {"h.h": COPIES["d/g.h"]})
    date = (workspace.directory / "d/g.h").stat().st_mtime_ns
    os.utime(workspace.directory / "h.h", ns=(date, date))
    assert rebuild(workspace, "-c", "a.cu", search, "d").outcome != "direct_hit"


def test_empty_headers_that_were_only_touched_are_a_direct_hit(workspace: Workspace) -> None:
    empty = dict.fromkeys(("d/e.h", "e.h"), "")
    put(workspace, {**FILES, **empty, "a.cu": '#include "d/e.h"\n#include "e.h"\n' + SOURCE})
    rebuild(workspace, "-c", "a.cu")
    put(workspace, empty)
    assert rebuild(workspace, "-c", "a.cu", product="b.o").outcome == "direct_hit"
