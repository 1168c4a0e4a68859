"""The shim that `install` makes."""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from nvccache.cli import install
from nvccache.nvcc_lookup import is_ours


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shims"


def write_program(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_install_links_nvcc_to_the_launcher_and_prints_the_path_line(nvccache, folder, tmp_path):
    write_program(tmp_path / "cuda" / "nvcc")
    output = nvccache("install", str(folder), PATH=f"{tmp_path}/cuda").output
    path, program = folder / "nvcc", os.path.join(os.path.dirname(sys.executable), "nvccache")
    assert os.readlink(path) == install.launcher() == program
    assert is_ours(path) and os.listdir(folder) == ["nvcc"]
    assert output.splitlines() == [
        f"linked `{path}` to `{program}`",
        "",
        "Put its directory first on PATH, so that builds find this link before the real nvcc:",
        f'  export PATH={folder}:"$PATH"',
        "CMake needs the link only for device links; for compiles, this is enough:",
        f"  cmake -DCMAKE_CUDA_COMPILER_LAUNCHER={program} ...",
    ]
    printed = nvccache.json("install", str(folder), PATH=f"{tmp_path}/cuda")
    assert printed == {"shim": str(path), "nvcc": f"{tmp_path}/cuda/nvcc", "cmake_launcher": program}


def test_install_fails_if_nvccache_was_not_installed_with_its_launcher(nvccache, folder, monkeypatch):
    """Such as when run from a source directory, which may be called nvccache."""
    (folder.parent / "nvccache").mkdir()
    monkeypatch.setattr(sys, "argv", [str(folder.parent / "nvccache")])
    monkeypatch.setattr(sys, "executable", str(folder.parent / "python"))
    result = nvccache("install", str(folder))
    assert (result.exit_code, folder.exists()) == (1, False)
    assert result.output.startswith("Error: this nvccache was not installed")


def test_install_links_to_the_path_by_which_nvccache_was_called(nvccache, folder, monkeypatch, tmp_path):
    """Such as pipx's link, which stays where it is when the installation moves."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvccache").symlink_to(install.launcher())
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin" / "nvccache"), "install"])
    assert nvccache("install", str(folder)).exit_code == 0
    assert os.readlink(folder / "nvcc") == f"{tmp_path}/bin/nvccache"


@pytest.mark.parametrize("program", [install.launcher(), "/nowhere/bin/nvccache"])
def test_install_replaces_an_older_link_to_nvccache(nvccache, folder, program):
    folder.mkdir()
    (folder / "nvcc").symlink_to(program)
    result = nvccache("install", str(folder))
    assert (result.exit_code, os.listdir(folder)) == (0, ["nvcc"]), result.output
    assert os.readlink(folder / "nvcc") == install.launcher()


@pytest.mark.parametrize(
    "make", [write_program, lambda path: path.symlink_to("/nowhere"), Path.mkdir, os.mkfifo]
)
def test_install_never_overwrites_another_nvcc(nvccache, folder, make):
    folder.mkdir()
    path = folder / "nvcc"
    make(path)
    before = os.lstat(path)
    result = nvccache("install", str(folder))
    assert (result.exit_code, result.output) == (1, f"Error: `{path}` exists and is not nvccache\n")
    assert os.lstat(path).st_ino == before.st_ino


def test_install_into_an_unwritable_place_is_one_error_sentence(nvccache, tmp_path):
    (tmp_path / "file").write_text("")
    result = nvccache("install", str(tmp_path / "file" / "shims"))
    expected = f"Error: cannot write `{tmp_path}/file/shims/nvcc`: Not a directory\n"
    assert (result.exit_code, result.output) == (1, expected)


def test_the_command_for_an_extra_installs_its_packages_next_to_this_nvccache(monkeypatch):
    """Not `nvccache[remote]`, which pip would take from an index."""
    program = shlex.quote(sys.executable)
    command = install.install_command("remote")
    assert re.fullmatch(rf"{re.escape(program)} -m pip install '?opendal\S+ '?redis\S+", command)
    monkeypatch.setattr(metadata, "requires", lambda name: None)
    assert install.install_command("remote") == f"{program} -m pip install 'nvccache[remote]'"
    monkeypatch.setattr(metadata, "requires", lambda name: metadata.distribution("no-such-package"))
    assert install.install_command("remote") == f"{program} -m pip install 'nvccache[remote]'"
