"""The commands of `nvccache`: with report/command.py, all that imports click.

Importing this package loads no command, so that the shim can look up a name in `names` for free.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Run `nvccache ARGUMENTS`, by default those of the process; returns the exit status."""
    try:
        from nvccache.cli import group

        return group.run(arguments)
    except KeyboardInterrupt:  # also during imports
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
