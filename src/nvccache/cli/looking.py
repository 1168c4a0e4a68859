"""Looking at what is in a cache without using it: nothing counts as used, and nothing is removed."""

from __future__ import annotations

from nvccache.store.directory import Directory
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


class _UntouchedDirectory(Directory):
    """A cache directory in which a file that is read stays as old as it is."""

    __slots__ = ()

    def count_as_used(self, descriptor: int, status: os.stat_result) -> None:
        pass


def at(root: str) -> Store:
    """A cache of which all can be read, as far as this user may."""
    return Store(_UntouchedDirectory(root), is_readonly=True)
