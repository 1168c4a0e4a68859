"""A group of commands that answers a word that is none of them with the one that was most likely meant."""

from __future__ import annotations

import click

from nvccache.cli import misspelt
from nvccache.cli.output import WrongUsage


class SuggestingGroup(click.Group):
    """`hint` is told with a word that is no command."""

    hint = ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first."""
        word = args[0]
        names = self.list_commands(ctx)
        if word in names or word[:1] == "-" or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = misspelt.nearest(word, names)
        meant = f"; did you mean `{near}`?" if near else ""
        raise WrongUsage(f"no such command `{word}`{meant}", self.hint, ctx)
