from __future__ import annotations

import json

import made_builds
from made_builds import call, calls_of, hit, stage
from nvccache.report import page


def encode(*events):
    return page.encode(calls_of(events), {})


def decode(*events):
    return json.loads(encode(*events))


def test_the_report_page_holds_times_in_tenths_of_milliseconds():
    made = decode(
        call(stage(start=0.5, seconds=1.25), hit()), call(started=made_builds.BEGUN + 2, tool_saved=1.0)
    )
    assert made["begun"] == made_builds.BEGUN
    assert made["calls"]["start"] == [0, 20_000]
    assert made["calls"]["saved"] == [0, 10_000]
    assert made["calls"]["stages"] == [2, 0]
    assert (made["stages"]["start"][0], made["stages"]["seconds"][0]) == (5_000, 12_500)
    assert [made["texts"][number] for number in made["stages"]["result"]] == ["ran", "hit"]


def test_a_stage_on_another_machine_lasts_until_it_returns():
    made = decode(call(stage(), made_builds.away(), made_builds.away(was_cached=True)))
    assert made["stages"]["lasted"] == [20_000, 460_000, 460_000]
    assert made["lanes"][1][1] == "job 1 on grpc://host:1"


def test_a_stage_has_the_colour_of_its_tool_unless_it_failed_or_is_unknown():
    made = decode(call(stage(), stage(result="failed"), stage(kind="tomorrows"), stage(result="tomorrows")))
    assert [made["texts"][number] for number in made["stages"]["kind"]] == ["cicc", "failed", "other", "cicc"]
    assert [made["texts"][number] for number in made["stages"]["result"]] == ["ran", "failed", "ran", "ran"]


def test_hostile_data_cannot_close_the_script_element_of_the_report():
    text = encode(*made_builds.hostile())
    assert "<" not in text
    assert text.isascii() and text.isprintable()
    assert all(each.isprintable() for each in json.loads(text)["texts"])


def test_the_report_page_holds_only_the_newest_calls(monkeypatch):
    monkeypatch.setattr(page, "MOST_CALLS", 3)
    starts = (0, 1, 1000, 1001, 5000)
    made = decode(*[call(started=float(start)) for start in starts])
    assert made["begun"] == 1000
    assert made["calls"]["start"] == [0, 10_000, 40_000_000]
