"""How long a stage may be expected to take: as long as the last time, else by the size of its input.

Remembered for the command and the names of what it reads, whatever these hold: an edit seldom changes it
much.
"""

from __future__ import annotations

import os

from nvccache.files import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.plan.model import Stage
    from nvccache.store.store import Store

_MIB = 1 << 20


def seconds_of(stage: Stage, cwd: str, input_bytes: int, store: Store) -> float:
    try:
        return float(store.find_memo(_key(stage, cwd)))
    except ValueError:
        return stage.tool.seconds_per_mib * input_bytes / _MIB


def remember(stage: Stage, cwd: str, seconds: float, store: Store) -> None:
    # An engine need not say how long it took to make a result that it has kept.
    if stage.tool.may_run_elsewhere and seconds > 0:
        store.add_memo(_key(stage, cwd), f"{seconds:.3f}")


def _key(stage: Stage, cwd: str) -> str:
    names = [os.path.basename(path) for path in stage.inputs]
    return keys.key_of("took", [("argv", stage.key_argv), ("inputs", tuple(names)), ("directory", (cwd,))])
