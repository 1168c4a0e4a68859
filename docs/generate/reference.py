"""Writes the pages of docs/reference that are generated from code: commands, settings, outcomes.

python docs/generate/reference.py            write them
python docs/generate/reference.py --check    fail if one of them is stale
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections.abc import Mapping

import click

from nvccache import config, outcomes, remote_url
from nvccache.cli import COMMANDS
from nvccache.cli.group import STATUSES, commands
from nvccache.plan import stages

REFERENCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "reference")
NOTICE = "<!-- docs/generate/reference.py writes this page from the code: edit the code. -->\n"

REMOTE_TEXT = """\
`NVCCACHE_REMOTE` holds one or more URLs, separated by blanks, as in `s3://pr-123/nvccache,rw s3://main/nvccache`.
All remotes but directories need the pip extra `remote`.
In a URL, write special characters, such as a comma or a blank, as `%` and two hexadecimal digits.
[How to set up a remote](../how-to/remote.md).
"""
REMOTE_CREDENTIALS = {
    "s3": "`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, `AWS_PROFILE` or `~/.aws`",
    "redis": "in the URL (`redis://user:password@host`), else `REDISCLI_AUTH`",
    "rediss": "as for `redis`; the connection is encrypted",
    "memcached": "in the URL, or none",
    "https": "in the URL",
    "http": "as for `https`, but anyone on the network can read them",
    "gs": "`GOOGLE_APPLICATION_CREDENTIALS`, or the file that `gcloud auth application-default login` writes",
    "azblob": "`AZURE_STORAGE_ACCOUNT_KEY` or `AZURE_STORAGE_SAS_TOKEN`",
    "ghac": "those that `setup-nvccache` passes to a job on GitHub",
    "file": "none, since the permissions of the directory decide",
}
REMOTE_OPTIONS = """\
The options of URLs:

- `endpoint`: the URL of a service other than the cloud's own, as in `?endpoint=https://minio.local:9000`
- `region`, `profile`, `virtual_host=1` (the bucket is part of the host name): as in AWS's own tools
- `account`: the Azure account; by default, the one in `AZURE_STORAGE_ACCOUNT`
- `anonymous=1`: send no credentials, for a bucket that everybody can read
- `ec2=1`, `metadata=1`: get credentials from the metadata service of AWS or Google; this takes seconds on a
  machine that has no such service
- `prefix`, `ttl`: a prefix for all keys, and how many seconds the server keeps an entry

The path of a redis URL is the number of the database, 0 by default. `SSL_CERT_FILE` names a file of
certificates to trust in place of the system's. Commands and logs never show credentials.
"""
WRONG_TEXT = """
## Settings that are wrong

A setting is wrong if its value is invalid or its name is unknown, such as `NVCCACHE_MAX_SISE`. A settings
file that cannot be read, or is not TOML, is ignored. Compiles use the default in place of a wrong setting,
and print nothing about it; commands and the log report it. There are two exceptions. An invalid value of
`disable` or `readonly` turns the setting on. If a setting that decides what `clean` or `stats --zero` removes
is wrong, these commands remove nothing.

In a path, `~` is the home directory. A relative path in a variable is relative to the working directory; in
the settings file, it is wrong. Without a home directory, there is no cache unless `NVCCACHE_DIR` names one.
"""
SETTING_GROUPS = {
    "Main settings": ("dir", "max_size", "base_dir", "remote", "disable"),
    "For one job, or to find a problem": ("readonly", "recache", "log", "strict"),
    "Other machines": ("executor", "executor_dir"),
}
KIND_TEXTS = {
    config.as_path: "path",
    config.as_base: "path, or `auto`",
    config.as_program: "path",
    config.as_size: "size",
    config.as_count: "number",
    config.as_switch: "`1` or `0`; in the file, `true` or `false`",
    config.as_remotes: "URLs",
    config.as_executor: "a URL, or `prefix:` and a command",
}
STAGE_TEXTS = {
    "preprocess host": "the host compiler's preprocessor, for host code",
    "cudafe++": "splits host from device code, and writes the C++ for the host compiler",
    "preprocess device": "the host compiler's preprocessor, once for each virtual architecture",
    "cicc": "compiles device code to PTX (or LTO-IR), once for each virtual architecture",
    "ptxas": "compiles PTX to a cubin, once for each real architecture",
    "fatbinary": "packs cubins and PTX into one fatbin",
    "host compile": "the host compiler compiles the output of `cudafe++`, with the fatbin",
    "nvlink": "links device code; with `-dlto`, also compiles it",
}


def pages() -> dict[str, str]:
    """The text of each generated page by its file name."""
    return {
        "commands.md": NOTICE + command_page(),
        "settings.md": NOTICE + setting_page(),
        "outcomes.md": NOTICE + outcome_page(),
    }


def command_page() -> str:
    lines = [
        "# Commands",
        "",
        "- `nvccache NVCC ARGS...`: compile through the cache; NVCC is the path or name of an nvcc",
        "- `nvcc ARGS...`: the same, if this `nvcc` is a link to `nvccache`, created by `nvccache install`",
        "- `nvccache COMMAND ...`: run one of the commands below",
        "- `nvccache --version`, `nvccache --help`: print the version or the list of commands",
        "",
        "For scripts, every command but `report` takes `--json` and prints [JSON](json.md) on standard",
        "output; errors and warnings still go to standard error. Output without `--json` may change with any",
        "version. On a terminal, it has colours, unless `NO_COLOR` is set or `TERM` is `dumb`.",
        "[Corresponding commands of ccache and sccache](../how-to/from-other-caches.md#commands).",
        "",
        "## Exit statuses",
        "",
        "A compile exits with nvcc's status, or ends by the signal that ended nvcc. As in a shell, it exits",
        "with 127 if there is no compiler, and with 126 if the compiler cannot be run. Other commands exit",
        "with these statuses:",
        "",
        *entries({str(status): meaning for status, meaning in STATUSES.items()}),
    ]
    context = click.Context(commands, info_name="nvccache")
    for name in COMMANDS:
        command = commands.get_command(context, name)
        assert command is not None
        lines += ["", f"## nvccache {name}", "", *command_lines(name, command)]
        for below, one in subcommands(command):
            lines += ["", f"### nvccache {name} {below}", "", *command_lines(f"{name} {below}", one)]
    return "\n".join(lines) + "\n"


def subcommands(command: click.Command) -> list[tuple[str, click.Command]]:
    """The commands of a group with their names, including those that are loaded on demand."""
    if not isinstance(command, click.Group):
        return []
    context = click.Context(command)
    found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
    return [(name, one) for name, one in found if one]


def command_lines(name: str, command: click.Command) -> list[str]:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    usage = ["nvccache", name, *(["[OPTIONS]"] if options else [])]
    usage += [argument.metavar or "" for argument in arguments]
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", (command.help or "").strip())
    # click does not wrap paragraphs that begin with a backspace: their lines become a list.
    text = re.sub(r"\x08\n(.+(?:\n.+)*)", lambda kept: re.sub("^", "- ", kept[1], flags=re.MULTILINE), text)
    lines = ["    " + " ".join(usage), "", text, "", example(command)]
    meanings = {}
    for option in options:
        value = option.metavar or ""
        if isinstance(option.type, click.Choice):
            value = "|".join(map(str, option.type.choices))
        meaning = option.help or ""
        if isinstance(option.default, str) and "Default: " not in meaning:
            meaning += f" Default: `{option.default}`."
        meanings[f"{', '.join(option.opts)} {value}".rstrip()] = meaning
    return [*lines, *([""] if options else []), *entries(meanings)]


def example(command: click.Command) -> str:
    """The example below a command's help, with its command line in backquotes."""
    return re.sub("^Example: (.+)$", r"Example: `\1`", command.epilog or "")


def setting_page() -> str:
    lines = [
        "# Settings",
        "",
        "A setting is an environment variable or a line of the user's settings file; a variable overrides",
        "the file. The file is `$XDG_CONFIG_HOME/nvccache/config.toml` or, if that variable is not set,",
        "`~/.config/nvccache/config.toml`. Names in the file are in lower case, without `NVCCACHE_`, as in",
        '`max_size = "20G"`. nvccache never reads settings from a checkout. `nvccache config` shows every',
        "value and its origin.",
    ]
    texts = setting_texts()
    grouped = {name for names in SETTING_GROUPS.values() for name in names}
    others = tuple(name for name in config.SETTINGS if name not in grouped)
    for title, names in {**SETTING_GROUPS, "Others": others}.items():
        lines += ["", f"## {title}"]
        for name in names:
            row = config.SETTINGS[name]
            facts = f"Value: {KIND_TEXTS[row.parse]}. Default: {default_text(row)}."
            lines += ["", f"### {row.variable}", "", facts, "", texts[name]]
    return "\n".join(lines) + "\n" + remote_section() + WRONG_TEXT


def setting_texts() -> dict[str, str]:
    """The description of each setting by its name: the string below its row in `Config`."""
    with open(config.__file__, encoding="utf-8") as stream:
        (table,) = [
            each
            for each in ast.parse(stream.read()).body
            if isinstance(each, ast.ClassDef) and each.name == "Config"
        ]
    texts = {}
    for row, below in itertools.pairwise(table.body):
        if isinstance(row, ast.AnnAssign) and isinstance(below, ast.Expr):
            texts[ast.unparse(row.target)] = " ".join(ast.literal_eval(below.value).split())
    return texts


def default_text(row: config.Setting) -> str:
    if row.shown_default or isinstance(row.default, bool):
        return row.shown_default or ("on" if row.default else "off")
    return f"`{row.default:g}`" if row.default else "none"


def remote_section() -> str:
    """The section about URLs in NVCCACHE_REMOTE, with an entry for each scheme."""
    rows = {}
    for name, scheme in remote_url.SCHEMES.items():
        options = ", ".join(f"`{option}`" for option in scheme.options)
        rows[scheme.example] = f"options: {options or 'none'}; credentials: {REMOTE_CREDENTIALS[name]}"
    return "\n".join(["", "## Remotes", "", REMOTE_TEXT, *entries(rows), "", REMOTE_OPTIONS])


def outcome_page() -> str:
    lines = [
        "# Outcomes",
        "",
        "Every call has one of these outcomes, which `nvccache stats` counts.",
        "",
        *entries(outcome_texts()),
        "",
        "## Reasons for a bypass",
        "",
        "nvccache left such a call to nvcc on purpose. `nvccache stats` does not count calls with the",
        "reasons `disabled`, `no_cache_directory` and `nested` (it counts the outer call). With",
        "`NVCCACHE_READONLY`, it counts no calls.",
        "",
        *entries(outcomes.REASONS),
        "",
        "## Faults of the store",
        "",
        "With such a fault, the compile succeeds, but some results are not stored. `nvccache doctor` shows",
        "how to fix it.",
        "",
        *entries(outcomes.STORE_FAULTS),
        "",
        "## Faults of remotes",
        "",
        "After such a fault, the compile goes on without the remote, and calls skip it for a minute.",
        "",
        *entries(outcomes.REMOTE_FAULTS),
        "",
        "## Stages that were sent and ran here",
        "",
        "A stage was sent to another machine, but then ran on yours, for one of these reasons.",
        "",
        *entries(outcomes.EXECUTOR_FAULTS),
        "",
        "## Stages",
        "",
        "A compile consists of these stages. In a call, names of stages for a GPU also contain the",
        "architecture, as in `cicc compute_80`.",
        "",
        *entries({name: STAGE_TEXTS[name] for name in map(stages.shown_name, stages.counted())}),
    ]
    return "\n".join(lines) + "\n"


def outcome_texts() -> dict[str, str]:
    """The description of each outcome: the comment after its constant."""
    with open(outcomes.__file__, encoding="utf-8") as stream:
        found = dict(re.findall(r'^[A-Z_]+ = "(\w+)"  # (.+)$', stream.read(), re.MULTILINE))
    return {outcome: found[outcome] for outcome in outcomes.OUTCOMES}


def entries(texts: Mapping[str, str]) -> list[str]:
    """A list. A table would be too wide for a phone."""
    return [f"- `{word}`: {text}" for word, text in texts.items()]


def stale_pages() -> list[str]:
    stale = []
    for name, text in pages().items():
        path = os.path.join(REFERENCE, name)
        current = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                current = stream.read()
        if current != text:
            stale.append(name)
    return stale


def main() -> int:
    stale = stale_pages()
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/reference/{name} is stale; run `python docs/generate/reference.py`")
        return 1 if stale else 0
    for name in stale:
        with open(os.path.join(REFERENCE, name), "w", encoding="utf-8") as stream:
            stream.write(pages()[name])
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
