"""A made-up project from a local index through the steps, with the real nvcc; what is said without tools."""

from __future__ import annotations

import argparse
import hashlib
import io
import tarfile

import projects
import pytest
from real_projects import catalogue, downloads, measuring
from real_projects.catalogue import File, Place, Project

FILES = {
    "Makefile": "%.o: %.cu a.h\n\t$(NVCC) $(FLAGS) -c $< -o $@\n",
    "a.h": "// A header.\n__device__ __forceinline__ int twice(int value) { return 2 * value; }\n",
    "a.cu": """\
#include "a.h"
__global__ void kernel(int *x) {
  *x = twice(*x);
}
int host() {
  return 1;
}
""",
}


@pytest.fixture
def project(tmp_path):
    """In a directory that pip's `find-links` could name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"made-1/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    content = packed.getvalue()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "made-1.tar.gz").write_bytes(content)
    return Project(
        name="made",
        archive=File("made", "made-1.tar.gz", hashlib.sha256(content).hexdigest()),
        root="made-1",
        kind=catalogue.MAKE,
        units=("a.cu",),
        comment=Place("a.h", "// A header."),
        host=Place("a.cu", "int host() {"),
        device=Place("a.cu", "*x = twice(*x);"),
        settings=("NVCC=@NVCC@", "FLAGS=@FLAGS@ -g"),
        architectures=("80",),
        fewer=(),
        more=("80", "90"),
    )


@pytest.fixture
def options(tmp_path):
    return argparse.Namespace(
        cache=tmp_path / "cache",
        jobs=1,
        rounds=1,
        units=1,
        tools=["nvccache"],
        wrapped=True,
        steps=["again", "other checkout", "host edit"],
        work=tmp_path / "work",
    )


@pytest.mark.full
def test_a_project_goes_through_the_steps(project, options, tmp_path, real_nvcc):
    indexes = downloads.Indexes((str(tmp_path / "links"),), ())
    found, kept = measuring.Measured(), []
    task = projects.Task(options, real_nvcc, {}, indexes)
    projects.perform(task, project, tmp_path / "work" / "made", found, lambda: kept.append(len(found.limits)))
    assert kept == [0, 0, 1, 2]
    assert list(found.outcomes) == ["cold", "again", "other checkout", "host edit"]
    assert [found.outcomes[step]["nvccache"].differing for step in found.outcomes] == [{}, {}, {}, {}]
    explained = {step: by_lane["nvccache"].explained["a.cu"] for step, by_lane in found.outcomes.items()}
    outcomes = ["miss", "direct_hit", "partial_hit", "partial_hit"]
    assert [explained[step]["outcome"] for step in explained] == outcomes
    assert any("(compiling)" in stage for stage in found.limits["other checkout"].stages)  # it holds its path
    assert not any("cicc" in stage for stage in found.limits["other checkout"].stages)
    ran = {one["stage"].split()[0] for one in explained["host edit"]["ran"]}
    assert "host_compile" in ran and "ptxas" not in ran
    assert any("(compiling)" in stage for stage in found.limits["host edit"].stages)
    assert not any(stage.startswith("ptxas") for stage in found.limits["host edit"].stages)
    assert (tmp_path / "work/made/first/source/a.cu").read_text() == FILES["a.cu"]


@pytest.mark.parametrize("program", ["cmake", "ninja"])
def test_a_missing_program_is_a_sentence(program, monkeypatch, capsys, tmp_path, real_nvcc):
    monkeypatch.setattr(projects.shutil, "which", lambda name: None if name == program else f"/bin/{name}")
    argv = ["projects.py", "--projects", "llama.cpp", "--nvcc", real_nvcc, "--cache", str(tmp_path)]
    monkeypatch.setattr("sys.argv", argv)
    assert projects.main() == 1
    stderr = capsys.readouterr().err
    assert stderr == f"projects.py: `{program}` is not on PATH, and llama.cpp is built with it\n"


def test_no_network_is_a_sentence(monkeypatch, capsys, tmp_path, real_nvcc):
    monkeypatch.setattr(downloads, "configured", lambda: downloads.Indexes((), ("http://127.0.0.1:9",)))
    argv = ["projects.py", "--projects", "llama.cpp", "--nvcc", real_nvcc, "--cache", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*argv, "--tools", "nvccache"])
    assert projects.main() == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith(
        "projects.py: `llama_cpp_python-0.3.16.tar.gz` is not available: http://127.0.0.1:9"
    )
    assert stderr.count("\n") == 1


def test_a_full_disk_is_a_sentence(project, options, monkeypatch, capsys, tmp_path, real_nvcc):
    def write_nothing(*ignored):
        raise OSError(28, "No space left on device", "/full/file")

    monkeypatch.setattr(projects, "measure_all", write_nothing)
    argv = ["projects.py", "--nvcc", real_nvcc, "--cache", str(tmp_path), "--work", str(tmp_path)]
    monkeypatch.setattr("sys.argv", argv)
    assert projects.main() == 1
    assert capsys.readouterr().err == f"projects.py: no room is left on the disk of `{tmp_path}`\n"
