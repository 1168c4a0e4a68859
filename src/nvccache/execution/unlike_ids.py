"""Whether stages make up the module id that nvcc would; that they do not is kept, so as not to try again.

Where the passes of a unit differ in their first external definition, it is carried out in nvcc's way
(runner.py). What was running by then was ended unheard, and has no result. Another build directory, whose
passes run anew, would start it again before it is known that its id is of no use.
"""

from __future__ import annotations

from nvccache.module_id.own_ids import ROLE
from nvccache.store import entries
from nvccache.store.entries import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.execution import Execution, Known
    from nvccache.execution.seeding import Seeding, Seeds
    from nvccache.execution.workspace import Workspace
    from nvccache.plan.model import Output, Plan, Stage

REDIRECT = "unlike"


class OwnIds:
    """The ids that stages of one call make up themselves, beside those that nvcc would have them read."""

    def __init__(self, plan: Plan, workspace: Workspace, seeds: Seeds, seeding: Seeding) -> None:
        self._plan = plan
        self._workspace = workspace
        self._seeds = seeds
        self._seeding = seeding

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

    def will_be_unlike(self, stage: Stage) -> bool:
        """Whether that is known before the stage has run: nvcc's id is made up, and it takes no seed."""
        _, original = self._files_of(stage)
        identifier = self._workspace.content_of(original) if self._workspace.knows(original) else None
        return identifier is not None and self._seeds.is_beyond(stage, identifier)

    def _files_of(self, stage: Stage) -> tuple[str, str]:
        output = stage.output(ROLE)
        return (output.path, self._plan.own_ids.get(output.path, "")) if output else ("", "")


def remember(tried: Execution, carried_out: Execution, known: Known) -> None:
    """Keep that stages of a call have no use for an id of their own, where they have no result with one.

    `tried` is how the call began, `carried_out` how it ended, in nvcc's way; `known` is what that told.
    """
    tried.workspace.learn(carried_out.workspace)
    for stage in tried.plan.stages:
        if not tried.own_ids.original_of(stage):
            continue
        lookup = tried.finder.find(stage, known, None)
        if lookup.is_cached and not lookup.entry and not lookup.is_unlike:
            entries.add(tried.store, lookup.claim_key, Entry(redirect=REDIRECT))
