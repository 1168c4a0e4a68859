"""The calls as the page's scripts read them: columns of small integers, and each text once.

40,000 stages make about a megabyte so. Times are in tenths of milliseconds: calls count from the first one,
stages from their call.
"""

from __future__ import annotations

import json

from nvccache.cli.report_page import page_parts
from nvccache.cli.report_page.lanes import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.cli.report_page.calls import Call

MOST_CALLS = 20_000  # that are drawn and listed one by one
_A_SECOND = 10_000
_CALL_TEXTS = ("outcome", "reason", "directory", "source", "product", "cause")
_STAGE_TEXTS = ("kind", "architecture", "result", "why", "where")


class _Texts:
    """Each text once, and its number."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def encode(builds: Sequence[Sequence[Call]], sentences: dict[str, str]) -> str:
    """The newest calls as JSON that can stand in a script element. `sentences` explain reasons."""
    calls = sorted((call for build in builds for call in build), key=lambda call: call.started)[-MOST_CALLS:]
    lanes = lay_out(calls)
    begun = calls[0].started if calls else 0.0
    texts = _Texts()
    made = {
        "begun": begun,
        "calls": {name: [texts.number(getattr(call, name)) for call in calls] for name in _CALL_TEXTS}
        | {
            "start": [_units(call.started - begun) for call in calls],
            "seconds": [_units(call.seconds) for call in calls],
            "saved": [_units(call.wall_saved) for call in calls],
            "lane": lanes.of_calls,
            "stages": [len(call.stages) for call in calls],
        },
        "stages": {
            name: [texts.number(getattr(stage, name)) for call in calls for stage in call.stages]
            for name in _STAGE_TEXTS
        }
        | {
            "start": [_units(stage.start) for call in calls for stage in call.stages],
            "seconds": [_units(stage.saved or stage.seconds) for call in calls for stage in call.stages],
            "lane": [lane for of_call in lanes.of_stages for lane in of_call],
        },
        "away": [
            [number, _units(stage.lasted), texts.number(page_parts.further_words(stage))]
            for number, stage in enumerate(stage for call in calls for stage in call.stages)
            if stage.away or stage.why_here or stage.in_vain
        ],
        "lanes": [[lane.group, lane.name] for lane in lanes.lanes],
        "builds": _spans(builds, begun),
        "sentences": sentences,
        "texts": list(texts.known),
    }
    # `<` would let a source named `</script>` end the element, or `<!--` change what its end is.
    return json.dumps(made, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _spans(builds: Sequence[Sequence[Call]], begun: float) -> list[list[int]]:
    """Start, end and number of calls of each build that is drawn as a whole or in part."""
    return [
        [max(0, _units(build[0].started - begun)), _units(max(c.ended for c in build) - begun), len(build)]
        for build in builds
        if build[-1].started >= begun
    ]


def _units(seconds: float) -> int:
    return round(seconds * _A_SECOND)
