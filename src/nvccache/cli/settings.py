"""The settings for a command: what is wrong with them is said on standard error, which no compile does."""

from __future__ import annotations

import os

from nvccache import config, wrong_settings
from nvccache.cli.output import Failure, warn
from nvccache.config import Config

NO_CACHE = "there is no home directory and `NVCCACHE_DIR` is not set"


def load() -> Config:
    settings = config.load(os.environ)
    warn(*wrong_settings.sentences(settings))
    return settings


def refuse_if_wrong(settings: Config, *names: str) -> None:
    """End a command that removes something, where a default would say what, in place of what was set."""
    for problem in settings.problems:
        if problem.setting in names:
            raise Failure(f"{problem.where}: {problem.text}; nothing was removed")


def why_not_counted(settings: Config) -> str:
    """Why this user's calls show in no counts."""
    why = "`readonly` is on" if settings.readonly and settings.dir else NO_CACHE
    return f"calls are not counted, since {why}; `NVCCACHE_STATS_DIR` can say where they should be"


def shown(name: str, value: object) -> object:
    """The value of a setting as it may be shown: a URL without its password."""
    if config.SETTINGS[name].parse is config.as_remotes and value:
        from nvccache import remote_url

        return remote_url.masked(str(value))
    return value
