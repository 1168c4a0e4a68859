"""Misspelt commands: compilers are still run, or reported as such."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from nvccache.cli import names

PROGRAM = "import sys; sys.argv[0] = 'nvccache'; from nvccache import shim; sys.exit(shim.main())"
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(names.__file__)))


def run(argv, path, *options):
    environ = {"PATH": path, "HOME": "/nonexistent", "NVCCACHE_DISABLE": "1", "PYTHONPATH": SOURCE}
    started = [sys.executable, *options, "-c", PROGRAM, *argv]
    return subprocess.run(started, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("stat", "stats"), ("cleen", "clean"), ("claen", "clean"), ("CLEAN", "clean"), ("explian", "explain"),
     ("docter", "doctor"), ("confg", "config"), ("instal", "install"), ("compile", ""), ("frobnicate", "")],
)  # fmt: skip
def test_the_nearest_command_is_named(nvccache, word, meant):
    result = nvccache(word)
    assert result.exit_code == 2
    printed = f"Error: no such command `{word}`" + (f"; did you mean `{meant}`?" if meant else "")
    assert result.output.splitlines()[0] == printed


@pytest.mark.parametrize("word", ["stat", "cleen", "clena"])
def test_a_misspelt_command_is_no_missing_compiler(word):
    done = run([word], "/nonexistent")
    assert done.returncode == 2
    assert "did you mean" in done.stderr.splitlines()[0]


@pytest.mark.parametrize(
    "word", ["clang", "clang-18", "gcc", "x86_64-linux-gnu-g++-12", "nvcc", "cl", "icpx", "nvc++"]
)
def test_a_compiler_that_is_missing_is_reported_as_one(word):
    done = run([word, "-c", "a.cu"], "/nonexistent")
    assert done.returncode == 127
    assert done.stderr == f"nvccache: there is no compiler `{word}` on PATH besides nvccache\n"


def test_a_compiler_of_a_name_like_a_command_is_run(tmp_path):
    program = tmp_path / "cleen"
    program.write_text("#!/bin/sh\necho compiled $1\n")
    program.chmod(0o755)
    assert run(["cleen", "a.cu"], str(tmp_path)).stdout == "compiled a.cu\n"
    assert "did you mean `clean`?" in run(["cleen"], str(tmp_path)).stderr
    program.chmod(0o644)
    assert run(["cleen", "a.cu"], str(tmp_path)).returncode == 2


def test_a_launched_nvcc_does_not_ask_what_was_meant(tmp_path):
    program = tmp_path / "nvcc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    shown = run(["nvcc"], str(tmp_path), "-X", "importtime").stderr
    assert "nvccache.shim" in shown and "difflib" not in shown
