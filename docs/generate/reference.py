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

import click

from nvccache import config, outcomes, remote_url
from nvccache.cli.group import STATUSES, commands
from nvccache.cli.names import COMMANDS
from nvccache.plan import stages

REFERENCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "reference")
NOTICE = "<!-- Written by docs/generate/reference.py; edit the code it reads instead. -->\n"

REMOTE_TEXT = (
    "`NVCCACHE_REMOTE` is one URL or more, as in `s3://pr-123/nvccache,rw s3://main/nvccache`. The local",
    "cache goes first, then all remotes at once; of those that have it the first to answer counts. What",
    "is received is checked, and stored locally. A remote is only read unless `,rw` stands behind its URL.",
    "All but redis and directories need the extra `remote`. What a URL cannot have as it is, such as a",
    "comma or a blank, is written as `%` and two hexadecimal digits.",
    "",
    "A remote never fails a compile, nor delays it for long: a call waits for all its remotes for",
    "`NVCCACHE_REMOTE_TIMEOUT` together. One that fails is left alone for a minute by all calls of this user",
    "on this machine, then one call tries it again; each failure in a row doubles the time, up to ten",
    "minutes. One that asks for fewer requests is left alone for five seconds. `nvccache doctor` says which",
    "are, and why.",
)
_FILES_OF_AWS = "`AWS_ACCESS_KEY_ID` and its like, `AWS_PROFILE`, `~/.aws`; without any, no signature"
REMOTE_CREDENTIALS = {
    "s3": _FILES_OF_AWS,
    "redis": "in the URL (`redis://user:password@host`), else `REDISCLI_AUTH`",
    "rediss": "as for `redis`; with TLS",
    "https": "in the URL, else `~/.netrc` or the file that `NETRC` names",
    "http": "as for `https`, but anybody on the way can read them",
    "gs": "`GOOGLE_APPLICATION_CREDENTIALS`, or what `gcloud auth application-default login` left; without "
    "either, no signature",
    "azblob": "`AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN`; without "
    "any, no signature",
    "file": "the permissions of the directory, which new files have as well",
}
REMOTE_OPTIONS = (
    "- `endpoint`: the URL of a service that is not the cloud's own, as in `?endpoint=https://minio.local:9000`.",
    "- `region`, `profile`, `virtual_host=1` (the bucket in the name of the host): as for the tools of AWS.",
    "- `account`: of Azure; else `AZURE_STORAGE_ACCOUNT`.",
    "- `anonymous=1`: without a signature, whatever credentials there are.",
    "- `ec2=1`, `metadata=1`: ask the metadata service of the machine, of AWS or Google, for credentials. It",
    "  is not asked otherwise, since elsewhere it takes seconds to find that there is none.",
    "- `prefix`, `ttl`: of redis, before each key, and the seconds after which the server forgets an entry.",
    "- The number behind redis's host is the database; without one it is 0. `SSL_CERT_FILE` names the",
    "  certificates that `rediss` trusts, if not those of the system.",
    "- `http` and `https` read any server of files, and write to a WebDAV server.",
    "",
    "No credentials are shown by any command, and none are in the log or the event log.",
)
WRONG_TEXT = """
## Settings that are wrong

A wrong setting costs only itself: the compile goes on with that setting's default, and `nvccache stats`
counts it. A compile never mentions it. Every command does, on standard error, as do `NVCCACHE_LOG` and
`nvccache doctor`, with the variable or the line of the file. Wrong are: a value that is not one, an unknown
name (`NVCCACHE_MAX_SISE`, `max_sise`), a file that cannot be read, a line in it that is not TOML. Of the
switches, `disable` and `readonly` count as on if their value is not understood; the others count as off.
`clean` and `stats --reset` refuse to remove what a default would choose.

- Paths are absolute. One that begins with `~` is relative to the home directory. In a variable, a relative
  path is relative to the working directory; in the file it is wrong, since it would differ between
  directories.
- The home directory is `HOME`; if that is unset, empty or relative, it is looked up in the list of users.
  Without one there is no cache unless `NVCCACHE_DIR` names it: nvcc runs by itself, counted with the reason
  `no_cache_directory`. A relative `XDG_CACHE_HOME` or `XDG_CONFIG_HOME` is ignored.
"""
KIND_TEXTS = {
    config.as_path: "path",
    config.as_program: "path",
    config.as_size: "size",
    config.as_count: "number",
    config.as_mask: "octal digits; in the file between quotation marks",
    config.as_switch: "`1` or `0`; in the file `true` or `false`",
    config.as_remotes: "URLs",
    config.as_timeout: "seconds",
    config.as_seconds: "seconds, also `0`",
    config.as_executor: "URL or words",
}
STAGE_TEXTS = {
    "host_preprocess": "the host compiler's preprocessor, for host code",
    "cudafe": "`cudafe++`: splits host from device code, writes the C++ that the host compiler sees",
    "device_preprocess": "the host compiler's preprocessor, once for each virtual architecture",
    "cicc": "device code to PTX (or LTO-IR), once for each virtual architecture",
    "ptxas": "PTX to a cubin, once for each real architecture",
    "fatbinary": "packs cubins and PTX into one fatbin",
    "host_compile": "the host compiler, on what `cudafe++` wrote and the fatbin",
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
        "| call | what it does |",
        "|---|---|",
        "| `nvccache NVCC ARGS...` | compiles through the cache; NVCC is the path or name of an nvcc |",
        "| `nvcc ARGS...` | the same, if this `nvcc` is a link to `nvccache`; `nvccache install` makes one |",
        "| `nvccache COMMAND ...` | one of the commands below |",
        "| `nvccache --version`, `nvccache --help` | the version; the list of commands |",
        "| `nvccache --version --verbose` | what a report of a bug should tell: versions, system, settings |",
        "",
        "Every command takes `--json` and then prints [JSON](json.md) on standard output, for scripts;",
        "what is wrong is told on standard error all the same. Text is for people, and may change. Colours",
        "are for terminals: `NO_COLOR`, `CLICOLOR=0` and `TERM=dumb` turn them off, `CLICOLOR_FORCE=1` turns",
        "them on. What corresponds to the commands of ccache and sccache is in",
        "[a page of its own](commands-compared.md).",
        "",
        "## Exit statuses",
        "",
        "A compile ends with the status of nvcc, or of the signal that ended it. Where there is no compiler",
        "to run it ends with 127, and with 126 for one that cannot be run, as in a shell. A command ends",
        "with",
        "",
        "| status | meaning |",
        "|---|---|",
        *[f"| {status} | {meaning} |" for status, meaning in STATUSES.items()],
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
    """The commands of a group by their names, also where it loads them when they are asked for."""
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
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", (command.help or "").replace("\b\n", "").strip())
    lines = ["    " + " ".join(usage), "", text]
    if options:
        lines += ["", "| option | meaning |", "|---|---|"]
    for option in options:
        value = option.metavar or ""
        if isinstance(option.type, click.Choice):
            value = "\\|".join(map(str, option.type.choices))
        words = f"{', '.join(option.opts)} {value}".rstrip()
        default = f" Default: `{option.default}`." if isinstance(option.default, str) else ""
        lines.append(f"| `{words}` | {option.help}{default} |")
    return lines


def setting_page() -> str:
    lines = [
        "# Settings",
        "",
        "The environment comes first, then the user's settings file, then the default. The file is",
        "`$XDG_CONFIG_HOME/nvccache/config.toml`, else `~/.config/nvccache/config.toml`; in it, a setting",
        'has the name in the second column, as in `max_size = "20G"`. No file in a checkout is ever read:',
        "a checkout must not steer the cache. `nvccache config` shows every value and where it came from.",
        "",
        "| variable | in the file | value | default | meaning |",
        "|---|---|---|---|---|",
    ]
    texts = setting_texts()
    for name, row in config.SETTINGS.items():
        value = KIND_TEXTS[row.parse]
        lines.append(f"| `{row.variable}` | `{name}` | {value} | {default_text(row)} | {texts[name]} |")
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
    """What NVCCACHE_REMOTE may say, scheme by scheme."""
    rows = []
    for name, scheme in remote_url.SCHEMES.items():
        options = ", ".join(f"`{option}`" for option in scheme.options)
        rows.append(f"| `{scheme.example}` | {options or 'none'} | {REMOTE_CREDENTIALS[name]} |")
    lines = [
        "",
        "## Remotes",
        "",
        *REMOTE_TEXT,
        "",
        "| URL | options | credentials |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join([*lines, "", *REMOTE_OPTIONS]) + "\n"


def outcome_page() -> str:
    lines = [
        "# Outcomes",
        "",
        "Every call ends in one of these. `nvccache stats` counts them.",
        "",
        *table("outcome", outcome_texts()),
        "",
        "## Reasons for a bypass",
        "",
        "nvccache decided to leave the call to nvcc, with the very same arguments. Two reasons are not",
        "counted: `disabled`, since nvccache then does nothing at all, and `nested`, since the call around",
        "it is counted. Calls with `NVCCACHE_READONLY`, and those without a cache directory, are counted",
        "only where `NVCCACHE_STATS_DIR` says.",
        "",
        *table("reason", outcomes.REASONS),
        "",
        "## Faults of the store",
        "",
        "The compile is right, but some or all of what it made was not stored. `nvccache stats` counts each",
        "call once, and `nvccache doctor` says what to do.",
        "",
        *table("reason", outcomes.STORE_FAULTS),
        "",
        "## Faults of remotes",
        "",
        "The compile is right, and went on without the remote, which is then left alone for a while.",
        "",
        *table("reason", outcomes.REMOTE_FAULTS),
        "",
        "## Stages that were sent and ran here",
        "",
        "Why a stage ran here though it was sent to another machine; `nvccache stats` counts these stages.",
        "",
        *table("reason", outcomes.EXECUTOR_FAULTS),
        "",
        "## Wrong settings",
        "",
        "`nvccache stats` counts the calls that went on with the default of a setting: under the setting's",
        "name, or under one of these",
        "",
        *table("name", outcomes.WRONG_SETTINGS),
        "",
        "## Stages",
        "",
        "The stages of a compile, for each of which `nvccache stats` counts hits, misses, the seconds spent",
        "on misses and the seconds that hits saved.",
        "",
        *table("stage", {stage: STAGE_TEXTS[stage] for stage in stages.counted()}),
    ]
    return "\n".join(lines) + "\n"


def outcome_texts() -> dict[str, str]:
    """Outcome -> its meaning, from the comments beside the constants."""
    with open(outcomes.__file__, encoding="utf-8") as stream:
        found = dict(re.findall(r'^[A-Z_]+ = "(\w+)"  # (.+)$', stream.read(), re.MULTILINE))
    return {outcome: found[outcome] for outcome in outcomes.OUTCOMES}


def table(head: str, texts: dict[str, str]) -> list[str]:
    rows = [f"| `{word}` | {text.replace('|', '&#124;')} |" for word, text in texts.items()]
    return [f"| {head} | meaning |", "|---|---|", *rows]


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
