"""An unknown CUDA release, with a transcript unlike any known one.

A toolkit of links has an nvcc that alters the transcript of the real one, and runs the altered one
(other_nvcc.py). In each case nvccache makes what that nvcc makes itself: cold, warm, and after an
edit of device and host code.

Some of the cases run by default, all of them with --every-case.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.same_result import other_nvcc
from scenarios.same_result.other_nvcc import TOOLS
from scenarios.support.both_ways import by_cache, by_plain
from scenarios.support.toolkits import BIN, light_toolkit, replace
from workspaces import Counters, Workspace

pytestmark = pytest.mark.light_by_default

SOURCE = """
#ifdef __CUDA_ARCH__
#define VALUE DEVICE
#else
#define VALUE 0
#endif
__global__ void kernel(float *v) { v[threadIdx.x] = v[threadIdx.x] * VALUE / 3.5f; }
int launch(float *v) { int unused; kernel<<<1, 32>>>(v); return HOST; }
"""
STATES = ((1, 1), (1, 1), (2, 2))  # of device and host code, one compile after the other
# What becomes of the second compile; a stage hit unless listed here.
WARM = {
    "all tools renamed": "miss",
    "an argument that names a file": "partial_hit",  # which may be read or written
    "an argument that names an intermediate": "unexplained",
    "a stage that reads what nobody reads": "unexplained",
    "a stage that fails": "failed",
    "a stage that is not there": "missing_program",
    "a variable between commands": "missing_program",
    "an unknown kind of line": "missing_program",
    "two commands in a line": "shell_expansion",
    "a redirection": "shell_expansion",
    "messages between commands": "unexplained",
}
# Of test_unknown_transcripts.py those that are carried out, too.
COMPILED = (
    *("nothing", "arguments", "an argument that names a file", "an argument that names an intermediate"),
    *("names", "all tools renamed", "a stage behind cicc", "a stage on text"),
    *("a stage that reads what nobody reads", "a stage that works on the product", "a stage that talks"),
    *("a stage that fails", "a stage that is not there", "a variable", "a variable between commands"),
    *("an unknown kind of line", "two commands in a line", "a redirection", "messages between commands"),
    "a version",
)
# Tools that no known release has; `$1` is the first file.
PROGRAMS = {
    "nvopt": 'sed "s/^\\.version/\\/\\/ optimised\\n.version/" "$1" >"$1.tmp" && mv "$1.tmp" "${2:-$1}"',
    "nvtext": 'sed "s/return 1;/return 11;/" "$1" >"$1.tmp" && mv "$1.tmp" "$1"',
    "nvsign": 'echo optimised >>"$1"',
    "nvpeek": 'wc -c <"$1" >&2',
    "nvtalk": "echo said on stdout; echo said on stderr >&2",
    "nvfail": "echo nvfail: no such luck >&2; exit 3",
}
# All tools accept the options of these releases; ptxas reads a variable, too.
TOOL = """#!/bin/sh
for word do
  shift
  case $word in --new-report=*) echo 7 >"${{word#*=}}" ;; --new-*) ;; *) set -- "$@" "$word" ;; esac
done
{before}
exec "{real}" "$@"
"""
OWN_OPTIONS = {"ptxas": 'set -- "$@" $NEW_MODE'}


def other_release(workspace: Workspace, directory: Path, alteration: str) -> Path:
    """A toolkit whose nvcc is altered; makes the workspace use it."""
    toolkit = light_toolkit(workspace, directory / "toolkit")
    (toolkit / "bin/real-nvcc").symlink_to((toolkit / "bin/nvcc").resolve())
    program = (sys.executable, "-I", other_nvcc.__file__, f"{toolkit}/bin/real-nvcc", alteration)
    compile_launcher(toolkit / "bin/nvcc", program)
    for name, text in PROGRAMS.items():
        replace(toolkit / "bin" / name, f"#!/bin/sh\n{text}\n")
    for name in TOOLS:
        path = toolkit / BIN[name]
        real = path.resolve()
        replace(path, TOOL.format(real=real, before=OWN_OPTIONS.get(name, "")))
        path.with_name(name.rstrip("+") + "-next").symlink_to(path)
    return toolkit


def compile_launcher(path: Path, argv: Sequence[str]) -> None:
    """Put a compiled program there that becomes another: a script that does so would be no nvcc."""
    words = "".join(f"{json.dumps(word)}, " for word in argv)
    text = f"""#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {{
  char *all[4096] = {{{words}}};
  memcpy(all + {len(argv)}, argv + 1, argc * sizeof *argv);
  execv(all[0], all);
  return 99;
}}
"""
    path.unlink()
    subprocess.run(["gcc", "-x", "c", "-", "-o", path], input=text.encode(), check=True)


def compile_both(workspace: Workspace, *argv: str, **variables: str) -> Counters:
    """By the other nvcc and through the cache: everything is the same."""
    line = ("-c", "a.cu", "-o", "a.o", "-arch=sm_80", *argv)
    plain = by_plain(workspace, *line, **variables)
    found = by_cache(workspace, *line, **variables)
    texts = [re.sub(rb"/tmp/other-\w+", b"", made.stderr) for made in (plain, found)]  # its own directories
    assert texts[0] == texts[1]
    assert dataclasses.replace(found, stderr=b"") == dataclasses.replace(plain, stderr=b"")
    assert found.counters and not found.counters.calls["fault"]
    return found.counters


@pytest.mark.by_default("an unknown kind of line")
@pytest.mark.parametrize("alteration", COMPILED)
def test_an_unknown_toolkit_release_gives_the_result_of_its_own_nvcc(
    workspace: Workspace, tmp_path: Path, alteration: str
) -> None:
    """When all is as it was its own tools change, as in an update."""
    toolkit = other_release(workspace, tmp_path, alteration)
    own = tmp_path / "temporary"
    own.mkdir()
    outcomes = []
    for device, host in STATES:
        workspace.write("a.cu", SOURCE.replace("DEVICE", f"{device}.5f").replace("HOST", str(host)))
        counters = compile_both(workspace, OTHER_TEMPORARY=str(own))
        outcomes.append(next(iter(counters.bypass_reasons), counters.outcome))
    expected = WARM.get(alteration, "stage_hit")
    assert outcomes[1] == expected, outcomes
    for name, text in PROGRAMS.items():
        updated = text.replace("optimised", "optimised again").replace("return 11", "return 12")
        replace(toolkit / "bin" / name, f"#!/bin/sh\n{updated}\n")
    compile_both(workspace, OTHER_TEMPORARY=str(own), OTHER_MODE="-O0")
    assert not list(own.iterdir())


def test_a_cudafe_without_random_seed_option_gives_the_result_of_nvcc(
    workspace: Workspace, tmp_path: Path
) -> None:
    """nvcc itself does not give the option."""
    toolkit = other_release(workspace, tmp_path, "nothing")
    real = (toolkit / "bin/cudafe++").read_text()
    knows = 'case "$*" in *--frandom-seed*) echo "invalid option: --frandom-seed" >&2; exit 4 ;; esac\n'
    replace(toolkit / "bin/cudafe++", real.replace("#!/bin/sh\n", f"#!/bin/sh\n{knows}"))
    workspace.write("a.cu", SOURCE.replace("DEVICE", "2.5f").replace("HOST", "1"))
    for _ in ("cold", "warm"):
        compile_both(workspace)
