"""Events as `nvccache events --json` prints them, made up: single ones, and those of builds of any size."""

from __future__ import annotations

import json
import random
from pathlib import Path

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
_WHYS = ("its preprocessed text changed", "it never ran before", "its options changed")

Event = dict[str, object]


def stage(**changes: object) -> Event:
    return {
        "kind": "cicc",
        "architecture": "compute_80",
        "result": "ran",
        "why": "",
        "start": 0.1,
        "seconds": 2.0,
        "wall": 2.0,
        "slot": 0,
        "where": "local",
    } | changes


AWAY = {"queue": 1, "send": 2, "run": 40, "fetch": 3, "sent_bytes": 2048, "fetched_bytes": 6, "is_cached": 0}


def away(is_cached: bool = False, **changes: object) -> Event:
    """A stage that ran on another machine, or whose result the engine had."""
    costs = {"away": {**AWAY, "is_cached": int(is_cached)}, "where": "grpc://host:1"}
    return stage(**{"slot": -1, "seconds": 40.0, "why_here": ""} | costs | changes)


def hit(**changes: object) -> Event:
    return stage(**{"result": "hit", "slot": -1, "where": ""} | changes)


def call(*stages: Event, **changes: object) -> Event:
    return {
        "version": 2,
        "started": BEGUN,
        "seconds": 3.0,
        "outcome": "miss",
        "reason": "",
        "directory": "/home/me/build",
        "sources": ["../src/a.cu"],
        "product": "/home/me/build/a.o",
        "cause": "",
        "pid": 4711,
        "build": "4700-1",
        "jobs": 1,
        "store_fault": "",
        "wrong_settings": [],
        "wall_saved": 0.0,
        "tool_saved": 0.0,
        "stages": list(stages),
    } | changes


def bypass(**changes: object) -> Event:
    return call(**{"outcome": "bypass", "reason": "verbose"} | changes)


def hostile() -> list[Event]:
    """Calls with all in them that others could have written, each text another."""
    texts = {name: f"{name} {HOSTILE}" for name in ("reason", "directory", "product", "cause", "store_fault")}
    odd = stage(kind=f"kind {HOSTILE}", architecture=HOSTILE, why=f"why {HOSTILE}", where=f"where {HOSTILE}")
    odd["why_here"] = f"here {HOSTILE}"
    return [
        call(odd, hit(), sources=[f"source {HOSTILE}"], wrong_settings=[HOSTILE], **texts),
        bypass(**{**texts, "reason": HOSTILE}),
        call(outcome=HOSTILE, sources=["x" * 100_000]),
        call(stage(seconds=1e9, start=1e9), seconds=1e9, wall_saved=-1e9, tool_saved=1e9),
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
        callers[caller] += float(str(event["seconds"])) + 0.02 * source.random()
        made.append(event)
    return made


def write(path: Path, events: list[Event]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def _event(source: random.Random, number: int, started: float, slots: list[float]) -> Event:
    made = call(
        started=started,
        sources=[f"../src/module_{number % 7}/kernel_{number:04d}.cu"],
        product=f"/home/me/build/kernel_{number:04d}.o",
        pid=4000 + number,
    )
    chance = source.random()
    if chance < 0.55:
        stages = [hit(kind=kind, architecture=name, start=0, seconds=cost) for kind, name, cost in _PARTS]
        saved = {"seconds": 0.01 + 0.01 * source.random(), "wall_saved": 10.0, "tool_saved": 12.0}
        return {**made, **saved, "outcome": "direct_hit", "stages": stages}
    if chance < 0.6:
        return {**made, "outcome": "bypass", "reason": source.choice(("verbose", "preprocess_only"))}
    stages, seconds = _stages(source, started, slots)
    results = {str(each["result"]) for each in stages}
    outcome = "failed" if "failed" in results else "partial_hit" if "hit" in results else "miss"
    cause = source.choice(_CAUSES)
    return {**made, "outcome": outcome, "cause": cause, "stages": stages, "seconds": seconds + 0.05}


def _stages(source: random.Random, started: float, slots: list[float]) -> tuple[list[Event], float]:
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
        why = source.choice(_WHYS)
        made.append(stage(**{**common, "start": at}, result=result, why=why, seconds=cost, slot=slot))
        at += cost
        slots[slot] = started + at
    return made, at
