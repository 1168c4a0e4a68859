"""What `doctor` finds wrong with PATH, settings, builds and programs, and the command that fixes it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys

import pytest

from nvccache import config
from nvccache.cli import doctor, nvcc_checks
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.machine import slots
from nvccache.real_nvcc import SHIM_MARK


@pytest.fixture
def programs(tmp_path, cache_dir):
    """Directories with an nvcc each: `shim` has nvccache's, `cuda` a real one, `empty` none."""
    for name, text in (("shim", SHIM_MARK.decode()), ("cuda", "nvcc")):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "nvcc"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    (tmp_path / "empty").mkdir()
    return tmp_path


def of_path(programs, *names, **variables):
    environ = {**os.environ, "PATH": ":".join(str(programs / name) for name in names), **variables}
    return list(doctor.of_path(config.load(environ), environ))


@pytest.mark.usefixtures("cache_dir")
def test_who_has_taken_the_name_of_the_pool_is_named(tmp_path, monkeypatch):
    (tmp_path / f"nvccache-{os.geteuid()}").write_text("")
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(tmp_path),),))
    monkeypatch.setattr(slots.unusable_directories, "__defaults__", ((str(tmp_path),),))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    taken, good = nvcc_checks.of_machine(config.load(os.environ))
    assert (taken.state, good.state) == (ODD, GOOD)
    assert f"`{tmp_path}/nvccache-{os.geteuid()}` belongs to user {os.geteuid()}" in taken.text
    assert f"`{tmp_path}/nvccache` is used instead" in taken.text


def test_a_shim_that_is_first_is_good(programs):
    (found,) = of_path(programs, "empty", "shim", "cuda")
    assert (found.state, found.mend) == (GOOD, ())
    (found,) = of_path(programs, "cuda")
    assert found.state == GOOD and "the real one" in found.text


def test_a_shim_that_is_not_first_is_put_there(programs):
    (found,) = of_path(programs, "cuda", "shim")
    assert found.state == ODD
    assert found.mend == (f'export PATH={programs}/shim:"$PATH"',)
    done = subprocess.run(
        ["/bin/sh", "-c", f"{found.mend[0]}; command -v nvcc"],
        env={"PATH": f"{programs}/cuda:{programs}/shim"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{programs}/shim/nvcc\n"


def test_a_shim_with_no_nvcc_behind_it_is_bad(programs, monkeypatch):
    monkeypatch.setattr("nvccache.toolkit.discovery.find_nvcc", lambda environ: f"{programs}/cuda/nvcc")
    _, found = of_path(programs, "shim", "empty")
    assert (found.state, found.mend) == (BAD, (f"nvccache config nvcc {programs}/cuda/nvcc",))
    _, found = of_path(programs, "shim", NVCCACHE_NVCC="/nowhere/nvcc")
    assert (found.state, found.mend) == (BAD, (f"export NVCCACHE_NVCC={programs}/cuda/nvcc",))
    assert len(of_path(programs, "shim", NVCCACHE_NVCC=f"{programs}/cuda/nvcc")) == 1


def test_ccache_under_the_name_of_nvcc_is_a_second_cache(programs):
    (programs / "links").mkdir()
    (programs / "links" / "ccache").write_text("")
    (programs / "links" / "ccache").chmod(0o755)
    (programs / "links" / "nvcc").symlink_to("ccache")
    assert [each.state for each in of_path(programs, "links", "cuda")] == [GOOD, ODD]


def of_settings(**variables):
    environ = {**os.environ, **variables}
    return list(doctor.of_settings(config.load(environ), environ))


def write_settings(text):
    path = config.config_file(os.environ)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
    return path


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('max_size = "ten"\n', "line 1"),
        ('jobs = 2\nmax_sise = "1G"\n', "line 2"),
        ("\nnot toml\njobs = 3\n", "line 2"),
        ("max_size = \n", "line 1"),
    ],
)
def test_bad_settings_are_named_with_file_and_line_and_fixed_by_the_command(cache_dir, tmp_path, text, where):
    path = write_settings(text)
    (found,) = of_settings()
    assert found.state == BAD and found.text.startswith(f"`{path}` {where}: ")
    assert left_after(found.mend, tmp_path) == {}


def left_after(commands, tmp_path):
    """The variables of ours once these commands have run."""
    program = tmp_path / "bin" / "nvccache"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nvccache "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join([*commands, "env"])],
        env={**os.environ, "PATH": f"{program.parent}:/usr/bin:/bin"}, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("NVCCACHE_"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NVCCACHE_")}
    assert list(doctor.of_settings(config.load({**environ, **found}), {**environ, **found})) == []
    return {name: value for name, value in found.items() if name != "NVCCACHE_DIR"}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("more", ["", "not toml\n"])
def test_fixes_of_a_file_work_in_any_order_and_keep_what_is_right(cache_dir, tmp_path, order, more):
    path = write_settings(
        f'{more}max_sise = "5G"\nsloppiness = "x"\nmax_size = "7G"\n'
        'jops = 3\nstrict = "perhaps"\numask = "002"\n'
    )
    commands = [command for found in of_settings() for command in found.mend]
    assert left_after(commands[::order], tmp_path) == {}
    with open(path) as stream:
        kept = [line for line in stream.read().splitlines() if line[0] != "#"]
    assert kept == ['max_size = "7G"', "jobs = 3", 'umask = "002"']


def test_a_misspelled_variable_is_renamed_unless_the_right_one_is_set(cache_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("NVCCACHE_MAX_SISE", "5 G")
    (found,) = of_settings()
    assert left_after(found.mend, tmp_path) == {"NVCCACHE_MAX_SIZE": "5 G"}
    monkeypatch.setenv("NVCCACHE_MAX_SIZE", "7G")
    (found,) = of_settings()
    assert found.mend == ("unset NVCCACHE_MAX_SISE",)
    (_, found) = of_settings(NVCCACHE_NODISABLE="1")
    assert found.mend == ("unset NVCCACHE_NODISABLE",)  # it has the contrary meaning


def test_a_bad_variable_is_named(cache_dir):
    (found,) = of_settings(NVCCACHE_MAX_SIZE="ten")
    assert (found.state, found.mend) == (BAD, ("unset NVCCACHE_MAX_SIZE",))


def test_a_wrong_remote_is_corrected_and_not_removed(cache_dir):
    (found,) = of_settings(NVCCACHE_REMOTE="file://shared,rw")
    assert (
        "no absolute path after `file://`, which begins with `/`; write it as `file:///directory,rw`"
        in found.text
    )
    assert (found.details, found.mend) == (("to fix it: correct the URL in `NVCCACHE_REMOTE`",), ())


def test_a_log_that_cannot_be_written_is_named(cache_dir, tmp_path):
    assert of_settings(NVCCACHE_LOG=f"{tmp_path}/log") == []
    (found,) = of_settings(NVCCACHE_LOG=f"{tmp_path}/missing/log")
    assert (found.state, found.mend) == (BAD, ("unset NVCCACHE_LOG",))


def test_two_cache_directories_are_noticed(cache_dir):
    write_settings('dir = "/elsewhere"\n')
    (found,) = of_settings()
    assert found.state == ODD and found.text.startswith("two caches: ")
    assert found.mend == (f"nvccache config dir {cache_dir}", "unset NVCCACHE_DIR")
    write_settings(f'dir = "{cache_dir}"\n')
    assert of_settings() == []


def test_launchers_of_variables(cache_dir):
    assert list(doctor.of_variables({"CMAKE_CUDA_COMPILER_LAUNCHER": "time;nvccache"})) == []
    (found,) = doctor.of_variables({"CMAKE_CXX_COMPILER_LAUNCHER": "/usr/bin/nvccache"})
    assert (found.state, found.mend) == (ODD, ("unset CMAKE_CXX_COMPILER_LAUNCHER",))
    (found,) = doctor.of_variables({"CMAKE_CUDA_COMPILER_LAUNCHER": "/usr/bin/sccache;nvccache"})
    assert (found.state, found.topic) == (ODD, "two caches")


@pytest.mark.parametrize(
    ("entries", "state", "mend"),
    [
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING={bin}/nvccache", GOOD, ""),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:UNINITIALIZED={bin}/nvccache", GOOD, ""),
        ("", ODD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING=", ODD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING=/gone/nvccache", BAD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER="),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING={bin}/ccache;{bin}/nvccache", ODD, "cmake -DCMAKE_CUDA"),
        ("CMAKE_CXX_COMPILER_LAUNCHER:STRING=nvccache", ODD, "cmake -U CMAKE_CXX_COMPILER_LAUNCHER "),
    ],
)
def test_a_build_directory(programs, entries, state, mend):
    for name in ("nvccache", "ccache"):
        (programs / "cuda" / name).symlink_to("nvcc")
    cuda = programs / "cuda"
    text = f"# by CMake\nCMAKE_CUDA_COMPILER:FILEPATH={cuda}/nvcc\n{entries.format(bin=cuda)}\n"
    (programs / "CMakeCache.txt").write_text(text)
    first, *others = doctor.of_build(str(programs))
    assert (first.state, [line[: len(mend)] for line in first.mend]) == (state, [mend] if mend else [])
    assert bool(others) == ("CXX" in entries)


def test_build_directories_that_say_nothing(programs):
    (found,) = doctor.of_build(str(programs / "nowhere"))
    assert found.state == BAD
    os.mkfifo(programs / "CMakeCache.txt")
    (found,) = doctor.of_build(str(programs))
    assert found.state == BAD and "not a regular file" in found.text
    (programs / "CMakeCache.txt").unlink()
    (programs / "CMakeCache.txt").write_text("CMAKE_CXX_COMPILER:FILEPATH=/usr/bin/c++\n")
    (found,) = doctor.of_build(str(programs))
    assert found.state == ODD and "no CUDA" in found.text
    (programs / "CMakeCache.txt").write_text("CMAKE_CUDA_COMPILER:FILEPATH=/gone/nvcc\n")
    (found,) = doctor.of_build(str(programs))
    assert (found.state, found.mend) == (BAD, (f"rm {programs}/CMakeCache.txt",))


def test_a_program_that_no_loader_looks_at(tmp_path, monkeypatch):
    program = tmp_path / "true"
    shutil.copy(shutil.which("true"), program)
    assert nvcc_checks.why_not_observed(str(program)) == ""
    program.chmod(0o4755)
    assert nvcc_checks.why_not_observed(str(program)) == ""  # who it belongs to may
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert "set-uid" in nvcc_checks.why_not_observed(str(program))
    program.chmod(0o755)
    content = bytearray(program.read_bytes())
    start = struct.unpack_from("<Q", content, 32)[0]
    size, count = struct.unpack_from("<HH", content, 54)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", content, at)[0] == 3:
            struct.pack_into("<I", content, at, 0)
    program.write_bytes(content)
    assert "statically linked" in nvcc_checks.why_not_observed(str(program))
    for text in (b"#!/bin/sh\n", b"", b"\x7fELF"):
        program.write_bytes(text)
        assert nvcc_checks.why_not_observed(str(program)) == ""
    assert nvcc_checks.why_not_observed("/nowhere") == ""


def test_notes_of_the_build_of_nvccache_are_shown(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("launcher: not built: no room\nobserver: not built: error: too odd\n")
    monkeypatch.setattr(nvcc_checks.observer, "LIBRARY", str(tmp_path / "observer.so"))
    (found,) = nvcc_checks.of_observer(config.load({"NVCCACHE_DIR": str(tmp_path / "cache")}))
    assert (found.state, found.details) == (ODD, ("observer: not built: error: too odd",))
    assert found.text.startswith("the observer was not built")
