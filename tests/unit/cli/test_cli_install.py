"""The shim that `install` writes: how it starts, what it imports, and what it never overwrites."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from nvccache.cli import install
from nvccache.real_nvcc import is_ours
from unprivileged import read_only

FAKE_SHIM = """\
import sys


def main():
    print("shim", sys.flags.isolated, sys.flags.no_site, *sys.argv)
    return 7
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shims"


@pytest.fixture
def fake_nvcc(tmp_path):
    """A directory with an executable nvcc that prints its arguments."""
    (tmp_path / "cuda").mkdir()
    return str(write_program(tmp_path / "cuda" / "nvcc").parent)


@pytest.fixture
def fake_package(tmp_path):
    """An import directory whose nvccache only reports how it was started."""
    package = tmp_path / "import" / "nvccache"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "shim.py").write_text(FAKE_SHIM)
    return str(package.parent)


def write_program(path, text='#!/bin/sh\necho real "$@"\n'):
    path.write_text(text)
    path.chmod(0o755)
    return path


def write_shim(folder, interpreter, import_folders):
    folder.mkdir()
    path = str(folder / "nvcc")
    install._write_executable(path, install._shim_text(interpreter, import_folders))
    return path


def run(path, *arguments, **environ):
    return subprocess.run([path, *arguments], stdout=subprocess.PIPE, env=environ, check=False, text=True)


def test_writes_an_executable_and_says_how_to_use_it(nvccache, folder, fake_nvcc):
    result = nvccache("install", str(folder), PATH=fake_nvcc)
    assert result.exit_code == 0
    path = folder / "nvcc"
    assert is_ours(path)
    assert stat.S_IMODE(path.stat().st_mode) & 0o700 == 0o700
    assert os.listdir(folder) == ["nvcc"]
    assert f"wrote `{path}`" in result.output
    assert f'export PATH={folder}:"$PATH"' in result.output
    assert "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER=" in result.output
    assert "NVCCACHE_NVCC" not in result.output
    # Not that of a virtual environment: it would only take longer to start.
    assert path.read_text().startswith("#!" + os.path.abspath(sys._base_executable))


def test_imports_of_the_shim_are_found_without_site_packages(nvccache, folder):
    nvccache("install", str(folder))
    text = (folder / "nvcc").read_text()
    program = text.partition("try:")[0] + "import nvccache, blake3, xxhash, zstandard, filelock, click\n"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_shim_runs_isolated_and_hands_on_name_arguments_and_status(folder, fake_package):
    path = write_shim(folder, sys.executable, [fake_package])
    result = run(path, "-c", "a b.cu", PYTHONPATH="/nowhere", PYTHONSTARTUP="/nowhere")
    assert result.stdout == f"shim 1 1 {path} -c a b.cu\n"
    assert result.returncode == 7


@pytest.mark.parametrize("name", ["with blank", "it's", "x" * 150, "é"])
def test_interpreter_with_an_odd_path_is_started(folder, fake_package, tmp_path, name):
    odd = tmp_path / name
    odd.mkdir()
    interpreter = str(odd / "python")
    os.symlink(os.path.realpath(sys.executable), interpreter)
    path = write_shim(folder, interpreter, [fake_package])
    result = run(path, "-c", "a b.cu", "")
    assert result.stdout == f"shim 1 1 {path} -c a b.cu \n"
    assert result.returncode == 7


def test_shim_of_a_removed_nvccache_runs_the_real_nvcc(folder, fake_nvcc, tmp_path):
    path = write_shim(folder, sys.executable, [])
    other = write_shim(tmp_path / "other", sys.executable, [])
    search = ":".join([str(folder), os.path.dirname(other), fake_nvcc])
    assert run(path, "-c", "a b.cu", PATH=search).stdout == "real -c a b.cu\n"
    assert run(path, "-V", NVCCACHE_NVCC=f"{fake_nvcc}/nvcc").stdout == "real -V\n"
    assert run(path, "-V", PATH=str(folder)).returncode == 127


def test_own_shim_is_replaced(nvccache, folder):
    nvccache("install", str(folder))
    before = (folder / "nvcc").read_text()
    (folder / "nvcc").write_text(before + "# old\n")
    assert nvccache("install", str(folder)).exit_code == 0
    assert (folder / "nvcc").read_text() == before


def test_without_a_directory_it_is_that_of_the_users_data(nvccache, tmp_path, fake_nvcc):
    made = nvccache("install", HOME=str(tmp_path), XDG_DATA_HOME="", PATH=fake_nvcc)
    assert made.exit_code == 0, made.output
    assert is_ours(str(tmp_path / ".local/share/nvccache/bin/nvcc"))
    made = nvccache("install", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"), PATH=fake_nvcc)
    assert is_ours(str(tmp_path / "data/nvccache/bin/nvcc"))


def test_nvcc_of_somebody_else_is_never_overwritten(nvccache, folder, fake_nvcc):
    folder.mkdir()
    path = folder / "nvcc"
    for make in (
        lambda: write_program(path),
        lambda: path.symlink_to(f"{fake_nvcc}/nvcc"),
        lambda: path.symlink_to("/nowhere"),
        path.mkdir,
        lambda: os.mkfifo(path),
    ):
        make()
        before = os.lstat(path)
        result = nvccache("install", str(folder))
        assert result.exit_code == 1
        assert result.output == f"Error: `{path}` exists and was not written by nvccache\n"
        assert os.lstat(path).st_ino == before.st_ino
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_directory_that_cannot_be_made_is_one_sentence(nvccache, tmp_path):
    (tmp_path / "file").write_text("")
    result = nvccache("install", str(tmp_path / "file" / "shims"))
    assert result.exit_code == 1
    assert result.output == f"Error: cannot write `{tmp_path}/file/shims/nvcc`: Not a directory\n"


def test_directory_that_cannot_be_written_is_one_sentence(nvccache, folder):
    nvccache("install", str(folder))
    with read_only(folder) as copy:
        result = nvccache("install", copy)
    assert result.exit_code == 1
    assert result.output == f"Error: cannot write `{copy}/nvcc`: Permission denied\n"


def test_nvcc_outside_of_path_is_pointed_out(nvccache, folder, fake_nvcc, monkeypatch):
    monkeypatch.setattr(install, "find_nvcc", lambda environ, configured: f"{fake_nvcc}/nvcc")
    output = nvccache("install", str(folder), PATH="/nowhere").output
    assert f"export NVCCACHE_NVCC={fake_nvcc}/nvcc" in output
    monkeypatch.setattr(install, "find_nvcc", lambda environ, configured: None)
    assert "No real nvcc was found" in nvccache("install", str(folder)).output
