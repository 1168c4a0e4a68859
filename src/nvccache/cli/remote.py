"""`nvccache remote`: the caches behind this one: how they are, what is there, and moving it in bulk."""

from __future__ import annotations

from importlib import import_module

import click

from nvccache.cli.suggesting import SuggestingGroup

# word -> the module that holds the command
_COMMANDS = {
    "status": "nvccache.cli.remote_status",
    "test": "nvccache.cli.remote_test",
    "push": "nvccache.cli.remote_push",
    "pull": "nvccache.cli.remote_pull",
    "prune": "nvccache.cli.remote_prune",
}


class RemoteGroup(SuggestingGroup):
    """Loads a command when it is asked for."""

    hint = "`nvccache remote --help` lists the commands"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=RemoteGroup)
def remote() -> None:
    """Look at the remote caches that `NVCCACHE_REMOTE` names, and move entries in bulk."""
