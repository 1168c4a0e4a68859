"""What is looked up of an nvcc that is a script."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from nvccache import config
from nvccache.records import levels, rehearsed, replay, scripted
from nvccache.records.input_records import InputRecord
from nvccache.records.products import CallResult
from nvccache.records.rehearsed import Becoming, Rehearsal
from nvccache.records.scripted import Script
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


def test_what_is_a_script(nvcc: Path, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert scripted.is_script(str(tmp_path / "script"))
    assert not scripted.is_script(str(nvcc))
    assert not scripted.is_script(str(tmp_path / "absent"))


def test_the_call_behind_it(nvcc: Path) -> None:
    becomes = Becoming(str(nvcc), (str(nvcc), "-c", "a.cu"), ("A=2", "B", "C=3=4"))
    found = scripted.behind(becomes, {"A": "1", "B": "1", "D": "1"})
    assert found
    assert (found.nvcc, found.arguments) == (str(nvcc), ["-c", "a.cu"])
    assert found.environ == {"A": "2", "C": "3=4", "D": "1"}


@pytest.mark.parametrize("name", ["cuda/nvcc", "nvcc"])
def test_nvcc_is_called_by_the_name_that_it_was_given(nvcc: Path, name: str) -> None:
    found = scripted.behind(Becoming(str(nvcc), (name,), ()), {"PATH": f"/absent:{nvcc.parent}"})
    assert found and Path(found.nvcc).resolve() == nvcc


@pytest.mark.parametrize(
    ("name", "variables"), [("other", ()), ("nvcc", ("PATH=/absent",)), ("cuda/nvcc", ("LONG=digest 7",))]
)
def test_what_cannot_be_given_again(nvcc: Path, name: str, variables: tuple[str, ...]) -> None:
    assert scripted.behind(Becoming(str(nvcc), (name,), variables), {"PATH": str(nvcc.parent)}) is None


def test_what_a_record_holds_is_not_run(nvcc: Path, tmp_path: Path) -> None:
    """Somebody else may have put it into the cache: whoever has to run something rehearses the script."""
    typed = tmp_path / "nvcc"
    typed.write_text("#!/bin/sh\n")
    environ = {"NVCCACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    settings = config.load(environ)
    cache = Store(directory.of(settings))
    script = Script(str(typed), ["-c", "a.cu"], environ, "")
    known = Rehearsal(Becoming(str(nvcc), (str(nvcc), "-c", "b.cu"), ()), InputRecord(), False)
    rehearsed.add(scripted.front(script), known, cache, time.time_ns())
    outcome = levels.answer(str(typed), ["-c", "a.cu"], settings, environ)
    assert (outcome.answer, outcome.bypass, outcome.invocation, outcome.program) == (None, None, None, None)
    known = Rehearsal(Becoming(str(nvcc), (str(nvcc), "--dryrun"), ()), InputRecord(), False)
    rehearsed.add(scripted.front(script), known, cache, time.time_ns())
    outcome = levels.answer(str(typed), ["-c", "a.cu"], settings, environ)
    assert outcome.bypass and outcome.bypass.reason == "information"


def test_a_record_for_the_launcher_has_what_a_script_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[InputRecord] = []
    monkeypatch.setattr(replay, "add", lambda call, made, *others: added.append(made))
    settings = config.load({"NVCCACHE_DIR": str(tmp_path / "cache")})
    script = Script("nvcc", [], {}, "")
    for known in (None, InputRecord()):
        script.input_record = known
        if known:
            known.variables = [("SITE", "")]
        cache = Store(directory.of(settings))
        replay.add_of(script, InputRecord(), CallResult(), settings, cache, "")
    assert [made.variables for made in added] == [[("SITE", "")]]
