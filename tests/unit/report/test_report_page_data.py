from __future__ import annotations

import json

import made_builds
from made_builds import call, calls_of, hit, stage
from nvccache import outcomes
from nvccache.report import page


def encode(*events):
    return page.encode(calls_of(events), {})


def decode(*events):
    return json.loads(encode(*events))


def test_columns_hold_times_in_tenths_of_milliseconds():
    made = decode(
        call(stage(start=0.5, seconds=1.25), hit()), call(started=made_builds.BEGUN + 2, tool_saved=1.0)
    )
    assert made["begun"] == made_builds.BEGUN
    assert made["calls"]["start"] == [0, 20_000]
    assert made["calls"]["saved"] == [0, 10_000]
    assert made["calls"]["stages"] == [2, 0]
    assert (made["stages"]["start"][0], made["stages"]["seconds"][0]) == (5_000, 12_500)
    assert [made["texts"][number] for number in made["stages"]["result"]] == ["ran", "hit"]


def test_sent_stages_are_listed_by_number():
    made = decode(
        call(stage(), made_builds.away()),
        call(made_builds.away(is_cached=True), stage(away="no_workers"), started=made_builds.BEGUN + 2),
    )
    assert [(number, lasted, made["texts"][index]) for number, lasted, index in made["away"]] == [
        (1, 460_000, "queue 1.00 s, send 2.00 s, run 40.00 s, fetch 3.00 s; 2.0 KiB sent, 6 bytes fetched"),
        (2, 60_000, "from the action cache of the engine: send 2.00 s, fetch 3.00 s; 2.0 KiB sent, 6 bytes"
                    " fetched"),
        (3, 20_000, f"sent to another machine, but run here: {outcomes.EXECUTOR_FAULTS['no_workers']}"),
    ]  # fmt: skip
    assert decode(call(stage()))["away"] == []


def test_hostile_data_cannot_close_the_script_element_of_the_report():
    text = encode(*made_builds.hostile())
    assert "<" not in text
    assert text.isascii() and text.isprintable()


def test_the_report_page_holds_only_the_newest_calls(monkeypatch):
    monkeypatch.setattr(page, "MOST_CALLS", 3)
    starts = (0, 1, 1000, 1001, 5000)
    made = decode(*[call(started=float(start)) for start in starts])
    assert made["begun"] == 1000
    assert made["calls"]["start"] == [0, 10_000, 40_000_000]
