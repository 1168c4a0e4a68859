"""Dependency files, byte for byte as the real nvcc writes them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nvccache import passes
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.plan import build
from nvccache.plan.model import Plan
from nvccache.records import products
from nvccache.records.products import render, target
from nvccache.toolkit import dryrun

SOURCE = """\
#include "in c/b l.h"
#include "cycle_a.h"
#include <q"uote.h>
#include "ünï.h"
#include "back\\slash.h"
#include "do$lar#hash%.h"
#include "system.h"
#line 100 "bogus.y"
#include "after_line.h"
#ifdef __CUDA_ARCH__
#include "device_only.h"
#if __CUDA_ARCH__ >= 900
#include "sm90_only.h"
#endif
#else
#include "host_only.h"
#endif
#line 1 "/dev/stdin"
#line 1 "nowhere/"
#line 1 "<odd>"
#line 1 ""
#line 1 "a b\\\\c\\"d.y"
#line 1 "host_only.h"
# 1 "of_system.y" 3
#line 1 "out/../after.y"
__global__ void k(int *p) { *p = 1; }
"""
HEADERS = {
    "in c/b l.h": '#pragma once\n#include "nested.h"\n',
    "in c/nested.h": "",
    "cycle_a.h": '#ifndef A\n#define A\n#include "cycle_b.h"\n#endif\n',
    "cycle_b.h": '#include "cycle_a.h"\n#include "cycle_a.h"\n',
    'q"uote.h': "",
    "ünï.h": "int u;\n",
    "back\\slash.h": "",
    "do$lar#hash%.h": "",
    "sys/system.h": '#include "inner.h"\n#include <vector>\n',
    "sys/inner.h": "",
    "after_line.h": "",
    "device_only.h": "",
    "sm90_only.h": "",
    "host_only.h": "",
}
TWO = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=sm_90")


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {**HEADERS, "sp ace/a.b.cu": SOURCE, "c.cpp": '#include "host_only.h"\n'}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("out", "keep"):
        (tmp_path / name).mkdir()
    return tmp_path


def _ours(nvcc: str, argv: list[str], directory: Path) -> dict[str, bytes]:
    """Path -> content of the dependency files that follow from the preprocessed text in a directory."""
    parsed = invocation.parse(argv, {})
    assert isinstance(parsed, Invocation) and parsed.dependencies is not None
    transcript = dryrun.transcribe(nvcc, parsed.dryrun_arguments, str(directory), os.environ)
    assert isinstance(transcript, dryrun.Transcript)
    planned = build.plan_of(transcript, parsed, str(directory))
    assert isinstance(planned, Plan)
    found = {}
    for step in planned.dependency_files:
        listed = [passes.listed_files(Path(path).read_bytes()) for path in step.preprocessed]
        found[step.path] = products.rule(passes.union(listed), parsed)
    return found


@pytest.mark.parametrize(
    "argv",
    [
        ["-MD", "-c", *TWO, "-o", "out/x y.o"],
        ["-MD", "-MP", "-cubin", "-MT", "a $t", "-odir", "out/", "-MF", "d e.d"],
        ["-MMD", "-c", "-x", "cu", "c.cpp", "-odir", "out"],
    ],
    ids=" ".join,
)
def test_dependency_files_are_those_of_nvcc(nvcc, project, argv):
    argv = [*argv, "-I", ".", "-isystem", "sys", "sp ace/a.b.cu"]
    done = subprocess.run([nvcc, *argv, "-keep", "-keep-dir", "keep"], check=True, capture_output=True)
    assert done.stdout == b""
    ours = _ours(nvcc, argv, project / "keep")
    assert ours
    for path, rule in ours.items():
        assert rule == (project / path).read_bytes()


@pytest.mark.parametrize(
    ("source", "chosen", "directory", "expected"),
    [
        (b"dir/a.b.cu", None, "", b"a.b.o"),
        (b"a.cu", None, "out", b"out/a.o"),
        (b"a.cu", None, "out/", b"out//a.o"),
        (b"a.cu", "x/y.ptx", "", b"x/y.ptx"),
        (b"a.cu", "/abs", "out", b"out//abs"),
        (b"a.cu", "", "", b""),
        (b"\xff.cu", None, "", b"\xff.o"),
    ],
)
def test_the_target_of_a_dependency_rule_is_the_output_or_the_sources_object(
    source, chosen, directory, expected
):
    assert target(source, chosen, directory) == expected


@pytest.mark.parametrize(
    ("target", "files", "phony", "expected"),
    [
        (b"a b.o", [b"c d.cu", b"e.h"], False, b"a b.o : c\\ d.cu \\\n    e.h\n"),
        # Headers of odd names stand there as nvcc misreads them.
        (
            b"a.o",
            [b'b\\s"q.cu', b"b\\s.h", b'q"uote.h', b'b\\"x.h'],
            False,
            b'a.o : b\\s"q.cu \\\n    b/s.h \\\n    q\\ \\\n    b/\\\n',
        ),
        (b"a.o", [b"a.cu", b"b.h"], True, b"a.o : a.cu \\\n    b.h\n\nb.h:\n"),
    ],
)
def test_dependency_rules_are_escaped_and_wrapped_as_by_nvcc(target, files, phony, expected):
    assert render(target, files, phony) == expected
