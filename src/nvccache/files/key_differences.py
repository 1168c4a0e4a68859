"""What two keys differ in: the one comparison of lists of components, of calls and of stages alike.

A key cannot be taken apart again, so whoever wants to explain it keeps its components, or something that
stands for them (object_record.py). Knows nothing of what components mean.
"""

from __future__ import annotations

from collections import Counter

from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Part = tuple[str, str]  # what may be shown of a part, and what tells it from others that look the same
    Component = tuple[str, Sequence[Part]]  # a tag, and the parts under it


@dataclass(slots=True)
class ComponentDifference:
    """What became of the parts under one tag. Without any added or removed they have another order."""

    tag: str
    added: list[Part]
    removed: list[Part]

    @property
    def is_reordered(self) -> bool:
        return not self.added and not self.removed

    @property
    def is_hidden(self) -> bool:
        """Whether it is only known that something changed: nothing of it may be shown."""
        return any(not shown for shown, _ in (*self.added, *self.removed))


def differences(now: Iterable[Component], before: Iterable[Component]) -> list[ComponentDifference]:
    """One for each tag under which the two differ, in the order of the tags."""
    new, old = _by_tag(now), _by_tag(before)
    found = []
    for tag in dict.fromkeys((*new, *old)):
        parts, former = new.get(tag, []), old.get(tag, [])
        if parts != former:
            added = list((Counter(parts) - Counter(former)).elements())
            removed = list((Counter(former) - Counter(parts)).elements())
            found.append(ComponentDifference(tag, added, removed))
    return found


def _by_tag(components: Iterable[Component]) -> dict[str, list[Part]]:
    """The parts of all components of a tag, in their order."""
    found: dict[str, list[Part]] = {}
    for tag, parts in components:
        found.setdefault(tag, []).extend(parts)
    return found
