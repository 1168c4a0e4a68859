"""`nvccache config`: the settings in force and where each came from."""

from __future__ import annotations

import os

import click

from nvccache import config as settings
from nvccache.cli.units import size_words


@click.command()
def config() -> None:
    """Show each setting, its value and where it came from."""
    loaded = settings.load(os.environ)
    rows = [
        (name, _words(kind, getattr(loaded, name)), loaded.origins[name])
        for name, (_, kind) in settings.SETTINGS.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
    path = settings.config_file(os.environ)
    click.echo(f"\nfile: `{path}`" + ("" if os.path.exists(path) else ", which does not exist"))


def _words(kind: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "size" and isinstance(value, int):
        return size_words(value)
    return str(value or "-")
