"""`nvccache completion bash|zsh|fish`: the script that has a shell complete commands and options.

The script asks `nvccache` when Tab is pressed, so that nothing is loaded before. What follows a compiler is
completed as names of files.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from nvccache.cli.output import WrongUsage, json_option, say, say_json

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_NVCCACHE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar="[bash|zsh|fish]")
@json_option
def completion(shell: str | None, as_json: bool) -> None:
    """Print a script by which a shell completes commands and options.

    Without a word it is the one for `$SHELL`. Save it where the shell looks for it:

    \b
    `nvccache completion bash > ~/.local/share/bash-completion/completions/nvccache`
    `nvccache completion zsh > DIR/_nvccache`, with DIR one of `$fpath`
    `nvccache completion fish > ~/.config/fish/completions/nvccache.fish`
    """
    shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise WrongUsage("which shell: bash, zsh or fish?", ctx=click.get_current_context())
    script = script_of(shell)
    if as_json:
        say_json({"shell": shell, "script": script})
    else:
        say(*script.rstrip("\n").split("\n"))


def script_of(shell: str) -> str:
    from nvccache.cli.group import commands

    kind = get_completion_class(shell)
    assert kind is not None
    completer = kind(commands, {}, "nvccache", VARIABLE)
    # Not `source()`, which for bash runs one to ask for its version, and may not find it.
    script = completer.source_template % completer.source_vars()
    # Where nothing of ours fits, bash is to complete names of files.
    return script.replace("complete -o nosort -F", "complete -o nosort -o default -F")
