"""The shim that `install` makes, and the command that adds an extra, however nvccache was installed."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import subprocess
import sys

import pytest

from nvccache.cli import install
from nvccache.real_nvcc import SHIM_MARK, is_ours
from unprivileged import read_only


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "shims"


@pytest.fixture
def fake_nvcc(tmp_path):
    """A directory with an executable nvcc that prints its arguments."""
    (tmp_path / "cuda").mkdir()
    return str(write_program(tmp_path / "cuda" / "nvcc").parent)


def write_program(path, text='#!/bin/sh\necho real "$@"\n'):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_links_to_the_launcher_and_says_how_to_use_it(nvccache, folder, fake_nvcc):
    result = nvccache("install", str(folder), PATH=fake_nvcc)
    assert result.exit_code == 0
    path = folder / "nvcc"
    program = os.path.join(os.path.dirname(sys.executable), "nvccache")
    assert os.readlink(path) == install.launcher() == program
    assert is_ours(path)
    assert os.listdir(folder) == ["nvcc"]
    assert f"linked `{path}` to `{program}`" in result.output
    assert f'export PATH={folder}:"$PATH"' in result.output
    assert "cmake -DCMAKE_CUDA_COMPILER_LAUNCHER=" in result.output
    assert "NVCCACHE_NVCC" not in result.output


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


def test_own_modules_are_found_without_site_packages(tmp_path):
    """`doctor` and `demo` start processes that way."""
    words = install.private_launcher()
    version = subprocess.run([*words, "--version"], cwd=tmp_path, env={}, capture_output=True, check=True)
    assert version.stdout.startswith(b"nvccache ")
    words[-1] = (
        words[-1].partition("from ")[0] + "import nvccache, blake3, xxhash, zstandard, filelock, click"
    )
    subprocess.run(words, cwd=tmp_path, env={}, check=True)


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


def test_without_a_directory_it_is_that_of_the_users_data(nvccache, tmp_path, fake_nvcc):
    made = nvccache("install", HOME=str(tmp_path), XDG_DATA_HOME="", PATH=fake_nvcc)
    assert made.exit_code == 0, made.output
    assert is_ours(str(tmp_path / ".local/share/nvccache/bin/nvcc"))
    made = nvccache("install", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"), PATH=fake_nvcc)
    assert is_ours(str(tmp_path / "data/nvccache/bin/nvcc"))


def test_a_foreign_nvcc_is_never_overwritten(nvccache, folder, fake_nvcc):
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
        assert result.output == f"Error: `{path}` exists and is not nvccache\n"
        assert os.lstat(path).st_ino == before.st_ino
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_directory_that_cannot_be_made_is_one_sentence(nvccache, tmp_path):
    (tmp_path / "file").write_text("")
    result = nvccache("install", str(tmp_path / "file" / "shims"))
    assert result.exit_code == 1
    assert result.output == f"Error: cannot write `{tmp_path}/file/shims/nvcc`: Not a directory\n"


def test_directory_that_cannot_be_written_is_one_sentence(nvccache, folder, monkeypatch):
    monkeypatch.setattr(install, "launcher", lambda: "/usr/bin/true")  # which every user can see
    folder.mkdir()
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


RECEIPT = '[tool]\nrequirements = [{{ name = "nvccache", directory = "{}" }}]\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An environment that this Python seems to belong to."""
    (tmp_path / "nvccache" / "bin").mkdir(parents=True)
    (tmp_path / "nvccache" / "pyvenv.cfg").write_text("")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/nvccache/bin/python3")
    return tmp_path / "nvccache"


def installed_by(monkeypatch, name, folder="/usr/lib"):
    class Found:
        requires = ("click>=8", 'opendal<0.48; extra == "remote"', "grpcio; extra == 'exec'")
        locate_file = staticmethod(lambda _: folder)
        read_text = staticmethod(lambda _: f"{name}\n")

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Found)


def test_pipx(root, monkeypatch):
    installed_by(monkeypatch, "uv")  # which pipx may have do it
    (root / "pipx_metadata.json").write_text("{}")
    assert install.adding("remote") == "pipx inject nvccache 'opendal<0.48'"


@pytest.mark.parametrize("is_left", [True, False])
def test_a_tool_of_uv(root, monkeypatch, tmp_path, is_left):
    installed_by(monkeypatch, "uv")
    source = tmp_path if is_left else tmp_path / "gone"
    (root / "uv-receipt.toml").write_text(RECEIPT.format(source))
    start = f"uv tool install {source} --with" if is_left else f"uv pip install --python {sys.executable}"
    assert install.adding("remote") == f"{start} 'opendal<0.48'"


@pytest.mark.parametrize(
    ("installer", "start"), [("pip", "{} -m pip install"), ("uv", "uv pip install --python {}")]
)
def test_a_virtual_environment(root, monkeypatch, installer, start):
    installed_by(monkeypatch, installer)
    assert install.adding("exec") == start.format(sys.executable) + " grpcio"


@pytest.mark.parametrize("is_managed", [True, False])
def test_a_users_own_modules(root, monkeypatch, tmp_path, is_managed):
    (root / "pyvenv.cfg").unlink()
    if is_managed:
        (tmp_path / "EXTERNALLY-MANAGED").write_text("")
    monkeypatch.setattr(install.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(install.site, "getuserbase", lambda: "/home/me/.local")
    installed_by(monkeypatch, "pip", "/home/me/.local/lib/python3.11/site-packages")
    options = ["--user"] + ["--break-system-packages"] * is_managed
    assert shlex.split(install.adding("exec")) == [sys.executable, "-m", "pip", "install", *options, "grpcio"]


def test_modules_that_were_not_installed(monkeypatch):
    def missing(_):
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install.adding("remote") == "pip install 'nvccache[remote]'"
