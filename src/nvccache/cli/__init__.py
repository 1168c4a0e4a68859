"""The commands of `nvccache`, one file each; the only importer of click.

Importing this package loads nothing of it, so that the shim can look up a name in `names` for free.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Run `nvccache ARGUMENTS` and return its exit status; without arguments those of the process."""
    from nvccache.cli.group import commands

    try:
        commands.main(args=arguments, prog_name="nvccache")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
