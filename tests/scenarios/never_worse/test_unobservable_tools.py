"""A host compiler linked with gcc's AddressSanitizer, which wants to be first; with musl it fails alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import CCBIN, SOURCE
from workspaces import Workspace

COMPILER = CCBIN or "/usr/bin/g++"
PROGRAM = '#include <unistd.h>\nint main(int n, char **words) { return execv(words[0] = "%s", words); }\n'
WRAPPERS = {
    "always": '#!/bin/sh\nexec {refusing} "$@"\n',
    "in the host compile": """#!/bin/sh
case "$*" in *" -c "*) exec {refusing} "$@" ;; esac
exec {compiler} "$@"
""",
}


@pytest.mark.parametrize("when", WRAPPERS)
def test_a_host_compiler_that_refuses_to_be_observed(workspace: Workspace, tmp_path: Path, when: str) -> None:
    refusing, wrapper = tmp_path / "refusing", workspace.directory / "g++"
    refusing.with_suffix(".c").write_text(PROGRAM % COMPILER)
    build = ["gcc", "-fsanitize=address", "-o", refusing, refusing.with_suffix(".c")]
    if subprocess.run(build, check=False, capture_output=True).returncode:
        pytest.skip("no AddressSanitizer")
    workspace.write("g++", WRAPPERS[when].format(refusing=refusing, compiler=COMPILER)).chmod(0o755)
    workspace.write("a.cu", SOURCE)
    for _ in range(2):
        made = both_ways(workspace, "-ccbin", wrapper, "-c", "a.cu", "-o", "a.o")
        assert made.status == 0
        assert made.outcome in (("miss", "partial_hit") if when == "always" else ("bypass",))
    if when == "always":
        done = workspace.run([launcher_of_tree(), "explain", "a.o"])
        assert b"a program that nvcc starts fails when it is observed" in done.stdout, done.stdout
    assert both_ways(workspace, "-ccbin", wrapper, "-E", "a.cu").status == 0
    workspace.write("a.cu", "#error none\n")
    assert both_ways(workspace, "-ccbin", wrapper, "-c", "a.cu", "-o", "a.o").status != 0
