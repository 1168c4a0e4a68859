"""`nvccache config`: the settings in force and where each came from, and changes to the user's file.

A change touches one setting and nothing else: comments, order and blanks stay. tomlkit does the editing. What
comes out is read as a compile reads it before it takes the place of the file, in one step; a link to the file
stays a link. Two changes at once do not lose one of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nvccache import config as settings
from nvccache import log, settings_file
from nvccache.cli import settings as our_settings
from nvccache.cli.group import LazyGroup
from nvccache.cli.output import Failure, WrongUsage, json_option, replacing, say, say_json, warn
from nvccache.cli.units import size_words
from nvccache.config import Config, Setting
from nvccache.log import printable

if TYPE_CHECKING:
    import tomlkit

_LARGEST = 1 << 20  # characters of a settings file


@click.group(cls=LazyGroup, invoke_without_command=True, no_args_is_help=False)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show the settings and where each came from, or change them."""
    if ctx.invoked_subcommand:
        if as_json:
            raise WrongUsage("`--json` goes behind the last word of the command")
        return
    loaded = our_settings.load()
    path = settings.config_file(os.environ)
    if as_json:
        say_json(_document(loaded, path))
        return
    _show(loaded)
    if not path:
        say("", "file: none, since there is no home directory")
        return
    say("", f"file: `{path}`" + ("" if os.path.exists(path) else ", which does not exist"))


@config.command("set")
@click.argument("name", metavar="NAME")
@click.argument("value", metavar="VALUE")
@json_option
def set_value(name: str, value: str, as_json: bool) -> None:
    """Write a setting into the settings file.

    As in `nvccache config set max_size 20G`. VALUE is checked first, comments and all other lines stay, and
    the file is replaced in one step.
    """
    name = _known(name)
    path = _file()
    change(path, name, value)
    if as_json:
        say_json({"file": path, "setting": name, "value": _jsonable(name, _typed(name, value))})
    else:
        say(f"`{name}` is `{our_settings.shown(name, value)}` in `{path}`")
    _warn_of_variable(name)


@config.command("unset")
@click.argument("name", metavar="NAME")
@json_option
def unset_value(name: str, as_json: bool) -> None:
    """Take a setting out of the settings file."""
    name = _known(name)
    path = _file()
    was_there = change(path, name, None)
    if as_json:
        say_json({"file": path, "setting": name, "was_set": was_there})
    else:
        say(f"`{name}` is no longer set in `{path}`" if was_there else f"`{name}` is not set in `{path}`")
    _warn_of_variable(name)


@config.command("path")
@json_option
def show_path(as_json: bool) -> None:
    """Print the path of the settings file."""
    path = _file()
    if as_json:
        say_json({"file": path, "exists": os.path.exists(path)})
    else:
        say(path)


def _known(word: str) -> str:
    """The setting that is meant by its name or by its variable's."""
    name = word.removeprefix(settings.PREFIX).lower().replace("-", "_")
    if name in settings.SETTINGS:
        return name
    near = log.nearest(name)
    meant = f"; did you mean `{near}`?" if near else ""
    raise WrongUsage(f"there is no setting `{word}`{meant}", "`nvccache config` lists them")


def _file() -> str:
    path = settings.config_file(os.environ)
    if not path:
        raise Failure("there is no settings file, since there is no home directory", "set `XDG_CONFIG_HOME`")
    return path


def _warn_of_variable(name: str) -> None:
    variable = settings.SETTINGS[name].variable
    if variable in os.environ:
        warn(f"`{variable}` is set in the environment, which goes first")


def _document(loaded: Config, path: str) -> dict[str, object]:
    shown = {}
    for name, row in settings.SETTINGS.items():
        value = _jsonable(name, getattr(loaded, name))
        shown[name] = {"value": value, "origin": loaded.origins[name], "variable": row.variable}
    problems = [{"setting": each.setting, "where": each.where, "text": each.text} for each in loaded.problems]
    return {
        "settings": shown,
        "file": path or None,
        "file_exists": bool(path) and os.path.exists(path),
        "problems": problems,
    }


def _jsonable(name: str, value: object) -> object:
    value = our_settings.shown(name, value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _show(loaded: Config) -> None:
    wrong = {problem.setting for problem in loaded.problems}
    rows = [
        (
            name,
            printable(_words(row, our_settings.shown(name, getattr(loaded, name)))),
            loaded.origins[name] + (", since what is set is wrong" if name in wrong else ""),
        )
        for name, row in settings.SETTINGS.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        say(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")


def _words(row: Setting, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if row.parse is settings.as_size and isinstance(value, int):
        return size_words(value) if value else "no limit"
    if row.parse is settings.as_mask and isinstance(value, int):
        return f"{value:03o}"
    if isinstance(value, float):
        return f"{value:g} s"
    return str(value or "-")


def change(path: str, name: str, value: str | None) -> bool:
    """Set a setting in a file, or take it out for None; whether it was there. Ends in one sentence."""
    path = os.path.realpath(path)
    try:
        with _locked(os.path.dirname(path), may_make=value is not None):
            return _change(path, name, value)
    except FileNotFoundError:
        return False  # there is nothing to take out
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror or error}") from None


def is_toml(path: str) -> bool:
    """Whether `change` could understand a file."""
    try:
        _parsed(path)
    except (Failure, OSError):
        return False
    return True


def _change(path: str, name: str, value: str | None) -> bool:
    document = _parsed(path)
    was_there = name in document
    if value is None:
        if was_there:
            del document[name]
            _replace(path, document)
        return was_there
    if not value.strip():
        raise Failure(f"`{name}` cannot be set to nothing", f"`nvccache config unset {name}` has its default")
    if isinstance(document.get(name), dict | list):  # with comments of its own
        raise Failure(f"`{name}` is a table or a list in `{path}`", "mend the file first")
    document[name] = _typed(name, value)
    _check(name, document)
    _replace(path, document)
    return was_there


@contextlib.contextmanager
def _locked(folder: str, may_make: bool) -> Iterator[None]:
    """Raises OSError."""
    if may_make:
        os.makedirs(folder, 0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parsed(path: str) -> tomlkit.TOMLDocument:
    """The file, or an empty one; a file that is not TOML must be mended by who wrote it."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    if os.path.exists(path) and not os.path.isfile(path):  # a FIFO would be waited for
        raise Failure(f"`{path}` is no regular file")
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            text = stream.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise Failure(f"`{path}` is too large for a settings file")
            return tomlkit.parse(text)
    except FileNotFoundError:
        return tomlkit.document()
    except UnicodeDecodeError:
        raise Failure(f"`{path}` is not a text in UTF-8") from None
    except ParseError as error:
        raise Failure(f"`{path}` line {error.line} is not TOML", "mend that line first") from None
    except TOMLKitError as error:
        raise Failure(f"`{path}` is not TOML: {error}", "mend the file first") from None


def _typed(name: str, value: str) -> str | int | bool:
    """The value as TOML should have it; one that is wrong stays a word, and is refused by `_check`."""
    parse = settings.SETTINGS[name].parse
    word = value.strip().lower()
    if parse is settings.as_switch and word in (*settings.ON, *settings.OFF):
        return word in settings.ON
    if parse is settings.as_count and word.isdecimal() and len(word) < 10:
        return int(word)
    return value


def _check(setting: str, document: tomlkit.TOMLDocument) -> None:
    """Refuse what a compile would not understand."""
    try:
        text = document.as_string().encode(errors="surrogateescape").decode()
        settings.SETTINGS[setting].parse(settings_file.parsed(text)[setting], os.environ, True)
    except UnicodeDecodeError as error:
        raise Failure(f"`{setting}` was left as it is: is not a text in UTF-8: {error.reason}") from None
    except ValueError as error:
        raise Failure(f"`{setting}` was left as it is: {error}") from None


def _replace(path: str, document: tomlkit.TOMLDocument) -> None:
    """Put the new text in the place of the old one; raises OSError."""
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    with replacing(path, mode) as stream:
        stream.write(document.as_string().encode())
