"""Host compilers that start a server, that refuse to be observed, and the environment that all tools get."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import installations
from installations import launcher_of_tree
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import CCBIN, SOURCE
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
    entries = [entry for entry in entries if not entry.startswith(OWN_VARIABLES)]
    return [entry for entry in entries if not entry.endswith("/nvccache-redirect.so")]  # in scripts alone


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


# The server compiles in its own environment, which is that of the call that started it.
WRAPPER = """#!{python} -S
import json, os, socket, subprocess, sys, time
def serve(listening):
    listening.bind("{directory}/socket")
    listening.listen()
    open("{directory}/pid", "w").write(str(os.getpid()))
    while True:
        stream = listening.accept()[0].makefile("rw")
        words, directory = json.loads(stream.readline())
        done = subprocess.run(["{compiler}", *words], cwd=directory, capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), file=stream, flush=True)
def connected():
    for _ in range(1000):
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect("{directory}/socket")
            return client
        except OSError:
            time.sleep(0.01)
if sys.argv[1:] == ["serve"]:
    serve(socket.socket(socket.AF_UNIX))
if not os.path.exists("{directory}/socket"):
    null = {{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
    subprocess.Popen([sys.executable, "-S", __file__, "serve"], start_new_session=True, **null)
stream = connected().makefile("rw")
print(json.dumps([sys.argv[1:], os.getcwd()]), file=stream, flush=True)
status, output, messages = json.loads(stream.readline())
sys.stdout.write(output)
sys.stderr.write(messages)
sys.exit(status)
"""


def test_a_server_that_a_call_has_started_serves_others(workspace: Workspace) -> None:
    directory = workspace.directory
    compiler = CCBIN or "/usr/bin/g++"
    text = WRAPPER.format(python=sys.executable, directory=directory, compiler=compiler)
    workspace.write("g++", text).chmod(0o755)
    workspace.write("a.cu", f"{SOURCE}\nstatic int unused;\n")
    line = ("-ccbin", directory / "g++", "-Xcompiler", "-Wall", "-c", "a.cu", "-o", "a.o")
    try:
        first = workspace.cached(*line)
        server = int((directory / "pid").read_text())
        later = workspace.plain(*line), workspace.cached(*line)
        assert first.status == 0 and later == (first, first)
        assert int((directory / "pid").read_text()) == server
        os.kill(server, signal.SIGTERM)
    finally:
        with contextlib.suppress(OSError):
            os.kill(int((directory / "pid").read_text()), signal.SIGKILL)


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
