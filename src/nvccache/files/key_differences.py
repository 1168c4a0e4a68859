"""What two keys differ in: the one comparison of lists of components, of calls and of stages alike.

A key cannot be taken apart again, so whoever wants to explain it keeps its components, or something that
stands for them (object_record.py). Knows nothing of what components mean.
"""

from __future__ import annotations

from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Part = tuple[str, str]  # what may be shown of a part, and what tells it from others that look the same
    Component = tuple[str, Sequence[Part]]  # a tag, and the parts under it


class ComponentDifference:
    """What became of the parts under one tag. Without any added or removed they have another order."""

    __slots__ = ("added", "removed", "tag")

    def __init__(self, tag: str, added: list[Part], removed: list[Part]) -> None:
        self.tag = tag
        self.added = added
        self.removed = removed

    @property
    def is_reordered(self) -> bool:
        return not self.added and not self.removed


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
