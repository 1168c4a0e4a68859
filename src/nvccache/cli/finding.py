"""One thing that `nvccache doctor` found out, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from nvccache.cli.output import GREEN, RED, YELLOW, say, say_parts

GOOD, ODD, BAD = "ok", "note", "bad"
_COLOURS = {GOOD: GREEN, ODD: YELLOW, BAD: RED}
_TOPIC_WIDTH = 14


@dataclass(frozen=True)
class Finding:
    """One thing that was found."""

    state: str  # GOOD, ODD or BAD
    topic: str
    text: str
    details: tuple[str, ...] = ()  # lines
    mend: tuple[str, ...] = ()  # command lines, each of which mends it


def show(finding: Finding) -> None:
    state = (f"{finding.state:<5}", _COLOURS[finding.state])
    say_parts(state, f" {finding.topic:<{_TOPIC_WIDTH}} {finding.text}")
    lines = [*finding.details, *(f"to mend it: `{command}`" for command in finding.mend)]
    # No line but the first begins with a state, whatever is quoted in it.
    say(*[f"{'':<5} {'':<{_TOPIC_WIDTH}} {line}" for line in lines])
