"""`nvccache config`: shows the settings in force with their origins, and edits the user's file.

A change affects one line: comments and all other lines stay. The new text is parsed as a compile does, and
must differ from the old one in that setting alone; otherwise the file is left to its author. It is replaced
atomically. A link to the file stays a link. Concurrent changes are all kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re

import click

from nvccache import config as settings
from nvccache import hints, settings_file
from nvccache.cli import removed
from nvccache.cli import settings as our_settings
from nvccache.cli.output import Failure, WrongUsage, json_option, replacing, say, say_json, warn
from nvccache.cli.units import format_size
from nvccache.config import Config
from nvccache.log import printable

_VALUE = r"""\s*=\s*(?P<value>"[^"\\]*"|'[^']*'|[^\s#"'\[{]+)\s*(?:#.*)?$"""


@click.command(epilog="Example: nvccache config max_size 20G")
@click.argument("words", nargs=-1, metavar="[NAME [VALUE]]")
@click.option("--unset", metavar="NAME", help="Remove a setting from the settings file.")
@json_option
def config(words: tuple[str, ...], unset: str | None, as_json: bool) -> None:
    """Show or change the settings.

    Without a NAME, it shows every setting, its value and where that comes from. VALUE is checked, and written
    to the settings file, whose other lines stay as they are.
    """
    if words and (clause := removed.instead_of(f"config {words[0]}", removed.COMMANDS)):
        raise WrongUsage(f"no such command `{words[0]}`{clause}")
    if len(words) > 2 or (words and unset is not None):
        raise WrongUsage("one NAME and one VALUE are allowed, or `--unset` NAME")
    name = _known(words[0] if words else unset) if words or unset is not None else ""
    if unset is not None or len(words) == 2:
        value = None if unset is not None else words[1]
        path = settings.config_file(os.environ)
        if not path:
            why = "there is no settings file, because there is no home directory"
            raise Failure(why, "set `XDG_CONFIG_HOME`")
        was_set = change(path, name, value)
        shown = None if value is None else _jsonable(name, _typed(name, value))
        if as_json:
            say_json({"file": path, "setting": name, "value": shown, "was_set": was_set})
        elif value is not None:
            say(f"set `{name}` to `{our_settings.shown(name, value)}` in `{path}`")
        else:
            say(f"removed `{name}` from `{path}`" if was_set else f"`{name}` is not set in `{path}`")
        if settings.SETTINGS[name].variable in os.environ:
            variable = settings.SETTINGS[name].variable
            warn(f"`{variable}` is set in the environment, which takes precedence")
        return
    loaded = our_settings.load()
    if as_json and name:
        shown = _jsonable(name, getattr(loaded, name))
        say_json({"setting": name, "value": shown, "origin": loaded.origins[name]})
    elif as_json:
        say_json(_document(loaded))
    elif name:
        say(_shown(name, loaded))
    else:
        _show(loaded)


def _known(word: str | None) -> str:
    """The setting with this name or this environment variable; raises WrongUsage."""
    name = (word or "").removeprefix(settings.PREFIX).lower().replace("-", "_")
    if name in settings.SETTINGS:
        return name
    instead = settings_file.instead_of(name) or hints.for_setting(name)
    raise WrongUsage(f"there is no setting `{word}`{instead}", "`nvccache config` lists them")


def _document(loaded: Config) -> dict[str, object]:
    path = settings.config_file(os.environ)
    return {
        "settings": {
            name: {
                "value": _jsonable(name, getattr(loaded, name)),
                "origin": loaded.origins[name],
                "variable": row.variable,
            }
            for name, row in settings.SETTINGS.items()
        },
        "file": path or None,
        "file_exists": bool(path) and os.path.exists(path),
        "problems": [
            {"setting": each.setting, "where": each.where, "text": each.text} for each in loaded.problems
        ],
    }


def _jsonable(name: str, value: object) -> object:
    value = our_settings.shown(name, value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _show(loaded: Config) -> None:
    wrong = {problem.setting for problem in loaded.problems}
    rows = []
    for name in settings.SETTINGS:
        why = ", because its value is wrong" if name in wrong else ""
        rows.append((name, printable(_shown(name, loaded)) or "-", loaded.origins[name] + why))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        say(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
    path = settings.config_file(os.environ)
    missing = "" if os.path.exists(path) else ", which does not exist"
    say("", f"file: `{path}`{missing}" if path else "file: none, because there is no home directory")


def _shown(name: str, loaded: Config) -> str:
    value = our_settings.shown(name, getattr(loaded, name))
    row = settings.SETTINGS[name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if row.parse is settings.as_size and isinstance(value, int):
        return format_size(value) if value else "no limit"
    return f"{value:g} s" if isinstance(value, float) else str(value or "")


def change(path: str, name: str, value: str | None) -> bool:
    """Set a setting in a file, or remove it if `value` is None; whether it was there. Raises Failure."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    try:
        if value is not None:
            os.makedirs(folder, 0o700, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # there is nothing to remove
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror or error}") from None
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return _change(path, name, value)
    except (OSError, ValueError) as error:  # also UnicodeError
        text = getattr(error, "strerror", None) or error
        raise Failure(f"`{name}` is unchanged in `{path}`: {text}") from None
    finally:
        os.close(descriptor)


def _change(path: str, name: str, value: str | None) -> bool:
    """Raises OSError and ValueError."""
    text = settings_file.content(path).decode() if os.path.lexists(path) else ""
    before = settings_file.parsed(text.removeprefix("\ufeff"))
    after = {key: kept for key, kept in before.items() if key != name}
    lines = text.splitlines(keepends=True)
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    end = heads[0] if heads else len(lines)  # of our settings: what follows belongs to a table
    found = [
        (number, match)
        for number in range(end)
        if (match := re.match(rf"""\s*["']?{name}["']?{_VALUE}""", lines[number]))
    ]
    if value is not None:
        if not value.strip():
            raise ValueError(f"it cannot be empty: `nvccache config --unset {name}` restores the default")
        after[name] = _typed(name, value)
        settings.SETTINGS[name].parse(after[name], os.environ, True)
        written = json.dumps(after[name], ensure_ascii=False).replace("\x7f", "\\u007f")
    for number, match in found:
        line, (start, stop) = lines[number], match.span("value")
        lines[number] = "" if value is None else line[:start] + written + line[stop:]
    if value is not None and not found:
        if end and not lines[end - 1].endswith("\n"):
            lines[end - 1] += "\n"
        lines.insert(end, f"{name} = {written}\n")
    new = "".join(lines)
    if settings_file.parsed(new.removeprefix("\ufeff")) != after:
        raise ValueError("the file has it in a form that only you can edit")
    if new != text:
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
        with replacing(path, mode) as stream:
            stream.write(new.encode())
    return name in before


def _typed(name: str, value: str) -> str | int | bool:
    """The value in its TOML type; an invalid one stays a string, which its parser refuses."""
    parse = settings.SETTINGS[name].parse
    lower = value.strip().lower()
    if parse is settings.as_switch and lower in (*settings.ON, *settings.OFF):
        return lower in settings.ON
    return int(lower) if parse is settings.as_count and lower.isdecimal() and len(lower) < 10 else value
