"""The results as a JSON document, Markdown tables and the values of the picture."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from . import lanes, steps
from .measuring import Measured, Outcome
from .steps import Step

Document = dict[str, object]
_STEPS = {step.name: step for step in steps.STEPS}


def document(about: Mapping[str, object], measured: Mapping[str, Measured]) -> Document:
    """All results, with the figures of the tables."""
    return {**about, "projects": {name: _project(found) for name, found in measured.items()}}


def _project(found: Measured) -> Document:
    return {
        "objects hold paths": found.holds_path,
        "where two objects of plain nvcc differ": found.unlike_itself,
        "steps": {name: _step(_STEPS[name], found) for name in found.outcomes},
    }


def _step(step: Step, found: Measured) -> Document:
    by_lane = found.outcomes[step.name]
    entry: Document = {"units": found.units[step.name], "goal": goal_of(step, found)}
    limit = found.limits.get(step.name)
    if limit:
        entry["limit"] = {
            "seconds": round(limit_of(step, found), 3),
            "stages": list(limit.stages),
            "seconds of the replay": round(limit.seconds, 3),
            "preprocessing of the replay": round(limit.preprocessing, 3),
            "all of the replay": round(limit.total, 3),
            "reached": reaches_limit(step, found),
        }
    entry["tools"] = {name: _outcome(outcome, by_lane) for name, outcome in by_lane.items()}
    return entry


def _outcome(outcome: Outcome, by_lane: Mapping[str, Outcome]) -> Document:
    entry: Document = {
        "seconds": [round(value, 3) for value in outcome.seconds],
        "processor seconds": [round(value, 3) for value in outcome.processor],
        "processor ratio": round(ratio(outcome, by_lane[lanes.PLAIN], by_processor=True), 4),
        "ratio": round(ratio(outcome, by_lane[lanes.PLAIN]), 4),
        "objects that differ": outcome.differing,
    }
    if outcome.explained:
        entry["explained"] = outcome.explained
    return entry


def ratio(outcome: Outcome, plain: Outcome, by_processor: bool = False) -> float:
    """The median ratio over the rounds, of wall time or CPU time."""
    own = outcome.processor if by_processor else outcome.seconds
    base = plain.processor if by_processor else plain.seconds
    return statistics.median(one / other for one, other in zip(own, base, strict=True))


def goal_of(step: Step, found: Measured) -> float | None:
    limit = found.limits.get(step.name)
    return steps.goal(step, found.holds_path, limit is not None and limit.text_differs)


def limit_of(step: Step, found: Measured) -> float:
    """The time of the necessary stages, as their share of plain nvcc's seconds in the rounds."""
    limit = found.limits[step.name]
    plain = statistics.median(found.outcomes[step.name][lanes.PLAIN].seconds)
    return plain * limit.seconds / limit.total if limit.total else 0.0


def reaches_limit(step: Step, found: Measured) -> bool | None:
    """Whether nvccache stayed within the limit; None without a limit."""
    ours = found.outcomes[step.name].get(lanes.OURS)
    if step.name not in found.limits or not ours:
        return None
    seconds, units = statistics.median(ours.seconds), len(found.units[step.name])
    return steps.is_near_limit(seconds, limit_of(step, found), units)


def markdown(about: Mapping[str, object], measured: Mapping[str, Measured]) -> str:
    """A table for each project, followed by what nvccache ran and why."""
    lines = [", ".join(f"{name} {value}" for name, value in about.items()), ""]
    lines += ["Ratios to plain nvcc's seconds on the wall, and in brackets to those of all processes.", ""]
    for name, found in measured.items():
        lines += [f"## {name}", "", *_table(found), "", *_notes(found), ""]
    return "\n".join(lines)


def _table(found: Measured) -> list[str]:
    names = list(next(iter(found.outcomes.values())))
    head = ["", "plain nvcc", *names[1:], "goal", "limit"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---|' * (len(head) - 1)}"]
    for step_name, by_lane in found.outcomes.items():
        step = _STEPS[step_name]
        plain = by_lane[lanes.PLAIN]
        cells = [step_name, f"{statistics.median(plain.seconds):.2f} s"]
        cells += [_cell(step, found, name, by_lane) for name in names[1:]]
        goal = goal_of(step, found)
        cells += [f"{goal:.2f}" if goal is not None else "", _limit_cell(step, found)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _limit_cell(step: Step, found: Measured) -> str:
    return f"{limit_of(step, found):.2f} s" if step.name in found.limits else ""


def _cell(step: Step, found: Measured, name: str, by_lane: Mapping[str, Outcome]) -> str:
    value = ratio(by_lane[name], by_lane[lanes.PLAIN])
    cell = f"{formatted(value)} ({formatted(ratio(by_lane[name], by_lane[lanes.PLAIN], by_processor=True))})"
    if name == lanes.OURS:
        goal = goal_of(step, found)
        cell += " **over**" if goal is not None and value > goal else ""
        cell += " **over the limit**" if reaches_limit(step, found) is False else ""
    differing = by_lane[name].differing.keys() - set(found.varying)
    varying = len(by_lane[name].differing) - len(differing)
    cell += f" **{len(differing)} of {len(found.units[step.name])} objects differ**" if differing else ""
    return cell + (f" ({varying} vary with plain nvcc, too)" if varying else "")


def formatted(value: float) -> str:
    """A ratio with two significant digits."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _notes(found: Measured) -> list[str]:
    lines = []
    for unit, how in found.unlike_itself.items():
        lines.append(f"- plain nvcc makes two objects of `{unit}`, which differ in {how}")
    for step_name, by_lane in found.outcomes.items():
        for name, outcome in by_lane.items():
            lines += [
                f"- {step_name}, {name}: `{unit}` differs in {how}" for unit, how in outcome.differing.items()
            ]
    for step_name, by_lane in found.outcomes.items():
        if lanes.OURS in by_lane:
            lines += [f"- {step_name}: {line}" for line in reasons(by_lane[lanes.OURS])]
        limit = found.limits.get(step_name)
        if limit:
            stages = ", ".join(limit.stages) or "none"
            share = limit.preprocessing / limit.total if limit.total else 0
            lines.append(
                f"- {step_name}, limit: other output of {stages}; preprocessing is {share:.2f} of all"
            )
    return lines


def reasons(outcome: Outcome) -> list[str]:
    """The outcome of each unit, and each stage that ran, with its seconds and why."""
    lines = []
    for unit, explanation in outcome.explained.items():
        why: dict[str, str] = dict(explanation.get("reasons", {}))  # type: ignore[call-overload]
        ran = [f"{one['stage']} {one['seconds']:.2f} s" for one in explanation["ran"]]  # type: ignore[attr-defined]
        because = "; ".join(f"{stage}: {clause}" for stage, clause in why.items())
        lines.append(
            f"`{unit}` {explanation['outcome']} ({explanation['cause']}), ran {', '.join(ran) or 'none'}"
        )
        lines += [f"  {because}"] if because else []
    return lines


def groups(documents: Sequence[Document]) -> dict[str, dict[str, float]]:
    """For the picture: step -> tool -> the median ratio over the projects of all documents."""
    found: dict[str, dict[str, list[float]]] = {}
    for project in [project for one in documents for project in one["projects"].values()]:  # type: ignore[attr-defined]
        for step, entry in project["steps"].items():
            for name, outcome in entry["tools"].items():
                found.setdefault(step, {}).setdefault(name, []).append(outcome["ratio"])
    return {
        step: {name: statistics.median(values) for name, values in found[step].items()}
        for step in _STEPS
        if step in found
    }
