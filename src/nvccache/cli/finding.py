"""One thing that `nvccache doctor` found out, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from nvccache.cli.output import say

GOOD, ODD, BAD = "ok", "note", "bad"
_TOPIC_WIDTH = 14


@dataclass(frozen=True)
class Finding:
    """How it is (GOOD, ODD or BAD), what it is about, what was found, and lines of details: what to do."""

    state: str
    topic: str
    text: str
    details: tuple[str, ...] = ()


def show(finding: Finding) -> None:
    say(f"{finding.state:<5} {finding.topic:<{_TOPIC_WIDTH}} {finding.text}")
    # No line but the first begins with a state, whatever is quoted in it.
    say(*[f"{'':<5} {'':<{_TOPIC_WIDTH}} {line}" for line in finding.details])
