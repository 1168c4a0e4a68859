"""What `doctor` finds wrong with PATH, settings, builds and programs, and the command that fixes it."""

from __future__ import annotations

import os
import subprocess

import pytest

from nvccache import config
from nvccache.cli import doctor, nvcc_checks
from nvccache.cli.output import BAD, GOOD, ODD
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


def test_a_bad_variable_is_named(cache_dir):
    (found,) = of_settings(NVCCACHE_MAX_SIZE="ten")
    assert (found.state, found.mend) == (BAD, ("unset NVCCACHE_MAX_SIZE",))


def test_a_wrong_remote_is_corrected_and_not_removed(cache_dir):
    (found,) = of_settings(NVCCACHE_REMOTE="file://shared,rw")
    assert (
        "no absolute path after `file://`, which begins with `/`; write it as `file:///directory,rw`"
        in found.text
    )
    assert (found.details, found.mend) == (("to fix it: correct `NVCCACHE_REMOTE`",), ())


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('max_size = "ten"\n', "line 1"),
        ('jobs = 2\nmax_sise = "1G"\n', "line 2"),
        ("\nnot toml\njobs = 3\n", "line 2"),
        ("max_size = \n", "line 1"),
    ],
)
def test_bad_settings_are_named_with_file_and_line(cache_dir, text, where):
    path = write_settings(text)
    (found,) = of_settings()
    assert found.state == BAD and found.text.startswith(f"`{path}` {where}: ")
    assert found.details == (f"to fix it: correct `{path}` {where}",)


def test_a_base_directory_with_which_nothing_is_shared_is_named(cache_dir, tmp_path):
    (tmp_path / "work" / "checkout" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to("work")
    assert of_settings(NVCCACHE_BASE_DIR=str(tmp_path / "work")) == []
    (found,) = of_settings(NVCCACHE_BASE_DIR=str(tmp_path / "link"))
    assert found.state == ODD and f"through a link to `{tmp_path}/work`" in found.text
    (found,) = of_settings(NVCCACHE_BASE_DIR=str(tmp_path / "work" / "checkout"))
    assert found.state == ODD and "other checkouts share nothing" in found.text
    assert f"`{tmp_path}/work`" in found.details[0]


def test_launchers_of_variables(cache_dir):
    def found(**variables):
        return list(doctor.of_launchers("the environment", variables))

    assert found(CMAKE_CUDA_COMPILER_LAUNCHER="time;nvccache") == []
    (for_host,) = found(CMAKE_CXX_COMPILER_LAUNCHER="/usr/bin/nvccache")
    assert (for_host.state, for_host.topic) == (ODD, "launcher")
    (two,) = found(CMAKE_CUDA_COMPILER_LAUNCHER="/usr/bin/sccache;nvccache")
    assert (two.state, two.topic) == (ODD, "two caches")


def test_a_shim_with_no_nvcc_behind_it_is_bad(programs):
    _, found = of_path(programs, "shim", NVCCACHE_NVCC="/nowhere/nvcc")
    assert found.state == BAD and "no nvcc for it to run" in found.text
    assert len(of_path(programs, "shim", NVCCACHE_NVCC=f"{programs}/cuda/nvcc")) == 1


def test_a_log_that_cannot_be_written_is_named(cache_dir, tmp_path):
    assert of_settings(NVCCACHE_LOG=f"{tmp_path}/log") == []
    (found,) = of_settings(NVCCACHE_LOG=f"{tmp_path}/missing/log")
    assert (found.state, found.mend) == (BAD, ("unset NVCCACHE_LOG",))


@pytest.mark.parametrize(
    ("entries", "state", "mend", "others_found"),
    [
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING={bin}/nvccache", GOOD, "", 0),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:UNINITIALIZED={bin}/nvccache", GOOD, "", 0),
        ("", ODD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER=", 0),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING=", ODD, "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER=", 0),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING=/gone/nvccache", BAD, "cmake -DCMAKE_CUDA", 0),
        ("CMAKE_CUDA_COMPILER_LAUNCHER:STRING={bin}/ccache;{bin}/nvccache", GOOD, "", 1),
        ("CMAKE_CXX_COMPILER_LAUNCHER:STRING=nvccache", ODD, "cmake -DCMAKE_CUDA", 1),
    ],
)
def test_a_build_directory(programs, entries, state, mend, others_found):
    for name in ("nvccache", "ccache"):
        (programs / "cuda" / name).symlink_to("nvcc")
    cuda = programs / "cuda"
    text = f"# by CMake\nCMAKE_CUDA_COMPILER:FILEPATH={cuda}/nvcc\n{entries.format(bin=cuda)}\n"
    (programs / "CMakeCache.txt").write_text(text)
    *others, last = doctor.of_build(str(programs))
    assert (last.state, [line[: len(mend)] for line in last.mend]) == (state, [mend] if mend else [])
    assert len(others) == others_found


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


def test_notes_of_the_build_of_nvccache_are_shown(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("launcher: not built: no room\nobserver: not built: error: too odd\n")
    monkeypatch.setattr(nvcc_checks.observer, "LIBRARY", str(tmp_path / "observer.so"))
    found = list(nvcc_checks.of_installation(config.load({"NVCCACHE_DIR": str(tmp_path / "cache")})))[-1]
    assert (found.state, found.details) == (ODD, ("observer: not built: error: too odd",))
    assert found.text.startswith("the observer was not built")
