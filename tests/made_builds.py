"""Events, made up: single ones, and those of builds of any size."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

from nvccache.store import event_line
from nvccache.store.event_line import CACHED, HIT, RAN, Event, Record, StageEvent

R = TypeVar("R", bound=Record)

HOSTILE = (
    "</script><script>window.harmed=1</script>\"'<img src=x onerror=window.harmed=1>&amp;"
    "\udcff\u202e\x1b[2J`${1}"
)
BEGUN = 1_795_364_584.25
_PARTS = (
    ("host_preprocess", "", 0.3),
    ("cudafe", "", 0.5),
    ("device_preprocess", "compute_80", 0.3),
    ("cicc", "compute_80", 3.2),
    ("ptxas", "sm_80", 1.5),
    ("cicc", "compute_90", 3.4),
    ("ptxas", "sm_90", 1.6),
    ("host_compile", "", 1.2),
)
_CAUSES = ("`../src/tensor.h` changed", "`../include/config.h` changed", "the option `-O3` is new")


def stage(**changes: object) -> StageEvent:
    made = StageEvent("cicc", RAN, 2.0, "compute_80")
    made.start, made.slot = 0.1, 0
    return _changed(made, changes)


def away(was_cached: bool = False, **changes: object) -> StageEvent:
    """A stage that ran on another machine, or whose result the engine had."""
    where = {"slot": -1, "where": "grpc://host:1", "away": CACHED if was_cached else ""}
    return stage(**{**where, "seconds": 46.0, "cpu": 40.0} | changes)


def hit(**changes: object) -> StageEvent:
    return stage(**{"result": HIT, "slot": -1, "where": ""} | changes)


def call(*stages: StageEvent, **changes: object) -> Event:
    made = Event("miss", started=BEGUN)
    made.seconds, made.directory, made.sources = 3.0, "/home/me/build", ["../src/a.cu"]
    made.product, made.pid = "/home/me/build/a.o", 4711
    made.stages = list(stages)
    return _changed(made, changes)


def _changed(made: R, changes: dict[str, object]) -> R:
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def bypass(**changes: object) -> Event:
    return call(**{"outcome": "bypass", "reason": "verbose"} | changes)


def hostile() -> list[Event]:
    """Calls with all in them that others could have written, each text another."""
    texts = {name: f"{name} {HOSTILE}" for name in ("reason", "directory", "product", "cause", "store_fault")}
    odd = stage(kind=f"kind {HOSTILE}", architecture=HOSTILE, where=f"where {HOSTILE}")
    here = stage(away=f"here {HOSTILE}")
    return [
        call(odd, here, hit(), sources=[f"source {HOSTILE}"], **texts),
        bypass(**{**texts, "reason": HOSTILE, "product": ""}),
        call(outcome=HOSTILE, sources=["x" * 100_000], product=""),
        call(stage(seconds=1e9, start=1e9), seconds=1e9, tool_saved=1e9),
        call(started=0.0),
    ]


def build(count: int, jobs: int = 8, seed: int = 1) -> list[Event]:
    """Calls of a build, with eight stages each: hits, misses, bypasses, and some that fail or wait."""
    source = random.Random(seed)
    callers, slots = [BEGUN] * jobs, [BEGUN] * jobs
    made = []
    for number in range(count):
        caller = min(range(jobs), key=callers.__getitem__)
        event = _event(source, number, callers[caller], slots)
        callers[caller] += event.seconds + 0.02 * source.random()
        made.append(event)
    return made


def calls_of(events: Iterable[Event]) -> list[Event]:
    """As `report` has them: sorted."""
    return sorted(events, key=lambda event: event.started)


def log(cache: str, events: Iterable[Event]) -> None:
    for event in events:
        event_line.append(cache, event)


def _event(source: random.Random, number: int, started: float, slots: list[float]) -> Event:
    made = call(
        started=started,
        sources=[f"../src/module_{number % 7}/kernel_{number:04d}.cu"],
        product=f"/home/me/build/kernel_{number:04d}.o",
        pid=4000 + number,
    )
    chance = source.random()
    if chance < 0.55:
        made.stages = [
            hit(kind=kind, architecture=name, start=0, seconds=cost) for kind, name, cost in _PARTS
        ]
        saved = {"seconds": 0.01 + 0.01 * source.random(), "tool_saved": 12.0}
        return _changed(made, {**saved, "outcome": "direct_hit"})
    if chance < 0.6:
        return _changed(made, {"outcome": "bypass", "reason": source.choice(("verbose", "preprocess_only"))})
    made.stages, seconds = _stages(source, started, slots)
    results = {stage.result for stage in made.stages}
    outcome = "failed" if "failed" in results else "partial_hit" if "hit" in results else "miss"
    return _changed(made, {"outcome": outcome, "cause": source.choice(_CAUSES), "seconds": seconds + 0.05})


def _stages(source: random.Random, started: float, slots: list[float]) -> tuple[list[StageEvent], float]:
    """Stages one behind the other, and when the last one ended."""
    made, at = [], 0.05
    for kind, architecture, usual in _PARTS:
        cost = usual * (0.5 + source.random())
        common = {"kind": kind, "architecture": architecture, "start": at}
        chance = source.random()
        if chance < 0.5:
            made.append(hit(**common, seconds=cost))
            continue
        if chance < 0.55:
            at += 0.7 * cost  # how long the other process still ran it
            made.append(hit(**{**common, "start": at}, result="shared", seconds=cost))
            continue
        slot = min(range(len(slots)), key=slots.__getitem__)
        at = max(at, slots[slot] - started)
        result = "failed" if source.random() < 0.004 else "ran"
        made.append(stage(**{**common, "start": at}, result=result, seconds=cost, slot=slot))
        at += cost
        slots[slot] = started + at
    return made, at
