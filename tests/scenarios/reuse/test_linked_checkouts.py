"""Objects from two checkouts below a base directory can be linked where plain nvcc's can.

The way to the source from the working directory is the same in both, and so are their module ids if their
texts are equal, too (module_id.py). Then no link takes both, or they define nothing twice.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.support.both_ways import Made, both_ways
from scenarios.support.linking import TWO
from scenarios.support.toolkits import HOST_OPTIONS, toolkit_of
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

# The first external definition has one name for nvcc in both, and two for the linker.
_FIRST = """
#include "name.h"
#define STRING(x) #x
#define LABEL(x) STRING(first_##x)
#define NAMED(x) LABEL(x)
extern "C" int first() __asm__(NAMED(NAME));
int first() { return 1; }
"""
_INTERNAL = """
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
static __device__ int state = 4;
static __global__ void kernel(int *x) { *x = state; }
static void launch(int *x) { hidden<<<1, 1>>>(x); kernel<<<1, 1>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
"""
_NAMED = "int NAME(int *x) { launch(x); return first(); }\n"
_EXTERNAL = """
__global__ void kernel(int *x) { *x = 5; }
int call(int *x) { kernel<<<1, 1>>>(x); return 0; }
"""
_PROGRAM = "int one(int *); int two(int *);\nint main() { return one(nullptr) + two(nullptr); }\n"
CHECKOUTS = ("one", "two")
MODES = [("-c",), ("-dc",)]


def check_out(workspace: Workspace, source: str, name: str = "") -> None:
    for checkout in CHECKOUTS:
        workspace.write(f"b/{checkout}/src/a.cu", source)
        workspace.write(f"b/{checkout}/inc/name.h", f"#define NAME {name or checkout}\n")
    workspace.environ["NVCCACHE_BASE_DIR"] = str(workspace.directory / "b")


def compile_in(workspace: Workspace, checkout: str, *options: str) -> Made:
    """Compile in a folder of the checkout, as plain nvcc does there."""
    here = workspace.directory / "b" / checkout
    (here / "build").mkdir(exist_ok=True)
    argv = ("../src/a.cu", "-I../inc", *options, "-o", "a.o")
    return both_ways(workspace, *argv, cwd=here / "build")


@pytest.mark.by_default("-c")
@pytest.mark.parametrize("mode", MODES, ids=" ".join)
def test_the_same_unit_of_both(workspace: Workspace, mode: tuple[str, ...]) -> None:
    """The second is answered by the record of the first, and by its stages."""
    check_out(workspace, _FIRST + _INTERNAL, "same")
    outcomes = [compile_in(workspace, checkout, *mode).outcome for checkout in (*CHECKOUTS, *CHECKOUTS)]
    assert outcomes == ["miss", "direct_hit", "direct_hit", "direct_hit"]
    workspace.forget_calls()
    for checkout in reversed(CHECKOUTS):
        assert compile_in(workspace, checkout, *mode).compiled() == {}


_FUNCTION = "int start_here() { return 1; }\n"
# The beginning of a unit, and whether the linker distinguishes two such units by it.
FIRST_DEFINITIONS = {
    "a function": (_FUNCTION, True),
    "a variable of device code": ("__device__ int variable = 3;\n", False),
    "another name for the linker": ('int named() __asm__("other");\nint named() { return 1; }\n', False),
    "nothing": ("", False),
}


def compile_shared(workspace: Workspace, checkout: str, *options: str) -> tuple[str, bytes]:
    """The outcome, and the object."""
    here = workspace.directory / "b" / checkout / "build"
    here.mkdir(exist_ok=True)
    argv = ("-c", f"{here.parent}/src/a.cu", "-I../inc", "-arch=sm_80", "--no-compress", *options)
    ours = both_ways(workspace, *argv, "-o", "a.o", cwd=here)
    return ours.outcome, ours[f"b/{checkout}/build/a.o"]


@pytest.mark.by_default("a variable of device code")
@pytest.mark.parametrize("begins_with", list(FIRST_DEFINITIONS)[:-1])
def test_a_unit_with_an_id_is_shared(workspace: Workspace, toolkit: Path, begins_with: str) -> None:
    first, _ = FIRST_DEFINITIONS[begins_with]
    check_out(workspace, '#include "name.h"\n' + first + _INTERNAL + _NAMED.replace("first()", "1"), "same")
    _, one = compile_shared(workspace, "one")
    outcome, two = compile_shared(workspace, "two")
    assert (outcome, one) == ("direct_hit", two)
    for checkout in CHECKOUTS:
        assert compile_shared(workspace, checkout)[0] == "direct_hit"


@pytest.mark.by_default("a variable of device code")
@pytest.mark.parametrize("begins_with", list(FIRST_DEFINITIONS))
def test_what_plain_nvcc_can_link_can_be_linked(
    workspace: Workspace, tmp_path: Path, begins_with: str
) -> None:
    """If both define what they begin with, its name differs in one; all other names are the same in both."""
    first, is_distinguished = FIRST_DEFINITIONS[begins_with]
    check_out(
        workspace,
        '#include "name.h"\n' + first.replace("other", "@") + _INTERNAL + _NAMED.replace("first()", "1"),
    )
    for checkout in CHECKOUTS:
        source = workspace.directory / "b" / checkout / "src/a.cu"
        own = source.read_text().replace("@", checkout)
        if is_distinguished:
            own = re.sub(r"(start_here|external|one\()", rf"{checkout[:1]}\1", own)
        source.write_text(own)
        _, made = compile_shared(workspace, checkout)
        workspace.write(f"{checkout}.o", made)
    workspace.write("main.cu", _PROGRAM)
    libraries = [f"-L{toolkit_of(workspace)}/{name}" for name in ("lib64", "lib")]
    linked = workspace.plain("main.cu", "one.o", "two.o", "-o", "program", *libraries, *HOST_OPTIONS)
    assert linked.status == 0, linked.stderr


@pytest.mark.by_default("separate")
@pytest.mark.parametrize("options", [(), ("-rdc=true",)], ids=["whole program", "separate"])
def test_a_unit_without_an_id_in_names_is_shared(
    workspace: Workspace, toolkit: Path, options: tuple[str, ...]
) -> None:
    check_out(workspace, _EXTERNAL)
    compile_in(workspace, "one", "-c", *TWO, *options)
    assert compile_in(workspace, "two", "-c", *TWO, *options).outcome == "direct_hit"


def test_another_checkout_of_a_changed_unit_shares_its_device_code(
    workspace: Workspace, toolkit: Path
) -> None:
    """An edit of host code in one of them, with device code that names nothing internal."""
    check_out(workspace, _EXTERNAL)
    compile_in(workspace, "one", "-c", *TWO)
    workspace.write("b/two/src/a.cu", _EXTERNAL.replace("return 0", "return 6"))
    assert not {"ptxas", "fatbinary"} & compile_in(workspace, "two", "-c", *TWO).ran().keys()
