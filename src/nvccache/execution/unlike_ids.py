"""Units whose stages make up other module ids than nvcc's: that they do is kept, so as not to try again.

Where the passes of a unit differ in their first external definition, it is carried out in nvcc's way
(runner.py). What was running by then was ended unheard, and has no result. Another build directory, whose
passes run anew, would start it again before it is known that its id is of no use.
"""

from __future__ import annotations

from nvccache.store import entries
from nvccache.store.entries import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.execution import Execution

REDIRECT = "unlike"


def remember(tried: Execution, carried_out: Execution) -> None:
    """Keep that stages of a call have no use for an id of their own, where they have no result with one.

    `tried` is how the call began, `carried_out` how it ended, in nvcc's way.
    """
    tried.workspace.learn(carried_out.workspace)
    tried.passes = carried_out.passes
    for stage in tried.plan.stages:
        if not tried.original_id(stage) or not tried.is_cached(stage):
            continue
        tried.seeding.is_unlike = False
        lookup = tried.finder.look_up(stage)
        if not lookup.entry and not tried.seeding.is_unlike:
            entries.add(tried.store, lookup.claim_key, Entry(redirect=REDIRECT))
