"""`nvccache config`: shows the settings in force with their origins, and changes one in the user's file.

A change replaces one line. The new text is parsed as a compile parses it. If anything but that setting then
has another value, the file stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re

import click

from nvccache import config as settings
from nvccache import log
from nvccache.cli import settings as our_settings
from nvccache.cli.output import (
    Failure,
    WrongUsage,
    format_size,
    json_option,
    say,
    say_json,
    warn,
    write_failure,
)
from nvccache.config import Config


@click.command(epilog="Example: nvccache config max_size 20G")
@click.argument("words", nargs=-1, metavar="[NAME [VALUE]]")
@click.option("--unset", metavar="NAME", help="Remove a setting from the settings file.")
@json_option
def config(words: tuple[str, ...], unset: str | None, as_json: bool) -> None:
    """Show or change the settings.

    Without NAME, it shows the value of every setting and where the value comes from. A VALUE is checked and
    then written to the settings file; the other lines of the file stay as they are.
    """
    word = words[0] if words else unset
    name = (word or "").removeprefix(settings.PREFIX).lower().replace("-", "_")
    if word is not None and name not in settings.SETTINGS:
        raise WrongUsage(
            f"there is no setting `{word}`{log.instead_of(word)}", "`nvccache config` lists all settings"
        )
    if len(words) > 2 or (words and unset is not None):
        raise WrongUsage("give no more than NAME and VALUE, or `--unset NAME` alone")
    if unset is not None or len(words) == 2:
        _change(name, None if unset is not None else words[1], as_json)
        return
    loaded = our_settings.load()
    path = settings.config_file(os.environ)
    facts = {
        name: {"value": _value(name, loaded), "origin": loaded.origins[name]} for name in settings.SETTINGS
    }
    if as_json and name:
        say_json({"setting": name, **facts[name]})
    elif as_json:
        rows = settings.SETTINGS.items()
        document = {"settings": {name: {**facts[name], "variable": row.variable} for name, row in rows}}
        sentences = zip(loaded.problems, log.sentences(loaded), strict=True)
        problems = [{"setting": problem.setting, "text": text} for problem, text in sentences]
        is_there = bool(path) and os.path.exists(path)
        say_json({**document, "file": path or None, "file_exists": is_there, "problems": problems})
    elif name:
        say(_text(name, loaded))
    else:
        texts = {name: log.printable(_text(name, loaded)) or "-" for name in settings.SETTINGS}
        widths = max(map(len, texts)), max(map(len, texts.values()))
        for name, text in texts.items():
            say(f"{name:<{widths[0]}}  {text:<{widths[1]}}  {loaded.origins[name]}")
        missing = "" if os.path.exists(path) else " (does not exist)"
        say("", f"file: `{path}`{missing}" if path else "file: none, because there is no home directory")


def _value(name: str, loaded: Config) -> object:
    return our_settings.display_value(name, getattr(loaded, name))


def _text(name: str, loaded: Config) -> str:
    value = _value(name, loaded)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if settings.SETTINGS[name].parse is settings.as_size and isinstance(value, int):
        return format_size(value) if value else "no limit"
    return str(value or "")


def _change(name: str, value: str | None, as_json: bool) -> None:
    """Set a setting in the settings file, or remove it if `value` is None; raises Failure."""
    path = settings.config_file(os.environ)
    row = settings.SETTINGS[name]
    if not path:
        raise Failure(
            "there is no settings file, because there is no home directory", "set `XDG_CONFIG_HOME`"
        )
    try:
        text = settings.read_file(path) if os.path.lexists(path) else ""
        before = settings.parse_file(text)
        after = {key: kept for key, kept in before.items() if key != name}
        line = ""
        if value is not None:
            parsed = row.parse(value, os.environ, True)
            after[name] = parsed if row.parse in (settings.as_switch, settings.as_count) else value
            line = f"{name} = {json.dumps(after[name], ensure_ascii=False)}\n"
        new, is_there = re.subn(rf"(?m)^[\"']?{name}[\"']?\s*=.*\n?", lambda _: line, text, count=1)
        new = new if is_there else line + text  # a new setting must stand before any table
        if settings.parse_file(new) != after:
            raise ValueError("the file has this setting in a form that nvccache cannot edit")
        new.encode()  # raises UnicodeEncodeError
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Failure(f"cannot change `{name}` in `{path}`: {why}") from None
    if new != text:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        _replace(path, new)
    shown = our_settings.display_value(name, after.get(name))
    if as_json:
        say_json({"file": path, "setting": name, "value": shown, "was_set": name in before})
    elif value is not None:
        say(f"set `{name}` to `{our_settings.display_value(name, value)}` in `{path}`")
    else:
        say(f"removed `{name}` from `{path}`" if name in before else f"`{name}` is not set in `{path}`")
    if row.variable in os.environ:
        warn(f"the environment variable `{row.variable}` is set, and takes precedence over the file")


def _replace(path: str, text: str) -> None:
    """Replace a file in one step, so that a full disk leaves the old one. Keeps its mode; raises Failure."""
    target = os.path.realpath(path)
    new = f"{target}.{os.getpid()}"
    try:
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with open(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, mode)
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        os.replace(new, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise write_failure(path, error) from None
