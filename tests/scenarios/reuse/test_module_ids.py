"""A result that contains its module id is for one source and one output; a comment changes no id."""

from __future__ import annotations

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.edits import FRONT, check_edit, moved, put
from scenarios.support.linking import identities
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
LAUNCH = """
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""
DEFINED = "__device__ int counter = 4;\n{static}__global__ void hidden(int *x) {{ *x = counter; }}\n"
HIDDEN = "namespace {\n" + DEFINED.format(static="") + "}" + LAUNCH
EXTERNAL = "int first(int x) { return x + 1; }\n"
TEXTS = {
    "unnamed namespace": EXTERNAL + HIDDEN,
    "static": EXTERNAL + "static " + DEFINED.format(static="static ") + LAUNCH,
    "nothing external": HIDDEN,
}


@pytest.mark.by_default("unnamed namespace--c")
@pytest.mark.parametrize("options", [(), ("-rdc=true",)], ids=["-c", "-dc"])
@pytest.mark.parametrize("text", TEXTS)
def test_results_that_contain_the_module_id_are_not_shared_between_sources(
    workspace: Workspace, text: str, options: tuple[str, ...]
) -> None:
    """The id has the checksum of a link's target, and the name that was typed."""
    assert check_edit(workspace, moved(TEXTS[text]), options).compiled() == {}
    (workspace.directory / "link.cu").symlink_to("a.cu")
    put(workspace, {"b.cu": TEXTS[text]})
    for name in ("link.cu", "b.cu"):
        made = rebuild(workspace, "-c", name, *options)
        assert made.compiled().keys() >= {"cicc", "host_compile"}


# A unit, and the stages that run for another `-o`.
UNITS: dict[str, tuple[str, set[str]]] = {
    "only defines it": ("__global__ void kernel(int *x) { *x = 1; }\n", {"host_compile"}),
    "names hold it": (HIDDEN, FRONT | {"ptxas", "fatbinary", "host_compile"}),
}


@pytest.mark.parametrize("unit", UNITS)
def test_results_that_contain_the_module_id_are_not_shared_between_outputs(
    workspace: Workspace, unit: str
) -> None:
    """Both results are then found, under their own keys."""
    text, others = UNITS[unit]
    put(workspace, {"a.cu": text})
    made = {}
    for product, expected in (("a.o", {*FRONT, "ptxas", "fatbinary", "host_compile"}), ("b.o", others)):
        made[product] = rebuild(workspace, "-dc", "a.cu", product=product)
        assert set(made[product].compiled()) == expected
        workspace.forget_calls()
    for product, before in made.items():
        again = rebuild(workspace, "-dc", "a.cu", product=product)
        assert (again, again.compiled()) == (before, {})
        workspace.write(product, again[product])
    ids = [identities(workspace, product) for product in made]
    assert all(ids) == (unit == "names hold it") and ids[0].isdisjoint(ids[1])
