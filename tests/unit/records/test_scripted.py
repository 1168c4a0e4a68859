"""Lookups for an nvcc that is a script."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from nvccache import config
from nvccache.commandline.invocation import Bypass
from nvccache.records import levels, rehearsed, replay, scripted
from nvccache.records.input_records import InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.records.rehearsed import CompilerCall, Rehearsal
from nvccache.records.request import Request
from nvccache.store import directory
from nvccache.store.store import Store


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiled nvcc, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cuda" / "nvcc"
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """An nvcc that is a script."""
    path = tmp_path / "nvcc"
    path.write_text("#!/bin/sh\n")
    return path


def called(nvcc: Path, environ: dict[str, str]) -> Request:
    return Request(str(nvcc), ["-c", "a.cu"], environ, config.load(environ))


def test_what_is_a_script(nvcc: Path, typed: Path, tmp_path: Path) -> None:
    assert called(typed, {}).is_script
    assert not called(nvcc, {}).is_script
    assert not called(tmp_path / "absent", {}).is_script


def test_the_call_behind_it(nvcc: Path, typed: Path) -> None:
    call = CompilerCall(str(nvcc), (str(nvcc), "-c", "a.cu"), ("A=2", "B", "C=3=4"))
    found = scripted.request_for(call, called(typed, {"A": "1", "B": "1", "D": "1"}))
    assert found and not found.is_script
    assert (found.nvcc, found.arguments) == (str(nvcc), ["-c", "a.cu"])
    assert found.environ == {"A": "2", "C": "3=4", "D": "1"}


@pytest.mark.parametrize("name", ["cuda/nvcc", "nvcc"])
def test_nvcc_is_called_by_the_name_that_it_was_given(nvcc: Path, typed: Path, name: str) -> None:
    environ = {"PATH": f"/absent:{nvcc.parent}"}
    found = scripted.request_for(CompilerCall(str(nvcc), (name,), ()), called(typed, environ))
    assert found and Path(found.nvcc).resolve() == nvcc


@pytest.mark.parametrize(("name", "variables"), [("other", ()), ("nvcc", ("PATH=/absent",))])
def test_what_cannot_be_given_again(nvcc: Path, typed: Path, name: str, variables: tuple[str, ...]) -> None:
    script = called(typed, {"PATH": str(nvcc.parent)})
    assert scripted.request_for(CompilerCall(str(nvcc), (name,), variables), script) is None


def test_what_a_record_holds_is_not_run(nvcc: Path, typed: Path, tmp_path: Path) -> None:
    """An attacker may have put it into the cache: a call that has to run something rehearses the script."""
    script = called(typed, {"NVCCACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)})
    cache = Store(directory.of(script.config))
    known = Rehearsal(CompilerCall(str(nvcc), (str(nvcc), "-c", "b.cu"), ()), InputRecord(), False)
    rehearsed.add(scripted.front_key(script), known, cache, time.time_ns())
    assert levels.answer(script) is None
    assert not hasattr(script, "invocation")
    known = Rehearsal(CompilerCall(str(nvcc), (str(nvcc), "--dryrun"), ()), InputRecord(), False)
    rehearsed.add(scripted.front_key(script), known, cache, time.time_ns())
    found = levels.answer(script)
    assert isinstance(found, Bypass) and found.reason == "information"


def test_a_record_for_the_launcher_has_what_a_script_depends_on(
    nvcc: Path, typed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[InputRecord] = []
    monkeypatch.setitem(sys._xoptions, "nvccache-replay", "name")
    monkeypatch.setattr(replay, "add", lambda name, argv, request, made, *others: added.append(made))
    script = called(typed, {})
    compiled = Request(str(nvcc), [], {}, script.config, script)
    for known in (None, InputRecord()):
        script.input_record = known
        if known:
            known.variables = [("SITE", "")]
        replay.add_of_process(compiled, InputRecord(), Answer(Result()), Store("/nowhere"), 0)
    assert [made.variables for made in added] == [[("SITE", "")]]
