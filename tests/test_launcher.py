"""The executable `nvccache` as pip installs it: it finds Python, and nothing keeps it from the real nvcc."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from functools import partial
from pathlib import Path

import pytest

import installations
from installations import REPORT, ROOT, text_of
from nvccache import __version__
from unprivileged import NOBODY, copy_with_modes
from workspaces import OLD_ENOUGH, Workspace

SOURCE = "__global__ void k() {}\n"
HOSTILE = "raise SystemExit('loaded from where it must not be')\n"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
BASE = Path(os.path.realpath(sys.executable)).parents[1]
# A program: the launcher runs an nvcc that is a script without Python.
REAL = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
    const char *fault = getenv("_NVCCACHE_FAULT");
    char path[4096] = "";

    readlink("/proc/self/exe", path, sizeof path - 1);
    printf("%s ", path);
    for (int at = 1; at < count; at++)
        printf("%s ", words[at]);
    puts(fault ? fault : "");
    return 7;
}
"""


def package_of(launcher: Path) -> str:
    """The directory of the nvccache that a launcher runs; its script is changed to use it."""
    script = launcher.with_name("nvccache-python")
    report = (
        "def main():\n    load('nvccache')\n    print(sys.modules['nvccache'].__path__[0])\n\n\nif __name__"
    )
    script.write_text(script.read_text().replace("if __name__", report))
    return os.path.dirname(text_of(launcher).strip())


@pytest.fixture
def compiled(workspace: Workspace, launcher: Path) -> list[str | Path]:
    """The words of a compile that is a direct hit from now on."""
    workspace.environ["PWD"] = str(workspace.directory)  # as a shell has it, which the launcher may be
    argv = [launcher, workspace.nvcc, "-c", "a.cu", "-o", "a.o"]
    os.utime(workspace.write("a.cu", SOURCE), (1, 1))
    assert workspace.run(["sleep", str(5 * OLD_ENOUGH)]).status == 0
    assert workspace.run(argv).status == 0
    return argv


def native_sources() -> set[str]:
    listed = subprocess.run(["git", "ls-files", "src/native"], cwd=ROOT, capture_output=True, check=False)
    return set(listed.stdout.decode().split())


def test_an_installation_names_its_commit_and_build(launcher, tmp_path):
    """An sdist carries all of our C, for wheels that are built from it."""
    argv = ["git", "rev-parse", "--short=10", "HEAD"]
    commit = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True).stdout
    printed = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=True).stdout
    shown = f"commit {commit.decode().strip()}, " if commit else ""
    assert printed.startswith(f"nvccache {__version__} ({shown}built on {platform.machine()} with ")
    sdist = installations.build(tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        assert {f"nvccache-{__version__}/{path}" for path in native_sources()} <= set(archive.getnames())


def test_a_wheel_built_without_a_compiler_notes_what_it_lacks(tmp_path):
    """The script that the launcher runs is the command then."""
    with zipfile.ZipFile(installations.build(tmp_path / "wheel", CC="/nowhere/cc -m64")) as archive:
        (program,) = [name for name in archive.namelist() if name.endswith(".data/scripts/nvccache")]
        assert archive.read(program).startswith(b"#!")
        assert not [name for name in archive.namelist() if name.endswith(".so")]
        notes = archive.read("nvccache/native/notes")
        assert b"observer: not built: `/nowhere/cc -m64`: No such file" in notes


def test_python_variables_in_the_environment_do_not_affect_compiles(launcher, workspace, compiled):
    for name in ("signal", "os", "blake3", "nvccache", "sitecustomize", "click"):
        workspace.write(f"hostile/{name}.py", HOSTILE)
    variables = {
        "PYTHONHOME": "/nowhere",
        "PYTHONPATH": str(workspace.directory / "hostile"),
        "PYTHONHASHSEED": "bad",
        "PYTHONUTF8": "bad",
        "PYTHONPLATLIBDIR": "nowhere",
        "PYTHONWARNINGS": "error",
    }
    result, counters = workspace.since(lambda: workspace.run(compiled, **variables))
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert counters.outcome == "direct_hit"
    result = workspace.run([*compiled[:-1], "b.o"], **variables)  # which Python answers
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert workspace.run([launcher, "stats"], **variables).status == 0


def test_python_modules_in_the_working_directory_are_not_imported(launcher, workspace, compiled):
    for name in ("signal", "os", "runpy", "blake3", "nvccache", "click"):
        workspace.write(f"{name}.py", HOSTILE)
    result, counters = workspace.since(lambda: workspace.run(compiled))
    assert (result.status, result.stderr, counters.outcome) == (0, b"", "direct_hit")
    assert workspace.run([launcher, "stats"]).status == 0
    for name in ("os", "runpy", "nvccache"):  # modules that Python itself loads before us
        (workspace.directory / f"{name}.py").unlink()
    for argv in ([*compiled[1:-1], "b.o", "-Xptxas", "-v"], ["stats"]):
        result = workspace.run([sys.executable, "-m", "nvccache", *argv])
        assert result.status == 0 and b"Traceback" not in result.stderr


def test_the_launcher_works_in_a_moved_virtual_environment(launcher, tmp_path):
    moved = tmp_path / f"it's é {'x' * 150}"
    shutil.copytree(launcher.parents[1], moved, symlinks=True)
    assert text_of(moved / "bin" / "nvccache", "--version").startswith("nvccache ")
    assert package_of(moved / "bin" / "nvccache") == str(installations.site_packages(moved))


def test_the_launcher_works_through_symbolic_links(launcher, workspace, tmp_path):
    """As pipx makes them; and one named nvcc, which is a masquerade."""
    workspace.write("a.cu", SOURCE)
    links = tmp_path / "bin of mine"
    links.mkdir()
    (links / "nvccache").symlink_to(launcher)
    (links / "nvcc").symlink_to("nvccache")
    path = f"{links}:{workspace.environ['PATH']}"
    rest = ["-c", workspace.directory / "a.cu", "-o", "a.o"]
    for argv in (["nvcc"], ["bin of mine/nvccache", "nvcc"]):
        result, counters = workspace.since(partial(workspace.run, [*argv, *rest], tmp_path, PATH=path))
        assert (result.status, result.stderr) == (0, b"")
        assert counters.calls["fault"] == 0 and sum(counters.calls.values()) == 1


def test_the_launcher_finds_a_package_installed_by_pip_user(wheel, tmp_path):
    """As with `pip install --user`: the package is below the launcher's own prefix, the rest elsewhere."""
    started = installations.install_below(wheel, tmp_path / "of user")
    assert text_of(started, "--version").startswith("nvccache ")
    assert package_of(started) == str(installations.site_packages(tmp_path / "of user"))


SHEBANGS = {
    "with blanks": "#!{folder}/with blank/python\n",
    "with options": "#!{python} -sP\n",
    "by sh, as pip": "#!/bin/sh\n'''exec' \"{folder}/with blank/python\" \"$0\" \"$@\"\n' '''\n",
    "by sh, as uv": "#!/bin/sh\n'''exec' '{folder}/with blank/python' \"$0\" \"$@\"\n' '''\n",
    "gone": "#!/nowhere/python\n",
    "none": "",
}


@pytest.mark.parametrize("first_lines", SHEBANGS.values(), ids=SHEBANGS)
def test_the_launcher_runs_the_python_of_its_scripts_shebang_or_beside_it(first_lines, launcher, tmp_path):
    place, other = tmp_path / "bin", tmp_path / "with blank"
    place.mkdir()
    other.mkdir()
    python = os.path.realpath(sys.executable)
    (other / "python").symlink_to(python)
    shutil.copy(launcher, place)
    if first_lines in (SHEBANGS["gone"], SHEBANGS["none"]):
        (place / "python3").symlink_to(python)
    report = first_lines.format(python=python, folder=tmp_path) + REPORT
    (place / "nvccache-python").write_text(report)
    started = place / "nvccache"
    assert text_of(started, "a b", "") == f"1 1 {started} a b \n"


def test_a_launcher_without_python_exits_with_127_and_an_error(launcher, tmp_path):
    alone = shutil.copy(launcher, tmp_path)
    masquerade = tmp_path / "nvcc"
    masquerade.symlink_to(alone)
    tools = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for argv in ([alone, "nvcc"], [masquerade, "/bin/echo"], [alone, "stats"], [alone]):
        done = subprocess.run(argv, capture_output=True, check=False, env=tools)
        assert done.returncode == 127
        assert done.stderr.startswith(f"nvccache: cannot start Python: neither `{tmp_path}/python3`".encode())
    assert text_of(alone, "/bin/echo", "the compiler", "itself") == "the compiler itself\n"


def test_nvccache_built_without_a_c_compiler_still_compiles(uncompiled, workspace, tmp_path):
    """There are no replays, and a Python that cannot start ends the compile."""
    workspace.write("a.cu", SOURCE)
    (tmp_path / "nvcc").symlink_to(uncompiled)
    path = f"{tmp_path}:{workspace.environ['PATH']}"
    for argv in ([uncompiled, workspace.nvcc], ["nvcc"]):
        result, counters = workspace.since(
            partial(workspace.run, [*argv, "-c", "a.cu", "-o", "a.o"], PATH=path)
        )
        assert (result.status, result.stderr) == (0, b"")
        assert counters.calls["fault"] == 0 and sum(counters.calls.values()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_launcher_runs_for_another_user_without_a_home(launcher):
    user: dict[str, int] = {"user": NOBODY, "group": NOBODY}
    python = os.path.realpath(sys.executable)
    reached = subprocess.run(["test", "-x", python], check=False, **user)
    if reached.returncode:
        pytest.skip("other users may not run this Python")
    with copy_with_modes(launcher.parents[1], 0o755, 0o755) as copy:
        done = subprocess.run([f"{copy}/bin/nvccache", "--version"], env={}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# A Python that cannot be used, or an nvccache that it cannot load: the launcher ends in the real nvcc.


def replace_python(environment: Path, target: Path) -> None:
    (environment / "bin" / "python3").unlink()
    (environment / "bin" / "python3").symlink_to(target)


def without_encodings(environment: Path) -> None:
    """Below a Python whose library can be damaged."""
    base = environment / "base"
    (base / "bin").mkdir(parents=True)
    (base / "lib" / VERSION).mkdir(parents=True)
    shutil.copy(BASE / "bin" / VERSION, base / "bin")
    for path in (BASE / "lib" / VERSION).iterdir():
        if path.name != "encodings":
            (base / "lib" / VERSION / path.name).symlink_to(path)
    replace_python(environment, base / "bin" / VERSION)
    version = ".".join(map(str, sys.version_info[:3]))
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = {version}\n")


def without_what_a_fault_needs(environment: Path) -> None:
    (package(environment) / "records" / "direct_hit.py").unlink()
    (package(environment) / "cli" / "group.py").unlink()
    event_line = package(environment) / "store" / "event_line.py"
    event_line.write_text("def append(*_): raise OSError\nclass Event:")


def empty_script(environment: Path) -> None:
    os.truncate(environment / "bin" / "nvccache-python", 0)


def package(environment: Path) -> Path:
    return installations.site_packages(environment) / "nvccache"


FAULTS = {
    "another version": lambda folder: (folder / "lib" / VERSION).rename(folder / "lib" / "python3.1"),
    "no package": lambda folder: shutil.rmtree(package(folder)),
    "a syntax error": lambda folder: (package(folder) / "config.py").write_text("def (\n"),
    "no blake3": lambda folder: package(folder).with_name("blake3").unlink(),
    "nothing that a fault needs": without_what_a_fault_needs,
    "no script": empty_script,
    "no encodings": without_encodings,
    "no interpreter": lambda folder: replace_python(folder, Path("/nowhere/python3")),
    "no memory": lambda folder: None,
}


@pytest.fixture
def environment(launcher, tmp_path):
    """A copy of a virtual environment with nvccache, a shim in it, and a real nvcc behind it."""
    folder = tmp_path / "environment"
    shutil.copytree(launcher.parents[1], folder, symlinks=True)
    script = folder / "bin" / "nvccache-python"
    script.write_text(f"#!{folder}/bin/python3\n" + script.read_text().partition("\n")[2])
    text_of(folder / "bin" / "nvccache", "install", folder / "bin")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "nvcc.c").write_text(REAL)
    subprocess.run(["cc", "-w", "-o", tmp_path / "real" / "nvcc", tmp_path / "real" / "nvcc.c"], check=True)
    return folder


def run(argv, environment: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """With no more in the environment than it takes, not even a locale."""
    path = f"{environment}/bin:{environment.parent}/real:/usr/bin:/bin"
    environ = {"PATH": path, "NVCCACHE_DIR": str(environment.parent / "cache"), **variables}
    return subprocess.run(argv, env=environ, capture_output=True, check=False, timeout=60)


def assert_real_nvcc_answers(environment: Path, *before: str) -> None:
    real, own = environment.parent / "real" / "nvcc", environment / "bin" / "nvccache"
    for argv in ([own, own, "nvcc"], [own, real], ["nvcc"]):
        done = run([*before, *map(str, argv), "-c", "a b.cu"], environment)
        answer = f"{real} -c a b.cu \n".encode()
        assert (done.returncode, done.stdout, done.stderr) == (7, answer, b""), argv


@pytest.mark.parametrize("fault", FAULTS)
def test_if_python_fails_the_launcher_runs_the_real_nvcc(fault, environment):
    FAULTS[fault](environment)
    before = ("sh", "-c", 'ulimit -v 9000; exec "$@"', "sh") if fault == "no memory" else ()
    assert_real_nvcc_answers(environment, *before)
    if not before:
        done = run([f"{environment}/bin/nvccache", "stats"], environment)
        assert done.returncode in (1, 127) and done.stdout == b""
        assert done.stderr and b"Traceback" not in done.stderr


# Python looks for it; the stand-in for nvcc, a shell, does not.
@pytest.mark.parametrize("fault", ["", "no package"])
def test_ld_library_path_and_ld_preload_reach_nvcc_unchanged(environment, tmp_path, fault):
    if fault:
        FAULTS[fault](environment)
    (tmp_path / "nvcc.c").write_text(
        "#include <stdio.h>\nextern char **environ;\n"
        'int main(void) { for (char **at = environ; *at; at++) printf("%s%c", *at, 0); return 0; }\n'
    )
    subprocess.run(["gcc", "-o", tmp_path / "real" / "nvcc", tmp_path / "nvcc.c"], check=True)
    (tmp_path / "empty.c").write_text("")
    (tmp_path / "libraries").mkdir()
    library = tmp_path / "libraries" / "libm.so.6"
    subprocess.run(["gcc", "-shared", "-o", library, tmp_path / "empty.c"], check=True)
    variables = {"LD_LIBRARY_PATH": str(library.parent), "LAST": "1", "LD_PRELOAD": "/nowhere/none.so"}
    done = run(["nvccache", "nvcc", "-c", "-v", "a.cu"], environment, **variables)
    assert done.returncode == 0
    entries = done.stdout.decode().split("\0")[:-1]
    assert entries[2:5] == [f"{name}={value}" for name, value in variables.items()]
    assert {entry.partition("=")[0] for entry in entries[5:]} <= {"_NVCCACHE_TRIED"}
    if not fault:
        assert run(["nvccache", "--version"], environment, **variables).stdout.startswith(b"nvccache ")


@pytest.mark.parametrize("library", [f"libpython3.{sys.version_info[1]}.so.1.0", "libz.so.1"])
def test_a_python_that_needs_ld_library_path_gets_it(environment, tmp_path, library):
    python = environment / "bin" / "python3"
    python.rename(environment / "bin" / "own")
    own = f"exec env -u LD_LIBRARY_PATH {environment}/bin/own"
    python.write_text(f'#!/bin/sh\n[ "$LD_LIBRARY_PATH" ] && {own} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / library).touch()
    done = run(["nvccache", "--version"], environment, LD_LIBRARY_PATH=str(tmp_path / "libraries"))
    assert done.stdout.startswith(b"nvccache ")


STARTS = {
    "its library is found": ("", "", "", 1),
    "the library path leads to no library of Python": ("", "", "LD_LIBRARY_PATH=/nowhere", 1),
    "its home is unknown": ("home = ", "house = ", "", 2),
    "its home is elsewhere": ("home = /", "home = /nowhere/", "", 2),
    "its release is unknown": ("version = 3.", "version = 2.", "", 2),
    "its memory is limited": ("", "", "ulimit -v 8000000;", 2),
    "the size of its data is limited": ("", "", "ulimit -d 8000000;", 2),
}


@pytest.mark.parametrize(("old", "new", "before", "starts"), STARTS.values(), ids=STARTS)
def test_python_starts_once_more_on_trial_only_if_it_might_fail(
    environment, tmp_path, old, new, before, starts
):
    python = environment / "bin" / "python3"
    python.rename(environment / "bin" / "own")
    python.write_text(f'#!/bin/sh\necho start >>{tmp_path}/log\nexec {environment}/bin/own "$@"\n')
    python.chmod(0o755)
    settings = environment / "pyvenv.cfg"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))
    command = f"{before} {environment}/bin/nvccache --version"
    subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (tmp_path / "log").read_text().count("start") == starts


def test_nvcc_is_found_behind_the_shim_of_a_removed_nvccache(environment, tmp_path):
    """By what looks on PATH, as it leads nowhere; its path cannot be run."""
    folder = tmp_path / "shims"
    text_of(environment / "bin" / "nvccache", "install", folder)
    shutil.rmtree(environment)
    environ = {"PATH": f"{folder}:{tmp_path}/real:/usr/bin:/bin"}
    for argv in (["nvcc", "-V"], ["sh", "-c", "nvcc -V"], ["env", "nvcc", "-V"]):
        done = subprocess.run(argv, env=environ, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (7, f"{tmp_path}/real/nvcc -V \n".encode())
    named = subprocess.run(["sh", "-c", f"{folder}/nvcc -V"], capture_output=True, check=False)
    assert named.returncode == 127


def test_strict_mode_shows_a_failed_start_of_python(environment, tmp_path):
    FAULTS["no blake3"](environment)
    shutil.copy("/bin/true", tmp_path / "real" / "nvcc")  # a script would run, and start no nvcc
    done = run(["nvccache", "nvcc", "-c", "a.cu"], environment, NVCCACHE_STRICT="1")
    assert done.returncode == 1 and b"ModuleNotFoundError" in done.stderr


def test_an_interrupt_ends_a_call_as_it_ends_nvcc(environment, tmp_path):
    """At any time of the start: by the signal, and without a word."""
    (tmp_path / "real" / "nvcc").write_text("#!/bin/sh\nexec sleep 20\n")
    for milliseconds in range(0, 45, 7):
        environ = {"PATH": f"{tmp_path}/real:/usr/bin:/bin", "NVCCACHE_DISABLE": "1"}
        words = [f"{environment}/bin/nvccache", "nvcc"]
        argv = [*(words if milliseconds % 2 else [f"{environment}/bin/nvcc"]), "-c", "a.cu"]
        started = subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE, start_new_session=True)
        time.sleep(milliseconds / 1000)
        os.killpg(started.pid, signal.SIGINT)
        _, stderr = started.communicate(timeout=10)
        assert (started.returncode, stderr) == (-signal.SIGINT, b""), milliseconds


@pytest.fixture
def unstartable(tmp_path):
    """Makes a directory with a launcher whose Python cannot be started, as in another user's home."""

    def make(started: Path) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        python = tmp_path / "python"
        python.write_text("#!/nowhere/python\n")
        python.chmod(0o755 if started.read_bytes().startswith(b"\x7fELF") else 0o644)
        (folder / "nvccache-python").write_text(f"#!{python}\n{REPORT}")
        shutil.copy(started, folder / "nvccache")
        return folder

    return make


def test_a_build_goes_on_where_python_cannot_be_started(launcher, unstartable, tmp_path):
    folder = unstartable(launcher)
    (folder / "nvcc").symlink_to("nvccache")
    shim = tmp_path / "shims" / "nvcc"
    real = tmp_path / "real" / "nvcc"
    for path in (shim, real):
        path.parent.mkdir()
    shim.symlink_to(folder / "nvccache")
    real.write_text('#!/bin/sh\necho "$0" "$@"\n')
    real.chmod(0o755)
    (real.with_name("g++")).symlink_to("nvcc")
    environ = {"PATH": f"{folder}:{shim.parent}:{real.parent}:/usr/bin:/bin"}
    own = folder / "nvccache"
    for argv in ([own, "nvcc"], [own, real], [own, shim], [own, own, "nvcc"], [folder / "nvcc"]):
        assert text_of(*argv, "-c", "a b", env=environ) == f"{real} -c a b\n", argv
    assert text_of(own, "g++", "x", env=environ) == f"{real.with_name('g++')} x\n"
    named = {**environ, "PATH": "/usr/bin:/bin", "NVCCACHE_NVCC": str(real)}
    assert text_of(folder / "nvcc", "x", env=named) == f"{real} x\n"


def test_a_wrapper_around_nvccache_does_not_loop_if_python_cannot_start(launcher, unstartable, tmp_path):
    """One that has nvccache look for nvcc, and is found first."""
    folder = unstartable(launcher)
    for name, text in (("a", f'exec {folder}/nvccache nvcc "$@"'), ("b", 'echo real "$@"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nvcc").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name / "nvcc").chmod(0o755)
    environ = {"PATH": f"{tmp_path}/a:{tmp_path}/b:/usr/bin:/bin"}
    assert text_of("nvcc", "x", env=environ) == "real x\n"
    own = tmp_path / "a" / "nvcc"
    own.write_text(f'#!/bin/sh\nexec {folder}/nvccache {own} "$@"\n')
    assert subprocess.run([own], env=environ, capture_output=True, check=False, timeout=30).returncode == 127
