"""Stages that nvcc would have read the module id: it is told to them where it is known, and guessed before.

A stage that guesses makes up the id itself (module_id/own_ids.py). Whether it is nvcc's shows when that is
known; if not, and it is in what the stage made, the stage ran in vain. That is kept for the source, so that
its stages wait the next time, whatever its content is by then.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.module_id import ids
from nvccache.module_id.own_ids import ROLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.seeding import Seeding
    from nvccache.execution.workspace import Workspace
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.store.store import Store

_IN_VAIN = "in vain"
_AT_ONCE = 1 << 20  # bytes


class OwnIds:
    """The ids that stages of one call make up themselves, beside those that nvcc would have them read."""

    def __init__(self, plan: Plan, workspace: Workspace, seeding: Seeding, store: Store, cwd: str) -> None:
        self._plan = plan
        self._workspace = workspace
        self._seeding = seeding
        self._store = store
        self._cwd = cwd
        self._memos: dict[str, str] = {}

    def is_own(self, output: Output) -> bool:
        """Whether this is an id that nothing reads, and that a result need not have where it is not in it."""
        return output.role == ROLE and output.path in self._plan.own_ids

    def original_of(self, stage: Stage) -> str:
        """The file with the id that nvcc would have this stage read, or empty."""
        return self._files_of(stage)[1]

    def are_not_in(self, stage: Stage) -> bool:
        """Whether the id that a stage has made up is in nothing else that it made."""
        output = stage.output(ROLE)
        is_own = output is not None and self.is_own(output)
        return is_own and not self._seeding.names_id(stage, stage.kept_outputs)

    def is_unlike(self, stage: Stage) -> bool:
        """Whether a stage that made up the module id itself has another one, in what it made, than nvcc's."""
        own, original = self._files_of(stage)
        if not self._workspace.knows(own) or not self._workspace.knows(original):
            return False
        if self._workspace.digest_of(own) == self._workspace.digest_of(original):
            return False
        return not self.are_not_in(stage)

    def has_to_guess(self, stage: Stage) -> bool:
        """Whether a stage would make up an id now, since nvcc's is not known yet."""
        original = self.original_of(stage)
        return original != "" and not self._workspace.knows(original)

    def known_for(self, stage: Stage) -> tuple[str, ...]:
        """The file with the id that nvcc would have this stage read, if that is known."""
        original = self.original_of(stage)
        return (original,) if original and self._workspace.knows(original) else ()

    def tell(self, stage: Stage) -> bool:
        """Have the id lie where a stage would write it, which reads it then; whether it is known.

        Of a stage that was found and has to run again, it is the one with which it ran.
        """
        own, original = self._files_of(stage)
        known = next((path for path in (original, own) if path and self._workspace.knows(path)), "")
        content = self._workspace.as_read(known) if known else None
        if content is None:
            return False
        os.makedirs(os.path.dirname(own), exist_ok=True)
        with open(own, "wb") as stream:
            stream.write(content)
        return True

    def is_seen_to_be_unlike(self, stage: Stage) -> bool | None:
        """The same as `is_unlike` of a stage that still runs, by what it has written; None if not seen yet.

        cicc writes the id when it has read its text, together with all device code as text. That may name
        what its result will not, which is seen at the end.
        """
        own, original = self._files_of(stage)
        made, code = _read(own), stage.output("gpu")
        if not made or not code:
            return None
        if made == self._workspace.as_read(original):
            return False
        return _holds(code.path, ids.head_of(made))

    def note_in_vain(self, stage: Stage) -> None:
        self._store.add_memo(self._memo_key(stage), _IN_VAIN)
        self._memos.clear()

    def were_in_vain(self, stage: Stage) -> bool:
        """Whether a stage of the same source was seen to guess in vain."""
        key = self._memo_key(stage)
        if key not in self._memos:
            self._memos[key] = self._store.find_memo(key)
        return self._memos[key] == _IN_VAIN

    def _memo_key(self, stage: Stage) -> str:
        source = os.path.join(self._cwd, stage.name("source path") or stage.name("source name"))
        return keys.key_of("ids in vain", [("source", (os.path.normpath(source),))])

    def _files_of(self, stage: Stage) -> tuple[str, str]:
        """The file with the id that a stage makes up, and that with nvcc's; both empty for other stages."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output in stage.kept_outputs and output else ""
        return (output.path, original) if output and original else ("", "")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _holds(path: str, text: bytes) -> bool:
    """Whether a file holds a text, however large it is."""
    before = b""
    try:
        with open(path, "rb") as stream:
            while part := stream.read(_AT_ONCE):
                if text in before + part:
                    return True
                before = part[-len(text) :]
    except OSError:
        pass
    return False
