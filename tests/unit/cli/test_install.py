"""The shim that `install` makes."""

from __future__ import annotations

import os
import sys

import pytest

from nvccache.cli import install
from nvccache.real_nvcc import SHIM_MARK, is_ours
from unprivileged import read_only


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shims"


@pytest.fixture
def other_nvcc(tmp_path):
    """A directory with an executable nvcc."""
    (tmp_path / "cuda").mkdir()
    return str(write_program(tmp_path / "cuda" / "nvcc").parent)


def write_program(path, text="#!/bin/sh\n"):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_links_to_the_launcher_and_says_how_to_use_it(nvccache, folder, other_nvcc):
    output = nvccache("install", str(folder), PATH=other_nvcc).output
    path, program = folder / "nvcc", os.path.join(os.path.dirname(sys.executable), "nvccache")
    assert os.readlink(path) == install.launcher() == program
    assert is_ours(path) and os.listdir(folder) == ["nvcc"]
    assert f"linked `{path}` to `{program}`" in output and f'export PATH={folder}:"$PATH"' in output
    assert f"-DCMAKE_CUDA_COMPILER_LAUNCHER={program}" in output
    printed = nvccache.json("install", str(folder), PATH=other_nvcc)
    assert printed == {"shim": str(path), "nvcc": f"{other_nvcc}/nvcc", "cmake_launcher": program}


def test_without_a_launcher_there_is_no_shim(nvccache, folder, monkeypatch):
    """Such as when run from a source directory, which may be called nvccache."""
    (folder.parent / "nvccache").mkdir()
    monkeypatch.setattr(sys, "argv", [str(folder.parent / "nvccache")])
    monkeypatch.setattr(sys, "executable", str(folder.parent / "python"))
    result = nvccache("install", str(folder))
    assert (result.exit_code, folder.exists()) == (1, False)
    assert result.output.startswith("Error: this nvccache was not installed")


def test_the_started_launcher_is_linked_to_as_it_was_called(nvccache, folder, monkeypatch, tmp_path):
    """Such as pipx's link, which stays where it is when the installation moves."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvccache").symlink_to(install.launcher())
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin" / "nvccache"), "install"])
    assert nvccache("install", str(folder)).exit_code == 0
    assert os.readlink(folder / "nvcc") == f"{tmp_path}/bin/nvccache"


def test_own_shim_is_replaced(nvccache, folder):
    """A current one, one whose nvccache was moved, and the script that earlier versions wrote."""
    folder.mkdir()
    path = folder / "nvcc"
    for make in (
        lambda: path.symlink_to(install.launcher()),
        lambda: path.symlink_to("/nowhere/bin/nvccache"),
        lambda: write_program(path, f"#!/nowhere/python -IS\n{SHIM_MARK.decode()}\n"),
    ):
        make()
        result = nvccache("install", str(folder))
        assert (result.exit_code, os.listdir(folder)) == (0, ["nvcc"]), result.output
        assert os.readlink(path) == install.launcher()
        path.unlink()


def test_another_nvcc_is_never_overwritten(nvccache, folder, other_nvcc):
    folder.mkdir()
    path = folder / "nvcc"
    for make in (
        lambda: write_program(path),
        lambda: path.symlink_to(f"{other_nvcc}/nvcc"),
        lambda: path.symlink_to("/nowhere"),
        path.mkdir,
        lambda: os.mkfifo(path),
    ):
        make()
        before = os.lstat(path)
        result = nvccache("install", str(folder))
        assert (result.exit_code, result.output) == (1, f"Error: `{path}` exists and is not nvccache\n")
        assert os.lstat(path).st_ino == before.st_ino
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_directory_that_cannot_be_written_is_one_sentence(nvccache, folder, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    result = nvccache("install", str(tmp_path / "file" / "shims"))
    expected = f"Error: cannot write `{tmp_path}/file/shims/nvcc`: Not a directory\n"
    assert (result.exit_code, result.output) == (1, expected)
    monkeypatch.setattr(install, "launcher", lambda: "/usr/bin/true")  # which every user can see
    folder.mkdir()
    with read_only(folder) as copy:
        result = nvccache("install", copy)
    expected = f"Error: cannot write `{copy}/nvcc`: Permission denied\n"
    assert (result.exit_code, result.output) == (1, expected)
