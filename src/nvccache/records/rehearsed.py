"""What rehearsals have shown: the command that a wrapper becomes, kept behind what that depended on.

Part of the hot path where nvcc is a script. A rehearsal is known by the wrapper's arguments and where it
was called (its front key), as far as nothing has changed that it was observed to read, look for or ask for.
How a wrapper is rehearsed is not known here (execution/rehearsals.py, compile/scripted_nvcc.py).
"""

from __future__ import annotations

from nvccache.records import record
from nvccache.store import sections
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.records.facts import Present
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_BECOMES = sections.Schema(
    "becomes-1",
    ("program", sections.STRINGS),
    ("argv", sections.STRINGS),
    ("variables", sections.STRINGS),
    ("may_choose", sections.FLAG),
)


@dataclass(frozen=True, slots=True)
class Becoming:
    """A compiler's program, its arguments, and the variables that it was given otherwise than its wrapper.

    A variable is written `name=value`, or `name` where it was taken away.
    """

    program: str
    argv: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a wrapper becomes, what that depended on, and whether it may have chosen by its arguments."""

    becomes: Becoming
    input_record: InputRecord
    may_choose: bool


def find(front: tuple[str, str], cache: Store, now: Present) -> Rehearsal | None:
    """The rehearsal of a wrapper that still holds, by what it is known by (keys.pair_of)."""
    found = record.find_hidden(front, cache, now)
    if not found:
        return None
    pair, shown = found
    try:
        values = _BECOMES.decode(shown)
        (program,) = values["program"]
    except ValueError:
        return None
    becomes = Becoming(program, tuple(values["argv"]), tuple(values["variables"]))
    return Rehearsal(becomes, pair.input_record, values["may_choose"])


def add(front: tuple[str, str], known: Rehearsal, cache: Store, since_ns: int) -> None:
    """Keep a rehearsal that was observed from `since_ns` on; it may repeat arguments and variables."""
    becomes = known.becomes
    shown = _BECOMES.encode(
        {
            "program": [becomes.program],
            "argv": list(becomes.argv),
            "variables": list(becomes.variables),
            "may_choose": known.may_choose,
        }
    )
    record.add_hidden(front, known.input_record, shown, cache, since_ns)
