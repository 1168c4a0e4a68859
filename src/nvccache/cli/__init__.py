"""The commands of `nvccache`. Only they and report/command.py import click.

Importing this package loads no command, so that it is fast: for every `nvccache NAME ...`, the shim looks up
NAME in COMMANDS before it searches for a compiler. docs/development/extending.md says how to add a command.
"""

from __future__ import annotations

# Command -> the module whose function of the same name is the command.
COMMANDS = {
    "stats": "nvccache.cli.stats",
    "explain": "nvccache.cli.explain",
    "report": "nvccache.report.command",
    "doctor": "nvccache.cli.doctor",
    "events": "nvccache.cli.events",
    "install": "nvccache.cli.install",
    "config": "nvccache.cli.config",
    "clean": "nvccache.cli.clean",
    "remote": "nvccache.cli.remotes",
}


def main(arguments: list[str] | None = None) -> int:
    """Run `nvccache ARGUMENTS`, by default with this process's arguments; returns the exit status."""
    try:
        from nvccache.cli import group

        return group.run(arguments)
    except KeyboardInterrupt:  # ^C may come during the imports, too
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
