"""Checks of `store`."""

from __future__ import annotations

from guarded.table import DIRECTORY, Guard

GUARDS = [
    Guard(
        "checksums of records",
        "store.py",
        "if checksum != _checksum(key, body):",
        "if False:",
        "test_store.py",
        "damage or torn or checksum or record",
    ),
    Guard(
        "names that are no keys",
        "store.py",
        "if len(name) != _KEY_LENGTH or not name.isalnum() or not name.isascii():",
        "if False:",
        "test_store.py test_replay_damage.py",
        "out_of or leads or outside or lead",
    ),
    Guard(
        "cache: regular files only",
        "directory.py",
        "if not stat.S_ISREG(status.st_mode):",
        "if False:",
        DIRECTORY,
        "waited_for",
    ),
    Guard("cache: sizes", "directory.py", "if status.st_size > most:", "if False:", DIRECTORY, "up_to"),
    Guard(
        "cache: files of others",
        "directory.py",
        "return self._is_shared or status.st_uid in self._owners",
        "return True",
        DIRECTORY,
        "believed",
    ),
    Guard(
        "cache: a directory of somebody else's",
        "cachedir_tag.py",
        "return not any(_holds_file(name, folder, _DEEPEST) for name in _names_in(folder))",
        "return True",
        DIRECTORY,
        "somebody_else",
    ),
    Guard(
        "cache: one time for all locks",
        "store.py",
        "self._has_stopped = isinstance(error, LockTimeoutError)",
        "pass",
        DIRECTORY,
        "for_together",
    ),
    Guard(
        "cache: the tag while something is stored",
        "directory.py",
        'if not cachedir_tag.is_in(self._folders[""]):',
        "if False:",
        DIRECTORY,
        "removed_while",
    ),
    Guard(
        "cache: locks are for who may write",
        "locks.py",
        "make=True, for_writers=True)",
        "make=True)",
        DIRECTORY,
        "who_may_use",
    ),
    Guard(
        "cache: locks with a second name",
        "locks.py",
        "if status.st_nlink <= 1:",
        "if True:",
        DIRECTORY,
        "second_name",
    ),
    Guard(
        "cache: what others call theirs",
        "cachedir_tag.py",
        "return not is_in(below) and any(",
        "return any(",
        DIRECTORY,
        "nothing_but_a_cache",
    ),
    Guard(
        "cache: compressed sizes",
        "publishing.py",
        "if size > _LARGEST_TEXT:",
        "if False:",
        "test_publishing.py",
        "gigabytes",
    ),
]
