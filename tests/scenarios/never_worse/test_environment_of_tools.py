"""All programs that nvccache starts get nvccache's own environment, in each of its roles.

Without a locale Python sets LC_CTYPE for itself and its children, also when it runs isolated.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import installations
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

# A shell adds its own variables, but the kernel shows the ones that it was started with.
RECORDER = "#!/bin/sh\ncat /proc/$$/environ >{records}/$$\n"
# Documented: docs/explanation/how-it-works.md
OWN_VARIABLES = ("_NVCCACHE_TRIED=", "_NVCCACHE_SCRATCH=")
LOCALES = [
    {},
    {"LANG": "C"},
    {"LC_CTYPE": "C"},
    {"LC_CTYPE": "C.UTF-8"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "", "LC_CTYPE": "POSIX", "LANG": "C"},
]
ROLES = (
    "launcher",
    "python -m",
    "python -I -m",
    "shim",
    "off",
    "bypass",
    "fault",
    "damaged",
    "passed through",
)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


@pytest.fixture
def recorder(tmp_path: Path, records: Path) -> Path:
    """A directory with an `nvcc` and a `g++` that record their environment and do nothing else."""
    folder = tmp_path / "stand-ins"
    folder.mkdir()
    for name in ("nvcc", "g++"):
        (folder / name).write_text(RECORDER.format(records=records))
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def masks(launcher: Path, tmp_path: Path) -> Path:
    """Directories with an `nvcc` that is nvccache: a shim, and one whose launcher has lost its package."""
    damaged = tmp_path / "damaged"
    shutil.copytree(launcher.parents[1], damaged, symlinks=True)
    shutil.rmtree(installations.site_packages(damaged) / "nvccache")
    masks = tmp_path / "masks"
    subprocess.run([launcher, "install", masks / "shim"], check=True, stdout=subprocess.DEVNULL)
    (masks / "damaged").mkdir()
    (masks / "damaged" / "nvcc").symlink_to(damaged / "bin" / "nvccache")
    return masks


def words_of(role: str, program: str, masks: Path, recorder: Path) -> list[str]:
    """The command line of a role; it runs one of the recorders."""
    nvcc = str(recorder / "nvcc")
    module = [sys.executable, "-m", "nvccache"]
    return {
        "launcher": [program, nvcc, "--dryrun"],
        "python -m": [*module, nvcc, "--dryrun"],
        "python -I -m": [sys.executable, "-I", "-m", "nvccache", nvcc, "--dryrun"],
        "shim": [str(masks / "shim" / "nvcc"), "--dryrun"],
        "off": [program, nvcc, "-c", "a.cu"],
        "bypass": [program, nvcc, "-v", "-c", "a.cu"],
        "fault": [*module, nvcc, "-c", "a.cu"],
        "damaged": [str(masks / "damaged" / "nvcc"), "-c", "a.cu"],
        "passed through": [program, str(recorder / "g++"), "-c", "a.cpp"],
    }[role]


@pytest.mark.parametrize("role", ROLES)
def test_the_environment_is_handed_on(role, launcher, masks, recorder, records, workspace):
    given = {"NVCCACHE_DIR": str(workspace.cache), "PATH": f"{recorder}:/usr/bin:/bin"}
    if role == "off":
        given["NVCCACHE_DISABLE"] = "1"
    if role == "fault":
        workspace.write("broken/blake3.py", "raise ImportError\n")
        given["PYTHONPATH"] = str(workspace.directory / "broken")
    argv = words_of(role, str(launcher), masks, recorder)
    for locale in LOCALES:
        environ = {**given, **locale, "LAST": "é\udce9"}
        done = subprocess.run(argv, cwd=workspace.directory, env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
        (record,) = records.iterdir()
        assert entries_in(record) == [f"{name}={value}" for name, value in environ.items()], locale
        record.unlink()


def entries_in(record: Path) -> list[str]:
    entries = os.fsdecode(record.read_bytes()).split("\0")[:-1]
    return [entry for entry in entries if not entry.startswith(OWN_VARIABLES)]


def test_tools_and_their_messages_are_as_without_a_locale(workspace: Workspace, records: Path) -> None:
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
    assert [entry[-12:] for entry in observers] in (
        [],
        ["/observer.so"],
    )  # none for a script that looks for it
    return frozenset(entries) - {*observers}
