"""Products that have no room, or whose place is taken: what plain nvcc leaves, and never a part of one."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

import pytest

from scenarios.support.at_once import small_file_system
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE
from workspaces import OLD_ENOUGH, Workspace

pytestmark = pytest.mark.light_by_default

OLD = b"made earlier"
Left = tuple[int, dict[str, tuple[bytes, bool]]]


@contextlib.contextmanager
def size_limit(workspace: Workspace) -> Iterator[str]:
    """Less than a product, more than a line of the journal. nvcc does not get as far as the product."""
    yield "ulimit -f 1; "


@contextlib.contextmanager
def full(workspace: Workspace) -> Iterator[str]:
    with small_file_system(workspace.directory / "out", "64k"):
        yield ""


OBJECT = ("-c", "a.cu", "-o", "out/a.o", "-MD", "-MF", "out/a.d")
PTX = ("-ptx", "a.cu", "-o", "out/a.ptx")


@pytest.mark.parametrize(
    ("trouble", "has_an_old_one", "line"), [(size_limit, False, OBJECT), (full, True, PTX)]
)
def test_on_a_full_disk_the_output_is_as_nvcc_leaves_it(workspace, trouble, has_an_old_one, line):
    """Or the whole product, where it fits into the blocks of an old one and nvcc wants room for others."""
    out = workspace.directory / "out"
    out.mkdir()
    workspace.write("a.cu", SOURCE)
    time.sleep(OLD_ENOUGH)
    product = workspace.directory / line[line.index("-o") + 1]

    def compile_with(compiler: str, limit: str = "") -> int:
        return workspace.run(["sh", "-c", f'{limit}exec {compiler} "$@"', "sh", *line, *HOST_OPTIONS]).status

    ours = f'"{sys.executable}" -m nvccache "{workspace.nvcc}"'
    assert [compile_with(ours), compile_with(ours)] == [0, 0]
    assert workspace.counters().calls["direct_hit"] == 1
    whole = product.read_bytes()
    for path in out.iterdir():
        path.unlink()
    with trouble(workspace) as limit:

        def left_by(compiler: str) -> Left:
            if has_an_old_one:
                product.write_bytes(OLD)
                os.utime(product, (1, 1))
            with contextlib.suppress(OSError), open(out / "filler", "wb", buffering=0) as filler:
                while trouble is not size_limit:
                    filler.write(bytes(4096))
            status = compile_with(compiler, limit)
            (out / "filler").unlink(missing_ok=True)
            left = {path.name: (path.read_bytes(), path.stat().st_mtime == 1) for path in out.iterdir()}
            for name in left:
                (out / name).unlink()
            return status, left

        expected = left_by(f'"{workspace.nvcc}"')
        for _ in ("direct", "stages"):
            status, left = left_by(ours)
            is_given = status == 0 and left[product.name] == (whole, False)
            assert (status, left) == expected or (is_given and has_an_old_one)
            workspace.forget_calls()
    assert not workspace.counters().calls["fault"]


def test_existing_outputs_and_links_are_overwritten_as_by_nvcc(workspace):
    """A file's other names and a link's target end up as by plain nvcc."""
    workspace.write("a.cu", SOURCE)
    argv = ("-c", "a.cu", "-o", "a.o", "-MD", "-MF", "a.d", *HOST_OPTIONS)
    assert workspace.cached(*argv).status == 0
    product, other, rule, target = (workspace.directory / name for name in ("a.o", "other", "a.d", "target"))
    keep = workspace.directory.parent / "keep"
    keep.mkdir()
    seen = []
    for run, words in ((workspace.plain, ("-keep", "-keep-dir", keep)), (workspace.cached, ())):
        for path in (product, other, rule, target):
            path.unlink(missing_ok=True)
        other.write_text("x")
        target.write_text("x")
        os.link(other, product)
        rule.symlink_to("target")
        assert run(*argv, *words).status == 0
        paths = (product, other, rule, target)
        seen.append([(path.is_symlink(), path.stat().st_mode, path.read_bytes()) for path in paths])
    assert seen[0] == seen[1]
    assert workspace.counters().calls["direct_hit"] == 1
