"""The header of the launcher's C is what its generator writes, which is also the check of a stale one."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from installations import NATIVE

SCRIPT = NATIVE / "generate_native_header.py"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs `main`, which has a file of its own for the header."""
    script = runpy.run_path(str(SCRIPT))
    monkeypatch.setitem(script["main"].__globals__, "HEADER", str(tmp_path / "shared.h"))

    def main(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        return script["main"]()

    return main


def test_the_committed_native_header_is_up_to_date(run, tmp_path: Path) -> None:
    assert run() == 0
    assert (tmp_path / "shared.h").read_text() == (NATIVE / "launcher" / "shared.h").read_text()


def test_a_stale_native_header_and_a_wrong_argument_are_refused(run, tmp_path: Path) -> None:
    run()
    written = (tmp_path / "shared.h").read_text()
    assert run("--check") == 0
    (tmp_path / "shared.h").write_text(written + "\n")
    for arguments, message in (
        (["--check"], "is stale"),
        (["--chek"], "--check"),
        (["--check", "x"], "--check"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(*arguments)
    assert (tmp_path / "shared.h").read_text() == written + "\n"
