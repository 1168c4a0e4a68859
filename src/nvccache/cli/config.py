"""`nvccache config`: the settings in force and where each came from."""

from __future__ import annotations

import os

import click

from nvccache import config as settings
from nvccache.cli import settings as our_settings
from nvccache.cli.output import say
from nvccache.cli.units import size_words
from nvccache.escaping import printable


@click.command()
def config() -> None:
    """Show each setting, its value and where it came from."""
    loaded = our_settings.load()
    wrong = {problem.setting for problem in loaded.problems}
    rows = [
        (
            name,
            printable(_words(kind, getattr(loaded, name))),
            loaded.origins[name] + (", since what is set is wrong" if name in wrong else ""),
        )
        for name, (_, kind) in settings.SETTINGS.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        say(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
    path = settings.config_file(os.environ)
    if not path:
        say("", "file: none, since there is no home directory")
        return
    say("", f"file: `{path}`" + ("" if os.path.exists(path) else ", which does not exist"))


def _words(kind: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "size" and isinstance(value, int):
        return size_words(value) if value else "no limit"
    if kind == "mask" and isinstance(value, int):
        return f"{value:03o}"
    return str(value or "-")
