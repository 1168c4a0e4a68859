"""A process that outlives its call, which does not wait for it."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from nvccache.machine import process

PROGRAM = """
import json, os, sys, time
time.sleep(float(sys.argv[2]))
found = {"open": sorted(os.listdir("/proc/self/fd")), "environ": dict(os.environ), "directory": os.getcwd()}
found |= {"session": os.getsid(0), "pid": os.getpid(), "argv": sys.argv[1:], "path": sys.path}
found["streams"] = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
with open(sys.argv[1] + ".new", "w") as stream:
    json.dump(found, stream)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A module that Python finds in an nvccache package; `start` appends its parent to sys.path."""
    package = tmp_path / "root" / "nvccache"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "detached.py").write_text(PROGRAM)
    monkeypatch.setattr(process.nvccache, "__file__", str(package / "__init__.py"))
    return "nvccache.detached"


def report_in(path):
    until = time.monotonic() + 20
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return json.loads(path.read_text())


@pytest.fixture
def uninstalled(monkeypatch):
    """Put this test's nvccache before the installed one on sys.path."""
    monkeypatch.setattr(
        process,
        "_DETACHED",
        process._DETACHED.replace("append(sys.argv.pop(1))", "insert(0, sys.argv.pop(1))"),
    )


def test_a_detached_process_inherits_nothing_of_its_caller(program, uninstalled, tmp_path):
    out = tmp_path / "report"
    inherited = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    environ = {**os.environ, "MAKEFLAGS": "-j --jobserver-auth=3,4", "_NVCCACHE_SCRATCH": "x", "AWS_KEY": "k"}
    assert process.start_detached(program, [str(out), "0"], environ)
    found = report_in(out)
    os.close(inherited)
    assert len(found["open"]) == 4  # its streams, and the folder that it lists
    assert found["streams"] == [os.devnull] * 3
    assert found["directory"] == "/"
    assert found["session"] == found["pid"]
    assert "MAKEFLAGS" not in found["environ"]
    assert "_NVCCACHE_SCRATCH" not in found["environ"]
    assert found["environ"]["AWS_KEY"] == "k"
    assert found["argv"] == [str(out), "0"]
    assert "" not in found["path"]


def test_a_detached_process_gets_no_library_path_if_our_python_got_none(
    program, uninstalled, tmp_path, monkeypatch
):
    out = tmp_path / "report"
    monkeypatch.setitem(sys._xoptions, "nvccache-held", True)
    assert process.start_detached(program, [str(out), "0"], {**os.environ, "LD_LIBRARY_PATH": "/nowhere"})
    assert "LD_LIBRARY_PATH" not in report_in(out)["environ"]


def test_a_program_that_cannot_be_started_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert not process.start_detached("nvccache", [], {})
