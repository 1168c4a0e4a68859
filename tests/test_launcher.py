"""The executable `nvccache` as pip installs it: how it finds Python, and that nothing steers it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import pytest

import installations
from installations import REPORT, ROOT, text_of
from nvccache import __version__
from nvccache.real_nvcc import OWN_NAMES, SHIM_MARK, TRIED_VARIABLE
from test_hot_path import BUILT_IN, DIRECT, OF_SCRIPTS, STRUCT, XXHASH, imported
from unprivileged import NOBODY, copy_with_modes
from workspaces import OLD_ENOUGH, Workspace

SOURCE = "__global__ void k() {}\n"
HOSTILE = "raise SystemExit('loaded from where it must not be')\n"


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


def test_the_wheel_is_for_this_platform_and_has_a_program(wheel):
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl") or "aarch64" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        (program,) = [name for name in archive.namelist() if name.endswith(".data/scripts/nvccache")]
        assert archive.read(program).startswith(b"\x7fELF")


def test_an_installation_names_its_commit_and_build(launcher, tmp_path):
    """An sdist carries the commit, for wheels that are built from it."""
    argv = ["git", "rev-parse", "--short=10", "HEAD"]
    commit = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True).stdout
    printed = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=True).stdout
    shown = f"commit {commit.decode().strip()}, " if commit else ""
    assert printed.startswith(f"nvccache {__version__} ({shown}built on {platform.machine()} with ")
    sdist = installations.build(tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        kept = archive.extractfile(f"nvccache-{__version__}/src/native/commit")
        assert kept and kept.read().strip() == commit.strip()


def test_only_the_launcher_is_a_command(wheel):
    """pip installs what Python runs for it without the bit that makes it one."""
    with zipfile.ZipFile(wheel) as archive:
        scripts = [info for info in archive.infolist() if ".data/scripts/" in info.filename]
        assert [os.path.basename(info.filename) for info in scripts if info.external_attr >> 16 & 0o111] == [
            "nvccache"
        ]


@pytest.mark.by_default("unknown")
@pytest.mark.parametrize(
    "cflags",
    ["-fsanitize=address", "-Werror -pedantic -Wvla", "-m32", "-O2 'x", "--nonsense"],
    ids=["sanitizer", "warnings", "other bits", "quotes", "unknown"],
)
def test_flags_that_do_not_suit_are_left_out_and_noted(tmp_path, cflags):
    with zipfile.ZipFile(installations.build(tmp_path / "wheel", CFLAGS=cflags)) as archive:
        (program,) = [name for name in archive.namelist() if name.endswith(".data/scripts/nvccache")]
        assert archive.read(program).startswith(b"\x7fELF")
        assert archive.read("nvccache/native/observer.so").startswith(b"\x7fELF")
        assert b"observer: built without CFLAGS and LDFLAGS: " in archive.read("nvccache/native/notes")


def test_variables_for_python_have_no_say(launcher, workspace, compiled):
    for name in ("signal", "os", "blake3", "nvccache", "sitecustomize", "click"):
        workspace.write(f"hostile/{name}.py", HOSTILE)
    for name, value in {
        "PYTHONHOME": "/nowhere",
        "PYTHONPATH": str(workspace.directory / "hostile"),
        "PYTHONHASHSEED": "bad",
        "PYTHONUTF8": "bad",
        "PYTHONPLATLIBDIR": "nowhere",
        "PYTHONWARNINGS": "error",
    }.items():
        result, counters = workspace.since(partial(workspace.run, compiled, **{name: value}))
        assert (result.status, result.stdout, result.stderr) == (0, b"", b""), name
        assert counters.outcome == "direct_hit"
        assert workspace.run([launcher, "stats"], **{name: value}).status == 0, name


def test_the_working_directory_has_no_say(launcher, workspace, compiled):
    for name in ("signal", "os", "runpy", "blake3", "nvccache", "click"):
        workspace.write(f"{name}.py", HOSTILE)
    result, counters = workspace.since(lambda: workspace.run(compiled))
    assert (result.status, result.stderr, counters.outcome) == (0, b"", "direct_hit")
    assert workspace.run([launcher, "stats"]).status == 0
    os.utime(workspace.directory / "a.cu")  # so that more than a hit is loaded
    for python in ([sys.executable, "-I"], [sys.executable]):
        for name in ("os", "runpy", "nvccache"):  # modules that Python itself loads before us
            (workspace.directory / f"{name}.py").unlink(missing_ok=True)
        for argv in ([*compiled[1:-1], "b.o", "-Xptxas", "-v"], ["stats"]):
            result = workspace.run([*python, "-m", "nvccache", *argv])
            assert result.status == 0 and b"Traceback" not in result.stderr


def test_a_hit_loads_no_more_where_modules_have_to_be_found(workspace, compiled, launcher):
    """Another form of the same start: the script is found by Python, the rest by the script."""
    argv = ["-X", "importtime", "-IS", "-X", f"nvccache={launcher}", f"{launcher}-python", *compiled[1:]]
    found = imported(workspace.run([launcher.with_name("python3"), *argv]).stderr)
    recording = {*STRUCT, *XXHASH, "nvccache.records.replay_layout"}
    assert found | BUILT_IN | {"_stat"} >= DIRECT - recording
    assert not [
        name for name in found - {*DIRECT, *OF_SCRIPTS} if name.startswith("nvccache") or name == "site"
    ]


def test_byte_code_is_there_and_stays_unwritten_on_request(launcher, wheel, tmp_path):
    package = installations.site_packages(launcher.parents[1]) / "nvccache"
    assert list(package.glob("__pycache__/shim.*.pyc"))
    installations.make_environment(tmp_path / "fresh")
    shutil.copytree(
        package,
        installations.site_packages(tmp_path / "fresh") / "nvccache",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name in ("nvccache", "nvccache-python"):
        shutil.copy(launcher.with_name(name), tmp_path / "fresh" / "bin")
    fresh = tmp_path / "fresh" / "bin" / "nvccache"
    text_of(fresh, "--version", env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert not list(tmp_path.glob("fresh/**/nvccache/**/*.pyc"))
    text_of(fresh, "--version", env={})
    assert list(tmp_path.glob("fresh/**/nvccache/**/*.pyc"))


@pytest.mark.parametrize("name", ["with blank", "it's " + "x" * 150, "é"])
def test_an_environment_that_was_moved(name, launcher, tmp_path):
    moved = tmp_path / name
    shutil.copytree(launcher.parents[1], moved, symlinks=True)
    assert text_of(moved / "bin" / "nvccache", "--version").startswith("nvccache ")
    assert package_of(moved / "bin" / "nvccache") == str(installations.site_packages(moved))


def test_doctor_says_whether_the_launcher_is_compiled(launcher, uncompiled, workspace):
    for started, state in ((launcher, b"ok    "), (uncompiled, b"note  ")):
        output = workspace.run([started, "doctor"], PATH="/usr/bin:/bin", NVCCACHE_NVCC="/nowhere").stdout
        first, *_ = [line for line in output.splitlines() if b" launcher " in line]
        assert first.startswith(state) and b"launcher       `" + os.fsencode(started) in output


def test_links_from_other_directories(launcher, workspace, tmp_path):
    """As pipx makes them; and one named nvcc, which is a masquerade."""
    workspace.write("a.cu", SOURCE)
    links = tmp_path / "bin of mine"
    links.mkdir()
    (links / "nvccache").symlink_to(launcher)
    (links / "nvcc").symlink_to("nvccache")
    path = f"{links}:{workspace.environ['PATH']}"
    rest = ["-c", workspace.directory / "a.cu", "-o", "a.o"]
    for argv in (["nvccache", workspace.nvcc], ["nvcc"], [links / "nvcc"], ["bin of mine/nvccache", "nvcc"]):
        result, counters = workspace.since(partial(workspace.run, [*argv, *rest], tmp_path, PATH=path))
        assert (result.status, result.stderr) == (0, b"")
        assert counters.calls["fault"] == 0 and sum(counters.calls.values()) == 1


def test_installed_without_an_environment(wheel, tmp_path):
    """As with `pip install --user`: the package is below the launcher's own prefix, the rest elsewhere."""
    started = installations.install_below(wheel, tmp_path / "of user")
    assert text_of(started, "--version").startswith("nvccache ")
    assert package_of(started) == str(installations.site_packages(tmp_path / "of user"))


def test_installed_editable(tmp_path):
    built = installations.build(tmp_path / "editable", "editable")
    installations.make_environment(tmp_path / "environment")
    started = installations.install(built, tmp_path / "environment")
    assert package_of(started) == str(installations.ROOT / "src")


SHEBANGS = {
    "plain": "#!{python}\n",
    "with blanks": "#!{folder}/with blank/python\n",
    "with options": "#!{python} -sP\n",
    "by sh, as pip": "#!/bin/sh\n'''exec' \"{folder}/with blank/python\" \"$0\" \"$@\"\n' '''\n",
    "by sh, as uv": "#!/bin/sh\n'''exec' '{folder}/with blank/python' \"$0\" \"$@\"\n' '''\n",
    "by sh, bare": "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n",
    "gone": "#!/nowhere/python\n",
    "none": "",
}


@pytest.mark.parametrize("first_lines", SHEBANGS.values(), ids=SHEBANGS)
def test_first_lines_of_the_script_name_the_interpreter(first_lines, launcher, tmp_path):
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


def test_a_launcher_without_python_says_so(launcher, tmp_path):
    alone = shutil.copy(launcher, tmp_path)
    masquerade = tmp_path / "nvcc"
    masquerade.symlink_to(alone)
    tools = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for argv in (
        [alone, "nvcc"],
        [masquerade, "/bin/echo"],
        [alone, "stats"],
        [alone],
        [alone, "--version"],
    ):
        done = subprocess.run(argv, capture_output=True, check=False, env=tools)
        assert done.returncode == 127
        assert done.stderr.startswith(f"nvccache: no Python to start: neither `{tmp_path}/python3`".encode())
    assert text_of(alone, "/bin/echo", "the compiler", "itself") == "the compiler itself\n"


def test_the_launcher_knows_shims_as_the_package_does():
    text = (installations.NATIVE / "launcher" / "shared.h").read_text()
    for known in (SHIM_MARK.decode(), TRIED_VARIABLE, *OWN_NAMES, "8192"):
        assert known in text


def test_without_a_compiler_python_itself_is_the_command(uncompiled, workspace, tmp_path):
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


def test_closed_streams(workspace, compiled):
    product = workspace.directory / "a.o"
    for closed in (">&-", "2>&-"):
        product.unlink()
        result, counters = workspace.since(
            partial(workspace.run, ["sh", "-c", f'exec "$@" {closed}', "sh", *compiled])
        )
        assert (result.status, result.stdout, result.stderr) == (0, b"", b""), closed
        assert (counters.outcome, product.exists()) == ("direct_hit", True)


def test_the_script_by_itself_is_nvccache_too(launcher, workspace, compiled):
    argv = [launcher.with_name("python3"), f"{launcher}-python", *compiled[1:]]
    result, counters = workspace.since(lambda: workspace.run(argv))
    assert (result.status, counters.outcome) == (0, "direct_hit")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_without_a_home(launcher):
    user: dict[str, int] = {"user": NOBODY, "group": NOBODY}
    python = os.path.realpath(sys.executable)
    reached = subprocess.run(["test", "-x", python], check=False, **user)
    if reached.returncode:
        pytest.skip("other users may not run this Python")
    with copy_with_modes(launcher.parents[1], 0o755, 0o755) as copy:
        done = subprocess.run([f"{copy}/bin/nvccache", "--version"], env={}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
