"""The settings and the cache as commands use them.

Commands report wrong settings on standard error; compiles do not.
"""

from __future__ import annotations

import os

from nvccache import config, log
from nvccache.cli.output import Failure, warn
from nvccache.config import Config
from nvccache.store.directory import Directory
from nvccache.store.store import Store

NO_CACHE = "there is no home directory and `NVCCACHE_DIR` is not set"


def load() -> Config:
    """The settings in force; reports wrong ones on standard error."""
    settings = config.load(os.environ)
    warn(*log.sentences(settings))
    return settings


def refuse_if_wrong(settings: Config, *names: str) -> None:
    """Raise Failure if one of these settings is wrong: its default must not decide what is removed."""
    for problem in settings.problems:
        if problem.setting in (*names, "file"):
            raise Failure("nothing was removed, because a setting is wrong (see above)")


def warn_if_not_counted(settings: Config) -> None:
    """Warn if this user's calls are not counted, and say why."""
    why = "`readonly` is on" if settings.dir and settings.readonly else "" if settings.dir else NO_CACHE
    path = os.path.join(settings.dir, "journal")
    while not why and not os.path.lexists(path):
        path = os.path.dirname(path)
    # A directory that cannot be read is reported as an error elsewhere.
    if not why and os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK, effective_ids=True):
        is_writable = os.access(path, os.W_OK, effective_ids=True)
        why = "" if is_writable else f"`{settings.dir}` cannot be written to: see `nvccache doctor`"
    if why:
        warn(f"calls are not counted, because {why}")


def change_command(settings: Config, name: str) -> str:
    """The shell command that removes a setting from the environment or the file."""
    variable = config.SETTINGS[name].variable
    return f"unset {variable}" if settings.origins[name] == variable else f"nvccache config --unset {name}"


def display_value(name: str, value: object) -> object:
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


def open_untouched(root: str) -> Store:
    """A cache to inspect: reading a file does not count as use, and nothing is removed."""
    return Store(_UntouchedDirectory(root), is_readonly=True)
