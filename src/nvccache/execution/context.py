"""What is known before anything runs: the context of a call, and the action that each stage of it is."""

from __future__ import annotations

import os

from nvccache.machine import scratch
from nvccache.plan.model import Plan
from nvccache.store.store import Store
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.keys import KeyComponent
    from nvccache.observation.observer import Watch
    from nvccache.records.rehearsed import Rehearsal


SHARED, OWN, SETTLED = "shared", "own", "settled"  # choices of module ids, see attempts.py


@dataclass(frozen=True, slots=True)
class Context:
    """Of one call, which may be attempted more than once."""

    plan: Plan  # nvcc's own, with what wrappers become
    environ: dict[str, str]
    cwd: str
    store: Store
    since_ns: int  # when it began
    watch: Watch  # runs the tools
    is_recaching: bool = False
    base: str = ""  # base_dir.py, as the next
    checkout: str = ""
    terminal: str = ""  # streams.py
    rehearsals: tuple[Rehearsal, ...] = ()  # of its host compilers
    # What this attempt relies on to go faster, see attempts.py.
    has_own_ids: bool = False
    ids_choice: str = SETTLED
    ignores_lines: bool = False
    is_in_place: bool = True


def environ_of_tools(context: Context) -> dict[str, str]:
    """The environment that the tools of a call are given; makes the directory for their own files."""
    temporary = scratch.temporary_directory(context.plan.scratch)
    os.makedirs(temporary, exist_ok=True)
    return {**context.environ, "TMPDIR": temporary}


@dataclass(frozen=True, slots=True)
class Action:
    """What is known of a stage before it runs."""

    front_key: str = ""  # by the bytes of its inputs; empty for a stage that is not cached
    meaning_key: str = ""  # by what they say; empty where it reads no text, or that is not known
    goes_by_meaning: bool = False  # whether a silent result is kept under the latter
    text: tuple[str, ...] = ()  # the digests of the preprocessed text that it reads
    dated: tuple[str, ...] = ()  # the files whose date and size are in its keys
    components: tuple[KeyComponent, ...] = ()  # of the front key
    reason_against_record: str = ""  # of the call, a clause

    @property
    def is_cached(self) -> bool:
        """Whether the stage's result may come from the store."""
        return self.front_key != ""

    @property
    def claim_key(self) -> str:
        """Names the work: equal for all who would run this stage on inputs that say the same."""
        return self.meaning_key if self.goes_by_meaning else self.front_key
