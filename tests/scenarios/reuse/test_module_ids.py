"""Module ids that each stage computes itself, before and after edits: nvcc's own, and linkable."""

from __future__ import annotations

import itertools

import pytest

from scenarios.support.both_ways import rebuild
from scenarios.support.edits import COMMENT, FRONT, check_edit, compile_once, moved, put
from scenarios.support.linking import INTERNAL, compile_cached, identities, link
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light_by_default
TWO = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90")
MODES = {"-c": (), "-dc": ("-rdc=true",)}
HIDDEN = """
namespace {
__device__ int counter = 4;
__global__ void hidden(int *x) { *x = counter; }
}
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""
STATIC = """
static __device__ int counter = 4;
static __global__ void hidden(int *x) { *x = counter; }
static void launch(int *x) { hidden<<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""
EXTERNAL = "int first(int x) { return x + 1; }\n"
# Passes that begin with different external definitions.
DEVICE, HOST = "__device__ int f() { return 1; }", "int g() { return 2; }"
UNLIKE = {
    "host and device": f"#ifdef __CUDA_ARCH__\n{DEVICE}\n#else\n{HOST}\n#endif\n",
    "host alone": f"#ifndef __CUDA_ARCH__\n{HOST}\n#endif\n",
    "device alone": f"#ifdef __CUDA_ARCH__\n{DEVICE}\n#endif\n",
    "one of two devices": f"#if __CUDA_ARCH__ >= 900\n{DEVICE}\n#endif\n",
}


@pytest.mark.by_default("one of two devices--dc")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", UNLIKE)
def test_passes_that_make_up_other_ids(workspace: Workspace, place: str, mode: str) -> None:
    """Stages then run as in nvcc, and the object equals nvcc's."""
    if "alone" in place and cuda_release(workspace) < (13, 0):
        pytest.skip("nvcc puts a process id into what has none in its own pass")
    text = UNLIKE[place] + EXTERNAL * ("alone" not in place) + HIDDEN
    argv = (*MODES[mode], *TWO)
    if place == "device alone":
        check_is_same_every_time(workspace, text, argv)
        return
    counters = check_edit(workspace, moved(text), argv)
    assert counters.compiled() == {}
    put(workspace, {"a.cu": text.replace("return 1", "return 3").replace("return 2", "return 4")})
    workspace.forget_calls()
    rebuild(workspace, "-c", "a.cu", *argv)


def check_is_same_every_time(workspace: Workspace, text: str, argv: tuple[str, ...]) -> None:
    """nvcc's id for the host's pass contains its process id; ours does not."""
    made = set()
    for above in ("", COMMENT):
        put(workspace, {"a.cu": above + text})
        made.add(compile_once(workspace, "-c", "a.cu", *argv))
    workspace.environ["NVCCACHE_DIR"] += "-fresh"
    made.add(compile_once(workspace, "-c", "a.cu", *argv))
    assert len(made) == 1


def test_a_source_by_its_own_name_and_by_that_of_a_link(workspace: Workspace) -> None:
    """The id has the checksum of the link's target, and the name that was typed."""
    put(workspace, {"a.cu": EXTERNAL + HIDDEN})
    (workspace.directory / "s.cu").symlink_to("a.cu")
    for name in ("a.cu", "s.cu", "./s.cu", "a.cu"):
        rebuild(workspace, "-c", name, "-arch=sm_80")


@pytest.mark.by_default("static--c")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", [HIDDEN, STATIC], ids=["unnamed namespace", "static"])
def test_internal_names_of_a_unit_with_an_external_definition(
    workspace: Workspace, text: str, mode: str
) -> None:
    """A comment changes no id; a source of another name has another, in all that contains it."""
    text = EXTERNAL + text
    assert check_edit(workspace, moved(text), MODES[mode]).compiled() == {}
    put(workspace, {"b.cu": text})
    made = rebuild(workspace, "-c", "b.cu", *MODES[mode], product="b.o")
    assert made.compiled().keys() >= {"cicc", "host_compile"}


@pytest.mark.by_default("renamed--c")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EXTERNAL, "int zeroth(int x) { return x; }\n" + EXTERNAL),
        ("int zeroth(int x) { return x; }\n" + EXTERNAL, EXTERNAL),
        (EXTERNAL, EXTERNAL.replace("first", "renamed")),
        ("", EXTERNAL),
    ],
    ids=["put before", "taken away", "renamed", "the first of all"],
)
def test_the_first_external_definition_changes(
    workspace: Workspace, before: str, after: str, mode: str
) -> None:
    """Every internal name changes with it, in all stages."""
    edit = ({"a.cu": before + HIDDEN}, {"a.cu": COMMENT + after + HIDDEN})
    assert check_edit(workspace, edit, MODES[mode]).compiled().keys() >= FRONT


@pytest.mark.by_default("-dc")
@pytest.mark.parametrize("mode", MODES)
def test_units_without_external_definition_before_and_after_a_comment(
    workspace: Workspace, mode: str
) -> None:
    """The same source under two names, one of them compiled from moved text."""
    put(workspace, {"a.cu": INTERNAL})
    compile_cached(workspace, mode, "a.cu", "-o", "first.o")
    put(workspace, {"a.cu": COMMENT + INTERNAL})
    _, counters = workspace.since(lambda: workspace.cached(mode, "a.cu", "-o", "first.o", *HOST_OPTIONS))
    assert counters.compiled() == {}
    compile_cached(workspace, mode, "a.cu", "-o", "second.o")
    put(workspace, {"b.cu": COMMENT + INTERNAL})
    compile_cached(workspace, mode, "b.cu", "-o", "third.o")
    link(workspace, ["first.o", "second.o", "third.o"], (mode,))
    before = identities(workspace, "second.o")
    workspace.environ["NVCCACHE_DIR"] += "-fresh"
    compile_cached(workspace, mode, "a.cu", "-o", "second.o")
    assert identities(workspace, "second.o") == before


@pytest.mark.by_default("moved")
@pytest.mark.parametrize("state", ["cold", "moved"])
def test_relocatable_objects_that_need_each_other(workspace: Workspace, state: str) -> None:
    """One calls a device function of the other; both have internal names; one is compiled from moved text."""
    texts = {
        "one.cu": "extern __device__ int shared(int);\n"
        + "__global__ void user(int *x) { *x = shared(*x); }\n"
        + INTERNAL,
        "two.cu": "__device__ int shared(int x) { return 2 * x; }\n" + INTERNAL,
    }
    put(workspace, texts)
    for name in texts:
        compile_cached(workspace, "-dc", name, "-o", name.replace(".cu", ".o"))
    if state == "moved":
        put(workspace, {"two.cu": COMMENT + texts["two.cu"]})
        workspace.forget_calls()
        made = rebuild(workspace, "-dc", "two.cu", product="two.o")
        assert made.compiled() == {}
        compile_cached(workspace, "-dc", "two.cu", "-o", "two.o")
    link(workspace, ["one.o", "two.o"], ("-dc",))


_AFTER_CICC = {"ptxas", "fatbinary", "host_compile"}
# A unit, and the stages that run for another `-o` or in another directory.
UNITS: dict[str, tuple[str, set[str]]] = {
    "only defines it": ("__global__ void kernel(int *x) { *x = 1; }\n", {"host_compile"}),
    "external": (EXTERNAL + HIDDEN, FRONT | _AFTER_CICC),
    "internal": (HIDDEN, FRONT | _AFTER_CICC),
}


@pytest.mark.by_default("only defines it", "internal")
@pytest.mark.parametrize("unit", UNITS)
def test_a_result_that_contains_its_id_is_for_one_output(workspace: Workspace, unit: str) -> None:
    """After each further result the earlier ones are still found, under their own keys."""
    text, others = UNITS[unit]
    top = workspace.directory
    made = {}
    for name, product, expected in (
        ("one", "a.o", {*FRONT, *_AFTER_CICC}),
        ("one", "b.o", others),
        ("two", "a.o", others),
    ):
        workspace.directory = top / name
        put(workspace, {"a.cu": text})
        line = ("-dc", "a.cu")
        counters = _compiled(workspace, *line, "-o", product)
        assert set(counters.compiled()) == expected, (name, product)
        made[name, product] = (workspace.directory / product).read_bytes()
        rebuild(workspace, *line, product=product)
        workspace.forget_calls()
    for (name, product), content in made.items():
        workspace.directory = top / name
        assert _compiled(workspace, "-dc", "a.cu", "-o", product).compiled() == {}
        assert (workspace.directory / product).read_bytes() == content
    workspace.directory = top
    ids = [identities(workspace, f"{name}/{product}") for name, product in made]
    assert all(ids) == (unit != "only defines it")
    assert not any(one & other for one, other in itertools.combinations(ids, 2))
    if unit == "internal":
        link(workspace, ["one/a.o", "one/b.o", "two/a.o"], ("-dc",))


def _compiled(workspace: Workspace, *argv: str) -> Counters:
    result, counters = workspace.since(lambda: workspace.cached(*argv, *HOST_OPTIONS))
    assert result.status == 0, result.stderr
    workspace.forget_calls()
    return counters
