"""Each change of what a call depends on, as each reader of its records sees it."""

from __future__ import annotations

import time

import pytest

from nvccache.records import facts
from nvccache.records.input_records import InputRecord
from world import ARGUMENTS, CHANGES, COVERED, ENVIRON, UNRELATED, differences, everything, holds


def changed_environ(variables) -> dict[str, str]:
    changed = {**ENVIRON, **variables}
    return {name: value for name, value in changed.items() if value is not None}


def test_every_field_of_an_input_record_has_a_change_in_the_table():
    components = {change.component for change in CHANGES.values()} - {"call"}
    assert {*components, *COVERED} == set(InputRecord.__slots__)


@pytest.mark.parametrize("signed", [True, False])
def test_an_input_record_holds_while_nothing_changes(place, signed):
    assert differences(everything(signed)) == []
    assert differences(InputRecord()) == []


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.component != "call"])
def test_each_kind_of_change_is_reported_by_name(place, name, signed):
    """By signatures and by contents; the launcher refuses more."""
    change = CHANGES[name]
    made = everything(signed)
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    change.do()
    found = differences(made, changed_environ(change.variables), change.machine)
    assert found == change.differences
    assert all("{}" not in facts.sentence(what).format(path) for what, path in found)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_by_the_launcher(recorded, place, name):
    change = CHANGES[name]
    (record,) = recorded.records()
    time.sleep(0.02)
    change.do()
    is_asked_of_python = change.component in ("include_paths", "listings", "machine")
    assert recorded.ask(ARGUMENTS, **change.variables).is_answer == is_asked_of_python
    assert record.exists(), "it may hold again"
    for directory in ("out", "elsewhere"):
        kept = place / directory / "keep"
        assert not kept.exists() or kept.read_text() == "out/keep"


@pytest.mark.parametrize("name", UNRELATED)
def test_changes_that_no_compile_can_notice_invalidate_no_record(recorded, place, name):
    made, change = everything(), UNRELATED[name]
    change.do()
    assert differences(made, changed_environ(change.variables)) == []
    assert holds(recorded, **change.variables)


def test_another_path_of_a_library_in_the_loaders_cache_is_a_change(tmp_path, monkeypatch):
    """Not those of others, nor where they are in the file."""
    path = tmp_path / "ld.so.cache"
    monkeypatch.setattr(facts, "CACHE_OF_LOADER", str(path))

    def answer(content):
        path.write_bytes(content)
        return facts.answer(facts.LIBRARIES, "/etc/ld.so.cache:libm.so.6", {})

    alone = answer(b"\0\0/lib/libm.so.6\0/lib/libx.so\0")
    assert answer(b"\0/lib/liby.so\0/lib/libm.so.6\0/lib/libm.so.60\0/lib/xlibm.so.6\0") == alone
    others = [b"\0/opt/libm.so.6\0", b"\0/lib/libm.so.6\0/opt/libm.so.6\0", b"\0/lib/libx.so\0"]
    assert len({alone, *map(answer, others)}) == 4
    path.unlink()
    assert facts.answer(facts.LIBRARIES, "/etc/ld.so.cache:libm.so.6", {}) == ""
