"""Products that have no room: what plain nvcc leaves, and never a part of one from the cache."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.at_once import small_file_system
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import OLD_ENOUGH, Workspace

pytestmark = pytest.mark.light_by_default

LINES = {
    "object": ("-c", "a.cu", "-o", "out/a.o", "-MD", "-MF", "out/a.d"),
    "cubin": ("-cubin", "-arch=sm_80", "a.cu", "-o", "out/a.cubin"),
    "ptx": ("-ptx", "a.cu", "-o", "out/a.ptx"),
}
OLD = b"made earlier"
Left = tuple[int, dict[str, tuple[bytes, bool]]]


@contextlib.contextmanager
def size_limit(workspace: Workspace) -> Iterator[tuple[str, str]]:
    """Less than a product, more than a line of the journal. nvcc does not get as far as the product."""
    yield "ulimit -f 1; ", ""


@contextlib.contextmanager
def full(workspace: Workspace, scratch: str = "") -> Iterator[tuple[str, str]]:
    with small_file_system(workspace.directory / "out", "64k"):
        yield "", scratch


def full_with_scratch(workspace: Workspace) -> contextlib.AbstractContextManager[tuple[str, str]]:
    """What nvcc writes first has no room, either, and the product is as it was."""
    return full(workspace, str(workspace.directory / "out"))


@pytest.mark.by_default("size_limit-nothing-object", "full-an old one-ptx")
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("before", ["nothing", "an old one", "with another name"])
@pytest.mark.parametrize("trouble", [size_limit, full, full_with_scratch])
def test_without_room_for_a_product_there_is_what_nvcc_leaves(workspace, trouble, before, line):
    """Or the whole product, where it fits into the blocks of an old one and nvcc wants room for others."""
    out = workspace.directory / "out"
    out.mkdir()
    workspace.write("a.cu", SOURCE)
    time.sleep(OLD_ENOUGH)
    product = workspace.directory / line[line.index("-o") + 1]

    def compile_with(compiler: str, limit: str = "", scratch: str = "") -> int:
        argv = ["sh", "-c", f'{limit}exec {compiler} "$@"', "sh", *line, *HOST_OPTIONS]
        return workspace.run(argv, **({"TMPDIR": scratch} if scratch else {})).status

    ours = f'"{sys.executable}" -m nvccache "{workspace.nvcc}"'
    assert [compile_with(ours), compile_with(ours)] == [0, 0]
    assert workspace.counters().calls["direct_hit"] == 1
    whole = product.read_bytes()
    for path in out.iterdir():
        path.unlink()
    with trouble(workspace) as (limit, scratch):

        def left_by(compiler: str) -> Left:
            make(product, before)
            with contextlib.suppress(OSError), open(out / "filler", "wb", buffering=0) as filler:
                while trouble is not size_limit:
                    filler.write(bytes(4096))
            status = compile_with(compiler, limit, scratch)
            (out / "filler").unlink(missing_ok=True)
            left = {path.name: (path.read_bytes(), path.stat().st_mtime == 1) for path in out.iterdir()}
            for name in left:
                (out / name).unlink()
            return status, left

        expected = left_by(f'"{workspace.nvcc}"')
        for _ in ("direct", "stages"):
            status, left = left_by(ours)
            is_given = status == 0 and left[product.name] == (whole, False)
            assert (status, left) == expected or (is_given and before != "nothing")
            workspace.forget_calls()
    assert not workspace.counters().calls["fault"]


def make(product: Path, before: str) -> None:
    if before != "nothing":
        product.write_bytes(OLD)
    if before == "with another name":
        os.link(product, product.with_name("other"))
    for path in product.parent.iterdir():
        os.utime(path, (1, 1))
