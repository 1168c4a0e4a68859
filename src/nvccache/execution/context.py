"""What is known before anything runs: the context of a call, and the action of each of its stages."""

from __future__ import annotations

from nvccache.plan.model import Plan
from nvccache.store.store import Store
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.keys import KeyComponent
    from nvccache.observation.observer import Watch
    from nvccache.records.facts import Present


ANYWHERE, SAME_ID = "anywhere", "same id"  # the scopes of a result: see module_id.py


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one attempt at a call."""

    plan: Plan  # nvcc's own
    environ: dict[str, str]
    cwd: str
    store: Store
    since_ns: int  # when the call began
    watch: Watch  # runs the tools
    is_recaching: bool = False
    base: str = ""  # base_dir.py
    checkout: str = ""  # base_dir.py
    files: Present | None = None  # the state of files in which records were looked up before
    # Assumptions that save time, see attempts.py.
    ignores_lines: bool = False
    is_in_place: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """What is known of a stage before it runs."""

    front_key: str = ""  # from the bytes of its inputs; empty for a stage that is not cached
    meaning_key: str = ""  # from its text without line numbers; empty if it reads no text or that is unknown
    is_keyed_by_meaning: bool = False  # whether a result without diagnostics is kept under the meaning key
    text: tuple[str, ...] = ()  # digests of the preprocessed text that it reads
    dated: tuple[str, ...] = ()  # files whose date and size are in its keys
    components: tuple[KeyComponent, ...] = ()  # of the front key
    reason_against_record: str = ""  # why the call gets no record, a clause

    @property
    def is_cached(self) -> bool:
        """Whether the stage's result may come from the store."""
        return self.front_key != ""

    @property
    def claim_key(self) -> str:
        """Names the work: equal for all calls that would run this stage on inputs of the same meaning."""
        return self.meaning_key if self.is_keyed_by_meaning else self.front_key
