"""The commands of `nvccache`: with report/command.py, all that imports click.

Importing this package loads no command, so that the shim can look up a name in `names` for free.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Run `nvccache ARGUMENTS` and return its exit status; without arguments those of the process."""
    try:
        from nvccache.cli import group

        return group.run(arguments)
    except KeyboardInterrupt:  # also one that comes while modules are loaded
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
        return 128 + signal.SIGINT
