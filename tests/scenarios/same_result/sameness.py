"""Whether nvccache's outputs and messages are those of plain nvcc.

Compared are the exit status, standard output, standard error, and the files afterwards: which there are,
their modes, links, contents, and whether they were written at all. What plain nvcc makes differently on
every run, since it names its temporary files in it, is compared with `nvcc -keep`, which does not.
"""

from __future__ import annotations

import dataclasses
import os
import re

from scenarios.same_result.bench import TEMPORARY, Bench, File, Run
from scenarios.support.ids import heads_of_ids, lines_without_ends, readable, without_ends

_NVVM_CONTAINER = b"\xed\x43\x4e\x7f"  # the beginning of OptiX-IR
_MILLISECONDS = re.compile(rb"Compile time = [0-9.]+ ms")
_PROCESS = re.compile(rb"_[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}_\d+")


def _plain_text(text: bytes, bench: Bench) -> bytes:
    """Diagnostics without what differs from one plain run to the next."""
    text = TEMPORARY.sub(b"", text.replace(os.fsencode(bench.temporary) + b"/tmpxft_", b"tmpxft_"))
    return _MILLISECONDS.sub(b"Compile time = # ms", text)


def assert_same_streams(plain: Run, cached: Run, bench: Bench) -> None:
    heads = heads_of_ids(plain.stderr)  # ptxas tells which functions it compiles
    assert _plain_text(without_ends(cached.stderr, heads), bench) == _plain_text(
        without_ends(plain.stderr, heads), bench
    )
    assert cached.status == plain.status
    assert _plain_text(cached.stdout, bench) == _plain_text(plain.stdout, bench)


def assert_same_files(plain: Run, cached: Run, bench: Bench) -> None:
    assert list(cached.files) == list(plain.files)
    assert set(cached.temporary) <= set(plain.temporary)
    kept: Run | None = None
    for name, expected in plain.files.items():
        found = cached.files[name]
        assert _without_content(found) == _without_content(expected), name
        if name in bench.line.timings:
            # A trace leaves out what took little time, so that only a table can be compared.
            if not name.endswith(".json"):
                assert _without_numbers(found.content) == _without_numbers(expected.content)
            continue
        wanted = expected.content
        if TEMPORARY.search(wanted) and not TEMPORARY.search(found.content):
            kept = kept or bench.reference()
            wanted = kept.files[name].content
        assert_same_content(found.content, wanted, name, bench, is_left_to_nvcc=plain.status != 0)


def _without_content(file: File) -> File:
    return dataclasses.replace(file, content=b"")


def _without_numbers(content: bytes) -> bytes:
    """A table of times without them."""
    return re.sub(rb"[0-9.]+", b"#", TEMPORARY.sub(b"", content))


def assert_same_content(
    found: bytes, wanted: bytes, name: str, bench: Bench, is_left_to_nvcc: bool = False
) -> None:
    found, wanted = TEMPORARY.sub(b"", found), TEMPORARY.sub(b"", wanted)
    if found == wanted:
        return
    shown, expected = readable(found, bench.workspace), readable(wanted, bench.workspace)
    heads = heads_of_ids(expected)
    if not heads and wanted.startswith(_NVVM_CONTAINER):  # an id does not show in it
        assert len(found) == len(wanted), f"{name} differs"
        return
    assert heads, f"{name} differs"
    may_hold_process = bench.warm == "miss" or is_left_to_nvcc
    assert may_hold_process or not _PROCESS.search(found), f"{name} has a process id in it"
    assert lines_without_ends(shown, heads) == lines_without_ends(expected, heads), name
