"""Each field of an input record: what it makes a replay record depend on, or why it does not matter."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nvccache.files import presence, signatures
from nvccache.records.input_records import LIBRARIES, InputRecord
from recorded_call import (
    ARGUMENTS,
    OBJECT,
    answer_of_call,
    holds,
    launcher,
    nvcc,
    place,
    places,
    recorded,
    stored,
)
from replays import Launcher

__all__ = ["launcher", "nvcc", "place", "places", "recorded", "stored"]  # fixtures


class Case(NamedTuple):
    """How to make a record with little else, and a change or a variable that must be noticed."""

    make: Callable[[InputRecord], None]
    change: Callable[[], object] | dict[str, str]


def _write(name: str) -> None:
    Path(name).write_text("other")


def _relink(path: str, target: str) -> None:
    os.unlink(path)
    os.symlink(target, path)


def _read(made: InputRecord) -> None:
    made.files, made.kinds = ["late/a.h"], "s"
    made.digests, made.signatures = [""], [signatures.of("late/a.h") or signatures.UNKNOWN]


def _seen_otherwise(made: InputRecord) -> None:
    _read(made)
    device, inode, size, modified, changed = made.signatures[0]
    made.signatures = [(device, inode, size, modified, changed - 1)]


def _directory(made: InputRecord) -> None:
    made.directories, made.names = ["early"], [["-x.h"]]
    made.directory_signatures = [signatures.of("early") or signatures.UNKNOWN]


def _directory_seen_otherwise(made: InputRecord) -> None:
    _directory(made)
    made.directory_signatures = [(1, 2, 3, 4, 5)]


def _names(made: InputRecord) -> None:
    made.directories, made.names, made.directory_signatures = ["listed"], [["-x.h"]], [signatures.UNKNOWN]


def _caches(made: InputRecord) -> None:
    made.machine = [(LIBRARIES, "caches:libm.so.6", "x")]
    made.cache_signatures = [signatures.of("caches") or signatures.UNKNOWN]


def _links(made: InputRecord) -> None:
    made.links = [("nvcc", os.path.realpath("nvcc"))]


def _plain(made: InputRecord) -> None:
    made.plain = ["parts"]


def _identities(made: InputRecord) -> None:
    made.identities = [("early", "early"), ("listed/same", "early")]


def _variables(made: InputRecord) -> None:
    made.variables = [("ASKED", "")]


def _sought(made: InputRecord) -> None:
    made.sought, made.search_path = ["as"], "/usr/bin:/bin"


# Fields that only Python can check: values that keep a call from being recorded.
NOT_RECORDED: dict[str, Callable[[InputRecord], None]] = {
    "listings": lambda made: made.listings.append(("parts", presence.digest_of_listing("parts"))),
    "machine": lambda made: made.machine.append(("host", "", "x")),
    "dates": lambda made: made.dates.append(("of nobody's", "")),
}
CASES = {
    "files": Case(_read, lambda: os.utime("late/a.h")),
    "signatures": Case(_seen_otherwise, lambda: None),
    "directories": Case(_directory, lambda: _write("early/x.h")),
    "directory_signatures": Case(_directory_seen_otherwise, lambda: None),
    "names": Case(_names, lambda: _write("listed/x.h")),
    "cache_signatures": Case(_caches, lambda: _write("caches")),
    "links": Case(_links, lambda: _relink("nvcc", "caches")),
    "plain": Case(_plain, lambda: (os.rename("parts", "moved"), os.symlink("moved", "parts"))),
    "identities": Case(_identities, lambda: _relink("listed/same", "../late")),
    "variables": Case(_variables, {"ASKED": "2"}),
    "sought": Case(_sought, {"PATH": "/elsewhere"}),
    "search_path": Case(_sought, {"PATH": "/bin:/usr/bin"}),
}
# Fields that files' signatures cover, or that every record has.
WITHOUT_SAY = {
    "kinds": "of the files",
    "digests": "of the files",
    "duplicates": "of files, by their dates and inodes",
    "is_observed": "whether the rest may be relied upon at all",
    "reader": "that of the process, see the test of it",
}


def test_each_field_has_a_case() -> None:
    assert {*CASES, *NOT_RECORDED, *WITHOUT_SAY} == set(InputRecord.__slots__)


@pytest.mark.parametrize("field", CASES)
def test_what_a_field_says_is_compared(launcher: Launcher, nvcc: str, field: str) -> None:
    make, change = CASES[field]
    made = InputRecord()
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    assert holds(launcher)
    make(made)
    assert launcher.record(nvcc, ARGUMENTS, made, answer_of_call())
    if isinstance(change, dict):
        assert holds(launcher)
        assert not holds(launcher, **change)
    else:
        assert holds(launcher) == (not field.endswith("signatures") or field == "cache_signatures")
        change()
        assert not holds(launcher)


@pytest.mark.parametrize("field", NOT_RECORDED)
def test_what_python_has_to_ask_is_not_recorded(launcher: Launcher, nvcc: str, field: str) -> None:
    made = InputRecord()
    NOT_RECORDED[field](made)
    assert not launcher.record(nvcc, ARGUMENTS, made, answer_of_call())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("who", [{"extra_groups": [12345]}, {"group": 12345}], ids=str)
def test_another_reader_has_no_answer(recorded: Launcher, place: Path, who: dict[str, object]) -> None:
    recorded.become = who
    for path in (place, *place.parents[:2], place / "out"):
        os.chmod(path, 0o777)
    assert not recorded.ask(ARGUMENTS).is_answer
    recorded.become = {}
    assert recorded.ask(ARGUMENTS).is_answer
    assert (place / "out/a.o").read_bytes() == OBJECT
