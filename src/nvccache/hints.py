"""The nearest name to a misspelled one. For names of other caches see docs/how-to/from-ccache.md."""

from __future__ import annotations

from nvccache import config

_ALIKE = 0.7


def for_setting(unknown: str) -> str:
    """The setting that is most likely meant, a variable for a variable, to follow a sentence; or empty."""
    import difflib  # slow; every command imports this module

    name = unknown.removeprefix(config.PREFIX).lower()
    near = next(iter(difflib.get_close_matches(name, config.SETTINGS, 1, _ALIKE)), "")
    is_variable = bool(near) and unknown.startswith(config.PREFIX)
    return did_you_mean(config.SETTINGS[near].variable if is_variable else near)


def did_you_mean(name: str) -> str:
    return f"; did you mean `{name}`?" if name else ""
