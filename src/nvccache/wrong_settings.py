"""How settings that are wrong are put into words, for the log and for people who ask by a command."""

from __future__ import annotations

import difflib

from nvccache.config import PREFIX, SETTINGS, Config, as_remotes
from nvccache.settings_file import FILE, UNKNOWN, Problem

_ALIKE = 0.7


def sentences(config: Config) -> list[str]:
    """What is wrong and what is in force instead, one for each problem."""
    return [_sentence(problem, config) for problem in config.problems]


def _sentence(problem: Problem, config: Config) -> str:
    said = f"{problem.where}: {problem.text}"
    if problem.setting == UNKNOWN:
        meant = nearest(problem.word)
        return f"{said}; did you mean `{meant}`?" if meant else said
    if problem.setting == FILE:
        return said
    return f"{said}; {_instead(config, problem.setting)}"


def _instead(config: Config, name: str) -> str:
    value = getattr(config, name)
    if config.origins[name] != "default":
        return "the other value is in force"
    if isinstance(value, bool):
        return "it counts as on" if value else "it counts as off"
    return "no remote is asked" if SETTINGS[name].parse is as_remotes else "the default is in force"


def nearest(word: str) -> str:
    """The name that was most likely meant, in the form in which it was written."""
    found = difflib.get_close_matches(word.removeprefix(PREFIX).lower(), SETTINGS, 1, _ALIKE)
    if not found:
        return ""
    return SETTINGS[found[0]].variable if word.startswith(PREFIX) else found[0]
