"""The command that adds an extra, for each way in which nvccache may have been installed."""

from __future__ import annotations

import importlib.metadata
import shlex
import sys

import pytest

from nvccache.cli import install

RECEIPT = '[tool]\nrequirements = [{{ name = "nvccache", directory = "{}" }}]\n'


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An environment that this Python seems to be of."""
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
