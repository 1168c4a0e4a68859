"""The settings of a command, and its cache.

Commands report wrong settings on standard error; compiles do not.
"""

from __future__ import annotations

import os

from nvccache import config, log
from nvccache.cli.output import Failure, warn
from nvccache.config import Config
from nvccache.files import signatures
from nvccache.store.directory import Directory
from nvccache.store.store import Store

NO_CACHE = "there is no home directory and `NVCCACHE_DIR` is not set"


def load(needs_cache: bool = False) -> Config:
    """The settings; raises Failure if a cache is needed and there is no directory for one."""
    settings = config.load(os.environ)
    warn(*log.sentences(settings))
    if needs_cache and not settings.dir:
        raise Failure(NO_CACHE)
    return settings


def refuse_if_wrong(settings: Config, *names: str) -> None:
    """Raises Failure if one of these is wrong: its default must not decide what is removed."""
    for problem in settings.problems:
        if problem.setting in names:
            raise Failure(f"{problem.where}: {problem.text}; nothing was removed")


def warn_if_not_counted(settings: Config) -> None:
    if not settings.counts_calls:
        warn(why_not_counted(settings))
    elif obstacle := _obstacle(os.path.join(settings.dir, "journal")):
        why = f"`{settings.dir}` {obstacle}"
        warn(f"calls are not counted, because {why}: see `nvccache doctor`")


def why_not_counted(settings: Config) -> str:
    """Why this user's calls are not counted."""
    why = "`readonly` is on" if settings.readonly and settings.dir else NO_CACHE
    return f"calls are not counted, because {why}"


def _obstacle(path: str) -> str:
    """Why this user cannot write to a directory, or to the one in which it would be made.

    Empty if there is no obstacle, and for a directory that cannot be read, which the caller finds out.
    """
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    can_read, can_write = (os.access(path, mode | os.X_OK, effective_ids=True) for mode in (os.R_OK, os.W_OK))
    if not os.path.isdir(path) or not can_read:
        return ""
    # In /proc, even root can create nothing, though the modes allow it.
    if not can_write or signatures.is_pseudo_file_system(os.stat(path).st_dev):
        return "cannot be written to"
    return "is on a full disk" if _is_on_full_disk(path) else ""


def _is_on_full_disk(path: str) -> bool:
    try:
        size = os.statvfs(path)
    except OSError:
        return False
    free = size.f_bavail if os.geteuid() else size.f_bfree
    return size.f_blocks > 0 and not free  # all are zero where the file system does not know


def changing(settings: Config, name: str, value: str = "") -> str:
    """The command line that changes a setting where it is set, or without a value removes it."""
    variable = config.SETTINGS[name].variable
    if settings.origins[name] == variable:
        return f"export {variable}={value}" if value else f"unset {variable}"
    return f"nvccache config {name} {value}" if value else f"nvccache config --unset {name}"


def shown(name: str, value: object) -> object:
    """The value of a setting for output: a URL without its password."""
    if config.SETTINGS[name].parse is config.as_remotes and value:
        from nvccache import remote_url

        return remote_url.masked(str(value))
    return value


class _UntouchedDirectory(Directory):
    """A cache directory in which reading a file does not count as use."""

    __slots__ = ()

    def touch(self, descriptor: int) -> None:
        pass


def untouched(root: str) -> Store:
    """A cache to inspect: nothing counts as used, and nothing is removed."""
    return Store(_UntouchedDirectory(root), is_readonly=True)
