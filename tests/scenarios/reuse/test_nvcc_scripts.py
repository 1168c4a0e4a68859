"""An nvcc that is a script: it runs each time, and the compile that it starts is answered from the cache."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.observed_wrappers import script
from workspaces import Workspace

SOURCE = """#if __has_include(<site.h>)
#include <site.h>
#endif
#ifndef VALUE
#define VALUE 0
#endif
#define NAME_OF(value) value_##value
#define NAME(value) NAME_OF(value)
__global__ void NAME(VALUE)(int *x) { *x = 1; }
"""
BAD = SOURCE + "int a = b;\n"
LINE = ("-arch=sm_75", "-ptx", "a.cu", "-o", "a.ptx")
REUSED = ({"miss": 1}, {"direct_hit": 1})
LEFT_ALONE = ({"bypass": 1}, {"bypass": 1})
NOT_COUNTED: tuple[dict[str, int], dict[str, int]] = ({}, {})


@dataclasses.dataclass(frozen=True)
class Script:
    """In its text `{nvcc}` is the real nvcc, `{folder}` its directory, and `{work}` the test's."""

    text: str
    first: str = "#!/bin/sh"
    value: bytes = b"value_0"
    outcomes: tuple[dict[str, int], dict[str, int]] = REUSED


SCRIPTS = {
    "exec": Script('exec "{nvcc}" "$@"'),
    "bash that waits and says something": Script(
        '"{nvcc}" "$@"; status=$?; echo "it ended with $status" >&2; exit $status', "#!/bin/bash"
    ),
    "Python that waits": Script(
        "import subprocess, sys\nsys.exit(subprocess.run(['{nvcc}', *sys.argv[1:]]).returncode)", "#!{python}"
    ),
    "another script": Script('exec "{work}/inner/nvcc" -DVALUE=1 "$@"', value=b"value_1"),
    "variables": Script('CPATH="{work}/site" exec "{nvcc}" "$@"', value=b"value_2"),
    "another directory": Script('cd "{work}/elsewhere"; exec "{nvcc}" "$@"', value=b"value_3"),
    "a name on PATH": Script('PATH="{folder}:$PATH" exec nvcc "$@"'),
    # By which plain nvcc has filled the cache.
    "nvccache itself, by its name": Script(
        'PATH="{work}/masquerade:{folder}:$PATH" exec nvcc "$@"', outcomes=({"direct_hit": 1},) * 2
    ),
    "two scripts that find each other": Script(
        'PATH="{work}/masquerade:{work}/bin:{work}/second:{folder}:$PATH" exec nvcc "$@"',
        outcomes=({"direct_hit": 1},) * 2,
    ),
    # nvcc would look for its toolkit by this name.
    "another argv[0]": Script(
        'exec -a "{work}/a.cu" "{nvcc}" "$@"', "#!/bin/bash", b"No such file", NOT_COUNTED
    ),
    "it reads LD_PRELOAD": Script(
        'test -z "$LD_PRELOAD" || set -- -DVALUE=5 "$@"\nexec "{nvcc}" "$@"', outcomes=LEFT_ALONE
    ),
    "a shell by env": Script('exec "{nvcc}" "$@"', "#! /usr/bin/env bash"),
    "a shell that is linked statically": Script(
        'exec "{nvcc}" "$@"', "#!{work}/static", outcomes=LEFT_ALONE
    ),
    "such a shell by env": Script('exec "{nvcc}" "$@"', "#!/usr/bin/env {work}/static", outcomes=LEFT_ALONE),
}  # fmt: skip


def use(workspace: Workspace, which: Script) -> None:
    """Make a script nvcc, with all that the scripts above need."""
    real, work = workspace.nvcc, str(workspace.directory)
    workspace.write("site/site.h", "#define VALUE 2\n")
    workspace.write("elsewhere/a.cu", SOURCE.replace("VALUE 0", "VALUE 3"))
    script(f'exec "{real}" "$@"', "inner/nvcc")(workspace)
    script('exec nvcc "$@"', "second/nvcc")(workspace)
    (workspace.directory / "masquerade").mkdir()
    (workspace.directory / "masquerade/nvcc").symlink_to(launcher_of_tree())
    text = which.text.format(nvcc=real, folder=Path(real).parent, work=work)
    script(text, "bin/nvcc", which.first.replace("{work}", work))(workspace)
    if "static" in which.first:
        program = '#include <unistd.h>\nint main(int n, char **v) { (void)n; return execv("/bin/sh", v); }\n'
        workspace.write("static.c", program)
        argv = ["cc", "-static", "-o", f"{work}/static", f"{work}/static.c"]
        if subprocess.run(argv, check=False, capture_output=True).returncode:
            pytest.skip("nothing static can be linked here")
    workspace.nvcc = f"{work}/bin/nvcc"


def compiled(workspace: Workspace, *, cached: bool) -> tuple[object, dict[str, int]]:
    """What a compile shows of itself, and the outcomes that were counted."""
    products = [workspace.directory / "a.ptx", workspace.directory / "elsewhere/a.ptx"]
    for path in products:
        path.unlink(missing_ok=True)
    run = workspace.cached if cached else workspace.plain
    result, counters = workspace.since(lambda: run(*LINE))
    made = [
        (path.stat().st_mode, re.findall(rb"value_\d", path.read_bytes())) if path.exists() else None
        for path in products
    ]
    return (result, made), {name: count for name, count in counters.calls.items() if count}


@pytest.mark.by_default(
    "bash that waits and says something",
    "another script",
    "another directory",
    "a name on PATH",
    "nvccache itself, by its name",
    "two scripts that find each other",
    "another argv[0]",
    "a shell that is linked statically",
)
@pytest.mark.parametrize("which", SCRIPTS)
def test_an_nvcc_script_gives_its_own_result_and_hits_where_it_can_be_observed(
    workspace: Workspace, which: str
) -> None:
    use(workspace, SCRIPTS[which])
    source = workspace.write("a.cu", SOURCE)
    expected, _ = compiled(workspace, cached=False)
    assert SCRIPTS[which].value in str(expected).encode()
    for outcome in SCRIPTS[which].outcomes:
        assert compiled(workspace, cached=True) == (expected, outcome)
    source.write_text(BAD)
    (workspace.directory / "elsewhere/a.cu").write_text(BAD)
    expected, _ = compiled(workspace, cached=False)
    shown, counts = compiled(workspace, cached=True)
    assert (shown, bool(counts)) == (expected, bool(SCRIPTS[which].outcomes[1]))


@pytest.mark.parametrize("which", ["a script", "a compiled nvcc"])
def test_a_call_within_another_call_runs_nvcc_and_counts_nothing(workspace: Workspace, which: str) -> None:
    if which == "a script":
        use(workspace, SCRIPTS["exec"])
    workspace.write("a.cu", SOURCE)
    workspace.environ["_NVCCACHE_TRIED"] = "/other/nvcc"
    assert compiled(workspace, cached=True) == compiled(workspace, cached=False)


@pytest.mark.parametrize(("name", "disabled", "status"), [("nvcc", "", 9), ("nvcc", "1", 0), ("gcc", "", 0)])
def test_nothing_is_preloaded_into_a_script_if_disabled_or_another_compiler(
    workspace: Workspace, name: str, disabled: str, status: int
) -> None:
    script("grep -qz redirect.so /proc/self/environ && exit 9; exit 0", f"bin/{name}")(workspace)
    workspace.nvcc = f"{workspace.directory}/bin/{name}"
    workspace.environ["NVCCACHE_DISABLE"] = disabled
    assert workspace.cached("-c", "a.cu").status == status


def test_an_nvcc_script_on_path_is_found_through_the_shim(workspace: Workspace) -> None:
    use(workspace, SCRIPTS["another script"])
    workspace.write("a.cu", SOURCE)
    work = workspace.directory
    path = f"{work}/masquerade:{work}/bin:{workspace.environ['PATH']}"
    for outcome in ("miss", "direct_hit"):
        _, counters = workspace.since(lambda: workspace.run(["nvcc", *LINE], PATH=path))
        assert (counters.outcome, b"value_1" in (work / "a.ptx").read_bytes()) == (outcome, True)


# A compiled nvcc that shows what it is given.
SHOWING = r"""
#include <stdio.h>
#include <string.h>
extern char **environ;
int main(int argc, char **argv)
{
    for (int index = 0; index < argc; index++)
        printf("%s\n", argv[index]);
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, "_NVCCACHE_TRIED=", 16) && strncmp(*entry, "_=", 2))
            printf("%s\n", *entry);
    return 0;
}
"""


@pytest.mark.parametrize("library", [None, "", "libm.so.6"])
def test_nvcc_gets_the_environment_of_its_caller(workspace: Workspace, library: str | None) -> None:
    """`--dryrun` is left to nvcc."""
    workspace.write("cuda/nvcc.c", SHOWING)
    workspace.nvcc = f"{workspace.directory}/cuda/nvcc"
    subprocess.run(["cc", "-o", workspace.nvcc, f"{workspace.nvcc}.c"], check=True)
    use(workspace, SCRIPTS["exec"])
    if library is not None:
        workspace.environ["LD_PRELOAD"] = library
    plain, cached = (run("--dryrun", "a.cu") for run in (workspace.plain, workspace.cached))
    assert sorted(cached.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert (cached.status, cached.stderr) == (0, b"")
