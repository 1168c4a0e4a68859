"""The names of commands. To add one: docs/development/extending.md.

The launcher looks up every name here before it searches for a compiler of that name: it imports nothing.
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
