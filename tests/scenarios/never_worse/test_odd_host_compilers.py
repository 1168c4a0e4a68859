"""Host compilers that start a server, that refuse to be observed, and the environment that all tools get."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import installations
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import CCBIN, SOURCE
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
# A shell adds its own variables, but the kernel shows the ones that it was started with.
RECORDER = "#!/bin/sh\ncat /proc/$$/environ >{records}/$$\n"
# Documented: docs/explanation/how-it-works.md
OWN_VARIABLES = ("_NVCCACHE_TRIED=", "_NVCCACHE_SCRATCH=")
# Python changes LC_CTYPE where no locale is set.
LOCALES = [{}, {"LC_ALL": "", "LC_CTYPE": "POSIX", "LANG": "C"}]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


@pytest.fixture
def recorder(tmp_path: Path, records: Path) -> Path:
    """A directory with an `nvcc` that records its environment and does nothing else."""
    folder = tmp_path / "stand-ins"
    folder.mkdir()
    (folder / "nvcc").write_text(RECORDER.format(records=records))
    (folder / "nvcc").chmod(0o755)
    return folder


def masked(launcher: Path, folder: Path, is_damaged: bool) -> str:
    """An `nvcc` that is nvccache, perhaps one whose launcher has lost its package."""
    if is_damaged:
        shutil.copytree(launcher.parents[1], folder / "damaged", symlinks=True)
        shutil.rmtree(installations.site_packages(folder / "damaged") / "nvccache")
        launcher = folder / "damaged" / "bin" / "nvccache"
    (folder / "mask").mkdir()
    (folder / "mask" / "nvcc").symlink_to(launcher)
    return str(folder / "mask" / "nvcc")


@pytest.mark.parametrize("role", ["a query", "bypass", "fault", "damaged"])
def test_nvcc_gets_the_environment_of_the_caller_in_the_same_order(
    role, launcher, recorder, records, workspace, tmp_path
):
    given = {"NVCCACHE_DIR": str(workspace.cache), "PATH": f"{recorder}:/usr/bin:/bin"}
    if role == "fault":
        workspace.write("broken/blake3.py", "raise ImportError\n")
        given["PYTHONPATH"] = str(workspace.directory / "broken")
    mask = masked(launcher, tmp_path, is_damaged=role == "damaged")
    argv = {
        "a query": [launcher, recorder / "nvcc", "--dryrun"],
        "bypass": [launcher, recorder / "nvcc", "-v", "-c", "a.cu"],
        "fault": [sys.executable, "-m", "nvccache", recorder / "nvcc", "-c", "a.cu"],
        "damaged": [mask, "-c", "a.cu"],
    }[role]
    for locale in LOCALES:
        environ = {**given, **locale, "LAST": "é\udce9"}
        done = subprocess.run(argv, cwd=workspace.directory, env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        (record,) = records.iterdir()
        assert entries_in(record) == [f"{name}={value}" for name, value in environ.items()], locale
        record.unlink()


def entries_in(record: Path) -> list[str]:
    entries = os.fsdecode(record.read_bytes()).split("\0")[:-1]
    entries = [entry for entry in entries if not entry.startswith(OWN_VARIABLES)]
    return [entry for entry in entries if not entry.endswith("/nvccache-redirect.so")]  # in scripts alone


def test_tools_get_the_locale_of_the_caller_and_messages_of_another_are_not_reused(
    workspace: Workspace, records: Path
) -> None:
    """The host compiler of every stage, and gcc's quotation marks, which differ in UTF-8."""
    compiler = workspace.write("g++", f'{RECORDER.format(records=records)}exec /usr/bin/g++ "$@"\n')
    compiler.chmod(0o755)
    workspace.write("a.cu", "__global__ void k() {}\nint f(int unused) { return 0; }\n")
    argv = ["-ccbin", compiler, "-Xcompiler", "-Wall,-Wextra", "-c", "a.cu", "-o", "a.o"]
    workspace.environ = {
        "NVCCACHE_DIR": str(workspace.cache),
        "PATH": f"{Path(workspace.nvcc).parent}:/usr/bin:/bin",
        "PWD": str(workspace.directory),  # which nvcc's shell would add
        "LANG": "C",
    }
    results, seen = [], []
    for compile_ in (workspace.plain, workspace.cached, workspace.cached):
        results.append(compile_(*argv))
        seen.append({tuple(sorted(entries_in(record))) for record in records.iterdir()})
        for record in records.iterdir():
            record.unlink()
    assert b"parameter 'unused'" in results[0].stderr
    assert results[1] == results[2] == results[0]
    assert {without_observer(entries) for entries in seen[1]} == {frozenset(one) for one in seen[0]}
    in_utf8 = workspace.cached(*argv, LC_CTYPE="C.UTF-8")  # nothing that was stored without it
    assert "parameter \u2018unused\u2019".encode() in in_utf8.stderr
    assert in_utf8 == workspace.plain(*argv, LC_CTYPE="C.UTF-8")


def without_observer(entries: tuple[str, ...]) -> frozenset[str]:
    """All but the variable that makes tools observable: docs/explanation/how-it-works.md."""
    observers = [entry for entry in entries if entry.startswith("LD_PRELOAD=")]
    assert [entry[-12:] for entry in observers] in ([], ["/observer.so"])  # none for a script that sees it
    return frozenset(entries) - {*observers}


COMPILER = CCBIN or "/usr/bin/g++"
PROGRAM = '#include <unistd.h>\nint main(int n, char **words) { return execv(words[0] = "%s", words); }\n'


def test_a_host_compiler_that_fails_under_observation_compiles_as_under_nvcc(
    workspace: Workspace, tmp_path: Path
) -> None:
    refusing, wrapper = tmp_path / "refusing", workspace.directory / "g++"
    refusing.with_suffix(".c").write_text(PROGRAM % COMPILER)
    build = ["gcc", "-fsanitize=address", "-o", refusing, refusing.with_suffix(".c")]
    if subprocess.run(build, check=False, capture_output=True).returncode:
        pytest.skip("no AddressSanitizer")
    workspace.write("g++", f'#!/bin/sh\nexec {refusing} "$@"\n').chmod(0o755)
    workspace.write("a.cu", SOURCE)
    made = both_ways(workspace, "-ccbin", wrapper, "-c", "a.cu", "-o", "a.o")
    assert made.status == 0 and made.outcome == "bypass"
    workspace.write("a.cu", "#error none\n")
    assert both_ways(workspace, "-ccbin", wrapper, "-c", "a.cu", "-o", "a.o").status != 0
