"""Writes the pages of docs/reference that follow from code: commands, settings, outcomes.

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
NOTICE = "<!-- Written by docs/generate/reference.py; edit the code it reads instead. -->\n"

REMOTE_TEXT = """\
`NVCCACHE_REMOTE` holds one or more URLs, separated by blanks, as in `s3://pr-123/nvccache,rw s3://main/nvccache`.
All but directories need the extra `remote`.
Write what a URL cannot hold, such as a comma or a blank, as `%` and two hexadecimal digits.
[How to set one up](../how-to/remote.md).
"""
REMOTE_CREDENTIALS = {
    "s3": "`AWS_ACCESS_KEY_ID` and so on, `AWS_PROFILE` or `~/.aws`",
    "redis": "in the URL (`redis://user:password@host`), else `REDISCLI_AUTH`",
    "rediss": "as for `redis`, encrypted",
    "memcached": "in the URL, or none",
    "https": "in the URL",
    "http": "as for `https`, but anyone on the network can read them",
    "gs": "`GOOGLE_APPLICATION_CREDENTIALS`, or the file that `gcloud auth application-default login` writes",
    "azblob": "`AZURE_STORAGE_ACCOUNT_KEY` or `AZURE_STORAGE_SAS_TOKEN`",
    "ghac": "those of a job on GitHub, as `setup-nvccache` passes them on",
    "file": "none: the permissions of the directory count, and new files get them too",
}
REMOTE_OPTIONS = """\
The options of URLs:

- `endpoint`: the URL of a service other than the cloud's own, as in `?endpoint=https://minio.local:9000`
- `region`, `profile`, `virtual_host=1` (the bucket is part of the host name): as for the tools of AWS
- `account`: the Azure account, else `AZURE_STORAGE_ACCOUNT`
- `anonymous=1`: no signature, for a bucket that everybody can read
- `ec2=1`, `metadata=1`: ask the machine's metadata service, of AWS or Google, for credentials, which takes
  seconds where there is none
- `prefix`, `ttl`: for redis and memcached, a prefix of keys, and the seconds that an entry is kept

The number after redis's host is the database, by default 0. `SSL_CERT_FILE` names the certificates that are
trusted in place of the system's. No command and no log shows credentials.
"""
WRONG_TEXT = """
## Settings that are wrong

A setting is wrong if its value is invalid or its name is unknown (`NVCCACHE_MAX_SISE`). A settings file that
cannot be read, or is not TOML, is ignored. Compiles use the default of a wrong setting, and print nothing
about it; every command, `nvccache doctor` and `NVCCACHE_LOG` report it. There are two exceptions: an invalid
value turns `disable` and `readonly` on, and `clean` and `stats --zero` remove nothing while a setting that
decides what they remove is wrong.

Paths are absolute. `~` is the home directory: `HOME`, else from the user database. In a variable, a relative
path is relative to the working directory; in the file it is wrong. Without a home directory there is no cache
unless `NVCCACHE_DIR` names it. A relative `XDG_CACHE_HOME` or `XDG_CONFIG_HOME` is ignored.
"""
SETTING_GROUPS = {
    "The five that matter": ("dir", "max_size", "base_dir", "remote", "disable"),
    "For a job, or to look into something": ("readonly", "recache", "log", "strict"),
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
    "cudafe++": "`cudafe++`: splits host from device code, writes the C++ that the host compiler sees",
    "preprocess device": "the host compiler's preprocessor, once for each virtual architecture",
    "cicc": "device code to PTX (or LTO-IR), once for each virtual architecture",
    "ptxas": "PTX to a cubin, once for each real architecture",
    "fatbinary": "packs cubins and PTX into one fatbin",
    "host compile": "the host compiler, on the output of `cudafe++` and the fatbin",
    "nvlink": "links device code; with `-dlto` it compiles it",
}


def pages() -> dict[str, str]:
    """File name -> text of every generated page."""
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
        "- `nvcc ARGS...`: the same, if this `nvcc` is a link to `nvccache`, as `nvccache install` makes it",
        "- `nvccache COMMAND ...`: one of the commands below",
        "- `nvccache --version`, `nvccache --help`: the version; the list of commands",
        "",
        "Every command but `report` takes `--json` and then prints [JSON](json.md) on standard output, for",
        "scripts; errors and warnings still go to standard error. Text is for people, and may change.",
        "Colours are for terminals; `NO_COLOR` and `TERM=dumb` turn them off.",
        "[Corresponding commands of ccache and sccache](../how-to/from-other-caches.md#commands).",
        "",
        "## Exit statuses",
        "",
        "A compile ends with the status of nvcc, or by the signal that ended nvcc. As in a shell, it ends",
        "with 127 if there is no compiler, and with 126 if the compiler cannot be run. Commands end with",
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
    """The commands of a group by their names, also those that are loaded on demand."""
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
    # Lines that click leaves as they are.
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
    """The last line of a command's help, with the command line as a literal."""
    return re.sub("^Example: (.+)$", r"Example: `\1`", command.epilog or "")


def setting_page() -> str:
    lines = [
        "# Settings",
        "",
        "The environment comes first, then the user's settings file, then the default. The file is",
        "`$XDG_CONFIG_HOME/nvccache/config.toml`, else `~/.config/nvccache/config.toml`, and has lines",
        'such as `max_size = "20G"`: names as below, without `NVCCACHE_` and in lower case.',
        "A file in a checkout is never read. `nvccache config` shows every value and where it came from.",
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
    """Setting -> its meaning, from the text below its row."""
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
    """What NVCCACHE_REMOTE may hold, scheme by scheme."""
    rows = {}
    for name, scheme in remote_url.SCHEMES.items():
        options = ", ".join(f"`{option}`" for option in scheme.options)
        rows[scheme.example] = f"options: {options or 'none'}; credentials: {REMOTE_CREDENTIALS[name]}"
    return "\n".join(["", "## Remotes", "", REMOTE_TEXT, *entries(rows), "", REMOTE_OPTIONS])


def outcome_page() -> str:
    lines = [
        "# Outcomes",
        "",
        "Every call ends in one of these, and `nvccache stats` counts them.",
        "",
        *entries(outcome_texts()),
        "",
        "## Reasons for a bypass",
        "",
        "nvccache left the call to nvcc on purpose. `disabled`, `nested` (the outer call is counted) and",
        "`no_cache_directory` are not counted, and with `NVCCACHE_READONLY` no call is.",
        "",
        *entries(outcomes.REASONS),
        "",
        "## Faults of the store",
        "",
        "The compile succeeded; some results were not stored. `nvccache doctor` shows what to do.",
        "",
        *entries(outcomes.STORE_FAULTS),
        "",
        "## Faults of remotes",
        "",
        "The compile went on without the remote, which is then skipped for a minute.",
        "",
        *entries(outcomes.REMOTE_FAULTS),
        "",
        "## Stages that were sent and ran here",
        "",
        "Why a stage ran here although it was sent to another machine.",
        "",
        *entries(outcomes.EXECUTOR_FAULTS),
        "",
        "## Stages",
        "",
        "The stages of a compile. In a call, the names of stages for a GPU contain its architecture, as in",
        "`cicc compute_80`.",
        "",
        *entries({name: STAGE_TEXTS[name] for name in map(stages.shown_name, stages.counted())}),
    ]
    return "\n".join(lines) + "\n"


def outcome_texts() -> dict[str, str]:
    """Outcome -> its meaning, from the comments after the constants."""
    with open(outcomes.__file__, encoding="utf-8") as stream:
        found = dict(re.findall(r'^[A-Z_]+ = "(\w+)"  # (.+)$', stream.read(), re.MULTILINE))
    return {outcome: found[outcome] for outcome in outcomes.OUTCOMES}


def entries(texts: Mapping[str, str]) -> list[str]:
    """A list and no table, which a phone would have to scroll sideways."""
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
