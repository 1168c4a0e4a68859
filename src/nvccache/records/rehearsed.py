"""Stored rehearsals: the compiler call that a wrapper makes, and the inputs that decided it.

Part of the hot path if nvcc is a script. A rehearsal is found by the wrapper's arguments and directory (its
front key) and is valid while none of its observed inputs changed. How a wrapper is rehearsed is not known
here (execution/rehearsals.py, compile/scripted_nvcc.py).
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
class CompilerCall:
    """The call of a compiler by its wrapper: program, argv, and the variables that the wrapper changed.

    A variable is `name=value`, or `name` if the wrapper removed it.
    """

    program: str
    argv: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The compiler call that a wrapper makes, its inputs, and whether the arguments may have decided it."""

    call: CompilerCall
    input_record: InputRecord
    may_choose: bool


def find(front_key: str, cache: Store, now: Present) -> Rehearsal | None:
    """The valid rehearsal of a wrapper."""
    found = record.find_private(front_key, cache, now)
    if not found:
        return None
    inputs, shown = found
    try:
        values = _BECOMES.decode(shown)
        (program,) = values["program"]
    except ValueError:
        return None
    call = CompilerCall(program, tuple(values["argv"]), tuple(values["variables"]))
    return Rehearsal(call, inputs, values["may_choose"])


def add(front_key: str, known: Rehearsal, cache: Store, since_ns: int) -> None:
    """Store a rehearsal that was observed from `since_ns` on."""
    call = known.call
    shown = _BECOMES.encode(
        {
            "program": [call.program],
            "argv": list(call.argv),
            "variables": list(call.variables),
            "may_choose": known.may_choose,
        }
    )
    record.add_private(front_key, known.input_record, shown, cache, since_ns)
