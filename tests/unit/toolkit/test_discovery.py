from __future__ import annotations

import importlib
import os
import sys

import pytest

from nvccache.toolkit import discovery
from nvccache.toolkit.discovery import find_nvcc, is_real, release_of

IN_WHEELS = discovery._in_wheels


@pytest.fixture(autouse=True)
def only_path(monkeypatch):
    """Hide the toolkits of this machine."""
    monkeypatch.setattr(discovery.glob, "glob", lambda pattern: [])
    monkeypatch.setattr(discovery, "_in_wheels", lambda: iter(()))
    monkeypatch.setattr(discovery, "_DEFAULT_NVCC", "/nowhere/nvcc")


@pytest.fixture
def make_nvcc(tmp_path):
    def make(folder, release="13.0", name="nvcc"):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        says = f"echo 'Cuda compilation tools, release {release}, V{release}.88'"
        path.write_text(f'#!/bin/sh\n[ "$*" = --version ] && {says}\n')
        path.chmod(0o755)
        return str(path)

    return make


def path_of(*programs):
    return {"PATH": ":".join(os.path.dirname(program) for program in programs)}


def test_the_first_nvcc_on_path_is_found(make_nvcc):
    first, second = make_nvcc("a"), make_nvcc("b")
    assert find_nvcc(path_of(first, second)) == first
    assert find_nvcc({"PATH": "/nowhere::"}) is None


def test_shims_and_links_to_nvccache_are_passed_over(make_nvcc, tmp_path):
    real, program = make_nvcc("c"), make_nvcc("bin", name="nvccache")
    (tmp_path / "b").mkdir()
    os.symlink(program, tmp_path / "b" / "nvcc")
    link = str(tmp_path / "b" / "nvcc")
    assert find_nvcc(path_of(link, real)) == find_nvcc(path_of(real), configured=link) == real


def test_a_file_that_is_not_executable_is_not_a_real_nvcc(make_nvcc, tmp_path):
    path = make_nvcc("a")
    os.chmod(path, 0o644)
    assert not is_real(path)
    assert not is_real(str(tmp_path))
    assert not is_real(str(tmp_path / "missing"))
    assert release_of(path) == release_of("/bin/false") == release_of("/bin/true") == ""


def test_an_nvcc_of_a_release_is_found_by_the_first_parts_of_its_version(make_nvcc, monkeypatch):
    old, new = make_nvcc("a", "1.3"), make_nvcc("b", "13.5")
    monkeypatch.setattr(discovery.glob, "glob", lambda pattern: [new])
    assert find_nvcc(path_of(old), release="13") == new
    assert find_nvcc(path_of(old), release="13.5") == new
    assert find_nvcc(path_of(old), release="13.0") is None
    assert release_of(old) == "1.3"
    assert release_of("/nowhere") == ""


def test_a_configured_nvcc_overrides_path(make_nvcc):
    on_path, named, elsewhere = make_nvcc("a"), make_nvcc("a", name="nvcc-13"), make_nvcc("b")
    assert find_nvcc(path_of(on_path), configured=elsewhere) == elsewhere
    assert find_nvcc(path_of(on_path), configured="nvcc-13") == named
    assert find_nvcc(path_of(on_path), configured="/nowhere/nvcc") is None
    assert find_nvcc(path_of(on_path), configured="nvcc-14") is None


def test_without_nvcc_on_path_the_newest_toolkit_is_found_and_then_the_wheels(make_nvcc, monkeypatch):
    toolkits = [make_nvcc(f"cuda-{release}") for release in ("9.2", "12.4", "13.0")]
    wheel = make_nvcc("wheel")
    monkeypatch.setattr(discovery, "_in_wheels", lambda: iter([wheel]))
    assert find_nvcc({"PATH": "/nowhere"}) == wheel
    monkeypatch.setattr(discovery.glob, "glob", lambda pattern: toolkits)
    assert find_nvcc({"PATH": "/nowhere"}) == toolkits[-1]


def test_the_wheels_have_nvcc_in_each_folder_of_a_namespace_package(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path / name) for name in ("one", "two", "three")])
    assert list(IN_WHEELS()) == []
    for name in ("one/nvidia/cu13", "two/nvidia/cu13", "three/nvidia"):
        (tmp_path / name).mkdir(parents=True)
    importlib.invalidate_caches()
    assert list(IN_WHEELS()) == [f"{tmp_path}/{name}/nvidia/cu13/bin/nvcc" for name in ("one", "two")]


def test_a_missing_nvcc_is_explained_by_the_setting_or_by_where_it_was_looked_for(tmp_path):
    environ = {"PATH": str(tmp_path)}
    assert discovery.why_none("", "default", environ) == "there is no nvcc on PATH or below /usr/local"
    assert discovery.why_none(f"{tmp_path}/gone", "NVCCACHE_NVCC", environ).startswith(
        f"cannot run `{tmp_path}/gone`, which is set in NVCCACHE_NVCC"
    )
