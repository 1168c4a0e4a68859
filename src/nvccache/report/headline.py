"""The head of the page: the verdict as sentences, and the main figures.

Every text in this HTML is escaped.
"""

from __future__ import annotations

from nvccache import outcomes
from nvccache.cli.units import format_count, hits_of
from nvccache.plan.stages import shown_name
from nvccache.report.figures import Figures
from nvccache.report.page_parts import duration, percent, with_code
from nvccache.report.verdict import Verdict

_MOST_KINDS = 4  # of the critical path, in one sentence


def summary(figures: Figures, before: Figures | None) -> str:
    """The main figures in large type, with explanations and the figures of the previous build."""
    names = {
        "hit rate": "of calls that the cache could answer",
        "stage hit rate": "of stages, including those of direct hits",
        "compiler time avoided": "CPU time of tools that did not run",
        "compiler time spent": "CPU time of tools that ran",
        "calls": "of nvcc",
        "elapsed": "from the first call to the last",
    }
    earlier = _tiles(before) if before else [""] * len(names)
    return "".join(
        f"<div><dt>{name}</dt><dd><b>{value}</b><span>{about}</span>"
        + (f'<span class="before">previous build: {old}</span>' if old else "")
        + "</dd></div>"
        for (name, about), value, old in zip(names.items(), _tiles(figures), earlier, strict=True)
    )


def _tiles(figures: Figures) -> list[str]:
    return [
        percent(figures.hit_rate),
        percent(figures.stage_hit_rate),
        duration(figures.tool_saved),
        duration(figures.tool_spent),
        f"{figures.calls:,}",
        duration(figures.elapsed),
    ]


def opening(figures: Figures, verdict: Verdict) -> str:
    """The verdict above the summary, with facts below it."""
    facts = "".join(f"<li>{with_code(fact)}</li>" for fact in verdict_facts(verdict))
    shown = f'<p class="verdict">{with_code(verdict_sentence(figures, verdict))}.</p>'
    return shown + (f'<ul class="facts">{facts}</ul>' if facts else "")


def verdict_sentence(figures: Figures, verdict: Verdict) -> str:
    """`41 of 44 compiles were hits; 9.3 of 11.2 s of compiler time went into …, because …`."""
    parts = [hits_of(figures.hits, figures.cacheable, "compile")] if figures.cacheable else []
    for outcome, what in ((outcomes.FAILED, "failed"), (outcomes.BYPASS, "bypassed the cache")):
        if count := figures.by_outcome[outcome]:
            parts.append(f"{count:,} {what}")
    if most := verdict.costliest:
        spent, total = duration(most.spent), duration(figures.tool_spent)
        spent = f"all {total} of compiler time" if spent == total else f"{spent} of {total} of compiler time"
        where = f"`{most.sources[0]}`" if len(most.sources) == 1 else f"{len(most.sources)} sources"
        parts.append(f"{spent} went into {where}" + (f", because {most.cause}" if most.cause else ""))
    if not parts:
        return "No compile is recorded"
    return "; ".join(parts)


def verdict_facts(verdict: Verdict) -> list[str]:
    """Facts in addition to the sentence: critical path, idle cores, nvccache's own time."""
    facts = []
    if verdict.path:
        parts = list(verdict.path_by_kind.items())[:_MOST_KINDS]
        shown = ", ".join(f"{shown_name(kind)} {duration(seconds)}" for kind, seconds in parts)
        facts.append(f"`{verdict.path[-1].call.name}` finished last. On its critical path: {shown}.")
    if verdict.cores and verdict.elapsed:
        busy = min(float(verdict.cores), verdict.busy / verdict.elapsed)
        facts.append(
            f"On average {busy:.1f} of {format_count(verdict.cores, 'core')} had work;"
            f" for {duration(verdict.one_busy)} at most one had."
        )
    if verdict.own or verdict.waited:
        waited = f"; waits for a core took {duration(verdict.waited)} more" if verdict.waited else ""
        facts.append(f"nvccache itself took {duration(verdict.own)} over all calls{waited}.")
    return facts
