"""Products of a direct hit: those of plain nvcc, whatever files existed before; no process runs."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made
from scenarios.support.cases import (
    DIRECT_HIT,
    LINE,
    OLD_ENOUGH,
    Call,
    Case,
    check_outcome,
    made_by_cache,
    processes_of_hit,
    set_up,
    value,
    with_empty_cache,
)
from workspaces import Result, Workspace

pytestmark = pytest.mark.light_by_default
# Nothing here has external linkage: nvcc tells such units apart by a process id.
INTERNAL = {
    "a.cu": """
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""
}
PLACES = {
    "a longer product": lambda product: product.write_bytes(b"long" * 100_000),
    "a file that may not be written": lambda product: (product.write_text("older"), product.chmod(0o444)),
    "a link to a file": lambda product: (_target(product).write_text("x"), product.symlink_to("target")),
    "a second name of a file": lambda product: (_target(product).write_text("x"), _link(product)),
    "a directory": lambda product: product.mkdir(),
}


def _target(product: Path) -> Path:
    return product.parent / "target"


def _link(product: Path) -> None:
    os.link(_target(product), product)


def recorded(workspace: Workspace, case: Case) -> Made:
    """Compile once, and wait until a record of it can be trusted."""
    set_up(workspace, case)
    made = made_by_cache(workspace, case.call)
    assert made.status == 0, made.stderr
    time.sleep(OLD_ENOUGH)
    return made


def state_of(path: Path) -> tuple[object, ...]:
    """The files that exist now."""
    if not os.path.lexists(path):
        return ("nothing",)
    kind = "link" if path.is_symlink() else "directory" if path.is_dir() else "file"
    return (kind, path.stat().st_mode, path.read_bytes() if path.is_file() else b"")


@pytest.mark.by_default("a.o-a second name of a file", "a.d-a link to a file")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["a.o", "a.d"])
def test_what_was_in_the_place_of_a_product(workspace: Workspace, place: str, name: str) -> None:
    """A link's target and a file's other names end up as by plain nvcc."""
    recorded(workspace, Case(files={"h.h": value(1)}))
    product, target = workspace.directory / name, workspace.directory / "target"
    keep = workspace.directory.parent / "keep"
    keep.mkdir()
    argv = Call().argv(workspace)
    seen: list[tuple[object, ...]] = []
    for compile_it in (
        lambda: workspace.plain(*argv, "-keep", "-keep-dir", keep),
        lambda: workspace.cached(*argv, NVCCACHE_STRICT="0"),
    ):
        for path in (product, target):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        PLACES[place](product)
        result: Result = compile_it()
        stderr = re.sub(rb"/\S*/cc\w{6}\.s|/\S*tmpxft_\S*", b"", result.stderr.replace(bytes(keep), b""))
        seen.append((result.status, stderr, state_of(product), state_of(target)))
    assert seen[0] == seen[1]


def test_a_unit_without_external_definition_is_named_after_its_product(workspace: Workspace) -> None:
    """A direct hit under another name gives the object of a cold compile under that name."""
    recorded(workspace, Case(files=INTERNAL))
    other = Call(line=LINE.replace("a.o", "b.o"), makes=("b.o", "a.d"))
    warm = made_by_cache(workspace, other)
    cold = made_by_cache(with_empty_cache(workspace), other)
    assert warm.files == cold.files
    time.sleep(OLD_ENOUGH)
    objects = []
    for call in (Call(), other, Call(), other):
        made = made_by_cache(workspace, call)
        check_outcome(made.outcome, DIRECT_HIT, made)
        objects.append(made.files[call.makes[0]])
    assert objects[:2] == objects[2:]
    assert objects[0] != objects[1]
    ids = [set(re.findall(rb"_[0-9a-f]{8}_4_a_cu_[0-9a-f]{8}\w*", content)) for _, content in objects[:2]]
    assert ids[0] and ids[1] and ids[0].isdisjoint(ids[1])


def test_a_direct_hit_starts_no_process(workspace: Workspace) -> None:
    recorded(workspace, Case(files={"h.h": value(1)}))
    assert processes_of_hit(workspace, Call()) == ["execve"]
