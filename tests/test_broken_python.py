"""A Python that cannot be used, or an nvccache that it cannot load: the launcher ends in the real nvcc."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import installations
from installations import REPORT, text_of

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
BASE = Path(os.path.realpath(sys.executable)).parents[1]
REAL = '#!/bin/sh\necho "$0" "$@" "${_NVCCACHE_FAULT-}"\nexit 7\n'


def package(environment: Path) -> Path:
    return installations.site_packages(environment) / "nvccache"


def make_base(folder: Path) -> Path:
    """A Python whose library can be damaged."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / VERSION).mkdir(parents=True)
    shutil.copy(BASE / "bin" / VERSION, folder / "bin")
    for path in (BASE / "lib" / VERSION).iterdir():
        (folder / "lib" / VERSION / path.name).symlink_to(path)
    return folder


def put_above(base: Path, environment: Path) -> None:
    (environment / "bin" / "python3").unlink()
    (environment / "bin" / "python3").symlink_to(base / "bin" / VERSION)
    version = ".".join(map(str, sys.version_info[:3]))
    (environment / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = {version}\n")


def of_another_version(environment: Path) -> None:
    (environment / "lib" / VERSION).rename(environment / "lib" / "python3.1")


def without_package(environment: Path) -> None:
    shutil.rmtree(package(environment))


def with_an_empty_module(environment: Path) -> None:
    (package(environment) / "shim.py").write_text("")


def with_a_syntax_error(environment: Path) -> None:
    (package(environment) / "config.py").write_text("def (\n")


def without_blake3(environment: Path) -> None:
    (package(environment).with_name("blake3")).unlink()


def without_what_a_fault_needs(environment: Path) -> None:
    (package(environment) / "records" / "levels.py").unlink()
    (package(environment) / "cli" / "group.py").unlink()
    (package(environment) / "store" / "event_line.py").write_text(
        "def append(*_): raise OSError\nclass Event:"
    )


def with_half_a_script(environment: Path) -> None:
    script = environment / "bin" / "nvccache-python"
    os.truncate(script, script.read_text().index("def load("))


def without_script(environment: Path) -> None:
    os.truncate(environment / "bin" / "nvccache-python", 0)


def without_encodings(environment: Path) -> None:
    base = make_base(environment / "base")
    put_above(base, environment)
    (base / "lib" / VERSION / "encodings").unlink()


def without_interpreter(environment: Path) -> None:
    (environment / "bin" / "python3").unlink()
    (environment / "bin" / "python3").symlink_to("/nowhere/python3")


FAULTS = {
    function.__name__.replace("_", " "): function
    for function in (
        of_another_version,
        without_package,
        with_an_empty_module,
        with_a_syntax_error,
        without_blake3,
        without_what_a_fault_needs,
        with_half_a_script,
        without_script,
        without_encodings,
        without_interpreter,
    )
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
    (tmp_path / "real" / "nvcc").write_text(REAL)
    (tmp_path / "real" / "nvcc").chmod(0o755)
    return folder


def run(argv, environment: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """With no more in the environment than it takes, not even a locale."""
    path = f"{environment}/bin:{environment.parent}/real:/usr/bin:/bin"
    environ = {"PATH": path, "NVCCACHE_DIR": str(environment.parent / "cache"), **variables}
    return subprocess.run(argv, env=environ, capture_output=True, check=False, timeout=60)


def assert_real_nvcc_answers(environment: Path, *before: str) -> None:
    real, own = environment.parent / "real" / "nvcc", environment / "bin" / "nvccache"
    for argv in (
        [own, real],
        ["nvccache", "nvcc"],
        [own, own, "nvcc"],
        [environment / "bin" / "nvcc"],
        ["nvcc"],
    ):
        done = run([*before, *map(str, argv), "-c", "a b.cu"], environment)
        answer = f"{real} -c a b.cu \n".encode()
        assert (done.returncode, done.stdout, done.stderr) == (7, answer, b""), argv


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_real_nvcc_answers(fault, environment):
    fault(environment)
    assert_real_nvcc_answers(environment)
    done = run([f"{environment}/bin/nvccache", "stats"], environment)
    assert done.returncode in (1, 127) and done.stdout == b""
    assert done.stderr and b"Traceback" not in done.stderr


def test_the_real_nvcc_answers_where_python_has_no_memory(environment):
    assert_real_nvcc_answers(environment, "sh", "-c", 'ulimit -v 9000; exec "$@"', "sh")


def test_a_library_that_is_elsewhere_is_found_by_trying(environment, tmp_path):
    """Without files next to the interpreter, its compiled-in prefix counts."""
    base = make_base(tmp_path / "base")
    shutil.rmtree(base / "lib")
    put_above(base, environment)
    (environment / "bin" / "nvccache-python").write_text(REPORT)
    started = environment / "bin" / "nvccache"
    assert text_of(started, "a b", env={"PATH": "/usr/bin:/bin"}) == f"1 1 {started} a b\n"


def loading(tmp_path: Path, *libraries: str) -> dict[str, str]:
    """Variables with libraries of these names that have nothing in them, and one that is not there."""
    (tmp_path / "empty.c").write_text("")
    (tmp_path / "libraries").mkdir()
    for name in libraries:
        path = tmp_path / "libraries" / name
        subprocess.run(["gcc", "-shared", "-o", path, tmp_path / "empty.c"], check=True)
    return {"LD_LIBRARY_PATH": str(tmp_path / "libraries"), "LAST": "1", "LD_PRELOAD": "/nowhere/none.so"}


# Python looks for all of them; the stand-in for nvcc, a shell, does not.
@pytest.mark.parametrize("library", ["libm.so.6", f"lib{VERSION}.so.1.0"])
@pytest.mark.parametrize("fault", [None, without_package], ids=["", "that cannot load nvccache"])
def test_libraries_of_the_caller_are_for_the_tools(environment, tmp_path, library, fault):
    if fault:
        fault(environment)
    (tmp_path / "real" / "nvcc").write_text("#!/bin/sh\ncat /proc/$$/environ\n")
    variables = loading(tmp_path, library)
    done = run(["nvccache", "nvcc", "-c", "-v", "a.cu"], environment, **variables)
    assert done.returncode == 0
    entries = done.stdout.decode().split("\0")[:-1]
    assert entries[2:5] == [f"{name}={value}" for name, value in variables.items()]
    assert {entry.partition("=")[0] for entry in entries[5:]} <= {"_NVCCACHE_TRIED"}
    if not fault:
        assert run(["nvccache", "--version"], environment, **variables).stdout.startswith(b"nvccache ")


def test_a_python_that_needs_libraries_of_the_caller_gets_them(environment, tmp_path):
    python = environment / "bin" / "python3"
    real = os.path.realpath(python)
    python.unlink()
    python.write_text(f'#!/bin/sh\n[ "$LD_LIBRARY_PATH" ] || exit 127\nexec "{real}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / f"lib{VERSION}.so.1.0").symlink_to(BASE / "lib" / f"lib{VERSION}.so.1.0")
    variables = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}/libraries"}
    (environment / "bin" / "nvccache-python").write_text(REPORT)
    started = environment / "bin" / "nvccache"
    assert text_of(started, "a b", env={"PATH": "/usr/bin:/bin", **variables}) == f"1 1 {started} a b\n"


def test_a_shim_of_a_removed_nvccache_is_passed_over(environment, tmp_path):
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


def test_a_strict_call_shows_the_fault(environment):
    without_blake3(environment)
    done = run(["nvccache", "nvcc", "-c", "a.cu"], environment, NVCCACHE_STRICT="1")
    assert done.returncode == 1 and b"ModuleNotFoundError" in done.stderr


def test_an_interrupt_ends_a_call_as_it_ends_nvcc(environment, tmp_path, request):
    """At any time of the start: by the signal, and without a word."""
    (tmp_path / "real" / "nvcc").write_text("#!/bin/sh\nexec sleep 20\n")
    # What a shell starts by `&` ignores it, and so would what is started here.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, ignored))
    for milliseconds in range(0, 45, 3):
        environ = {"PATH": f"{tmp_path}/real:/usr/bin:/bin", "NVCCACHE_DISABLE": "1"}
        words = [f"{environment}/bin/nvccache", "nvcc"]
        argv = [*(words if milliseconds % 2 else [f"{environment}/bin/nvcc"]), "-c", "a.cu"]
        started = subprocess.Popen(
            argv,
            env=environ,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
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
    for path, text in ((shim, "# The nvcc shim of nvccache."), (real, 'echo "$0" "$@"')):
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (real.with_name("g++")).symlink_to("nvcc")
    environ = {"PATH": f"{folder}:{shim.parent}:{real.parent}:/usr/bin:/bin"}
    own = folder / "nvccache"
    for argv in ([own, "nvcc"], [own, real], [own, shim], [own, own, "nvcc"], [folder / "nvcc"]):
        assert text_of(*argv, "-c", "a b", env=environ) == f"{real} -c a b\n", argv
    assert text_of(own, "g++", "x", env=environ) == f"{real.with_name('g++')} x\n"
    named = {**environ, "PATH": "/usr/bin:/bin", "NVCCACHE_NVCC": str(real)}
    assert text_of(folder / "nvcc", "x", env=named) == f"{real} x\n"


def test_a_wrapper_ends_where_python_cannot_be_started(launcher, unstartable, tmp_path):
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
