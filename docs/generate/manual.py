"""Writes docs/man/nvccache.1, the manual page that a wheel installs, from the commands and settings.

python docs/generate/manual.py            write it
python docs/generate/manual.py --check    fail if it is stale

There is one page for all commands, as for gcc and ccache. click-man is not used: it writes a page for each
command, without settings and exit statuses, and needs an entry point, which nvccache does not have.
"""

from __future__ import annotations

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import click
import reference

from nvccache import config
from nvccache.cli import COMMANDS
from nvccache.cli.group import STATUSES, commands

PAGE = os.path.join(os.path.dirname(reference.REFERENCE), "man", "nvccache.1")


def page() -> str:
    lines = [
        '.\\" Written by docs/generate/manual.py; edit the code it reads instead.',
        ".TH NVCCACHE 1 2026-11-22",
        ".SH NAME",
        "nvccache \\- a transparent compiler cache for NVIDIA's nvcc",
        ".SH SYNOPSIS",
        *_synopsis(),
        ".SH DESCRIPTION",
        *_paragraphs(
            "If the first argument is the path or name of an nvcc, `nvccache` compiles through the cache:"
            " it takes results from the cache if they are certain to be the same as nvcc's. Started under"
            " the name `nvcc`, it uses the next nvcc on PATH. If the first argument is a command,"
            " `nvccache` runs this command.\n\n"
            "For scripts, every command but `report` takes `--json` and then prints JSON."
        ),
        ".SH COMMANDS",
    ]
    context = click.Context(commands, info_name="nvccache")
    for name in COMMANDS:
        command = commands.get_command(context, name)
        assert command is not None
        lines += _command(name, command)
    lines += [
        ".SH ENVIRONMENT",
        *_paragraphs("Each of these can also be set in the settings file (see `FILES`)."),
    ]
    texts = reference.setting_texts()
    for name, row in config.SETTINGS.items():
        # A manual page has no links: only their titles remain.
        unlinked = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", texts[name])
        text = f"{unlinked} In the file: `{name}`."
        lines += [".TP", f".B {_escaped(row.variable)}", *_paragraphs(text)]
    lines += [".SH FILES", ".TP", ".I ~/.config/nvccache/config.toml"]
    lines += _paragraphs('The settings, as in `max_size = "20G"`; `nvccache config` shows and changes them.')
    lines += [".TP", ".I ~/.cache/nvccache", "The cache, unless a setting names another directory."]
    lines += [".SH EXIT STATUS", *_paragraphs("A compile exits with nvcc's status. Other commands exit with")]
    for status, meaning in STATUSES.items():
        lines += [".TP", f".B {status}", *_paragraphs(meaning)]
    lines += [".SH SEE ALSO", ".BR ccache (1),", ".BR gcc (1)"]
    return "\n".join(lines) + "\n"


def _synopsis() -> list[str]:
    uses = (
        ("nvccache", "NVCC ARGS..."),
        ("nvcc", "ARGS..."),
        ("nvccache", "COMMAND [OPTIONS]"),
        ("nvccache", "\\-\\-version"),
    )
    lines: list[str] = []
    for program, usage in uses:
        lines += [*([".br"] if lines else []), f".B {program}", usage]
    return lines


def _command(name: str, command: click.Command) -> list[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option)]
    usage = [f"nvccache {name}", "[OPTIONS]", *(each.metavar or "" for each in arguments)]
    lines = [f'.SS "{_escaped(" ".join(usage))}"', *_paragraphs(command.help or "")]
    for option in options:
        value = option.metavar or ""
        if isinstance(option.type, click.Choice):
            value = "|".join(map(str, option.type.choices))
        head = f'.BI "{_escaped(", ".join(option.opts))}"'
        lines += [".TP", f'{head} " {_escaped(value)}"' if value else head, *_paragraphs(option.help or "")]
    lines += [".PP", *_paragraphs(reference.example(command))]
    for below, one in reference.subcommands(command):
        lines += _command(f"{name} {below}", one)
    return lines


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if "\b" in paragraph:  # its lines stay as they are, as in click
            kept = [
                f".br\n{_marked(line.strip())}" for line in paragraph.replace("\b", "").strip().splitlines()
            ]
            lines += [".PP", *"\n".join(kept).split("\n")[1:]]
            continue
        shown = _escaped(re.sub(r"\s+", " ", paragraph.strip()))
        shown = _in_bold(shown)
        # roff expects each sentence on a line of its own.
        sentences = re.sub(r"(?<=[.:;]) (?=[A-Z\\])", "\n", shown).split("\n")
        lines += [*([".PP"] if lines else []), *(_guarded(line) for line in sentences)]
    return lines


def _marked(text: str) -> str:
    return _guarded(_in_bold(_escaped(text)))


def _in_bold(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def _guarded(line: str) -> str:
    """The line, escaped if roff would read it as a request because of its first character."""
    return "\\&" + line if line.startswith((".", "'")) else line


def main() -> int:
    text = page()
    current = ""
    if os.path.exists(PAGE):
        with open(PAGE, encoding="utf-8") as stream:
            current = stream.read()
    if current == text:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/man/nvccache.1 is stale; run `python docs/generate/manual.py`")
        return 1
    os.makedirs(os.path.dirname(PAGE), exist_ok=True)
    with open(PAGE, "w", encoding="utf-8") as stream:
        stream.write(text)
    print("wrote docs/man/nvccache.1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
