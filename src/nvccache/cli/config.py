"""`nvccache config`: shows the settings in force with their origins, and edits the user's file.

A change affects one setting only: tomlkit keeps comments, order and blanks. The new text is validated as a
compile would before it replaces the file atomically. A link to the file stays a link. Concurrent changes are
all kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nvccache import config as settings
from nvccache import hints, settings_file
from nvccache.cli import settings as our_settings
from nvccache.cli.group import LazyGroup
from nvccache.cli.output import Failure, WrongUsage, json_option, replacing, say, say_json, warn
from nvccache.cli.units import format_size
from nvccache.config import Config
from nvccache.log import printable

if TYPE_CHECKING:
    import tomlkit

_LARGEST = 1 << 20  # characters of a settings file


class _Settings(LazyGroup):
    """The commands of `config`; the name of a setting instead of a command gets a hint."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, _, value = args[0].partition("=")
        name = _name(word)
        if name not in settings.SETTINGS or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        value = str(our_settings.shown(name, value or shlex.join(args[1:])))
        hint = f"`nvccache config set {name} {value or 'VALUE'}` changes it"
        if not value:
            hint = f"`nvccache config get {name}` shows it, {hint}"
        raise WrongUsage(f"`{word}` is a setting, not a command", hint)


@click.group(
    cls=_Settings,
    invoke_without_command=True,
    no_args_is_help=False,
    epilog="Example: nvccache config set max_size 20G",
)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show or change the settings.

    Without a command, it shows every setting, its value and where that comes from.
    """
    if ctx.invoked_subcommand:
        if as_json:
            raise WrongUsage(
                "`--json` goes after the command", f"`nvccache config {ctx.invoked_subcommand} --json`"
            )
        return
    loaded = our_settings.load()
    path = settings.config_file(os.environ)
    if as_json:
        say_json(_document(loaded, path))
        return
    _show(loaded)
    if not path:
        say("", "file: none, because there is no home directory")
        return
    say("", f"file: `{path}`" + ("" if os.path.exists(path) else ", which does not exist"))


@config.command("get", epilog="Example: nvccache config get max_size")
@click.argument("name", metavar="NAME")
@json_option
def get_value(name: str, as_json: bool) -> None:
    """Print the value of a setting."""
    name = _known(name)
    loaded = our_settings.load()
    if as_json:
        say_json(
            {"setting": name, "value": _jsonable(name, getattr(loaded, name)), "origin": loaded.origins[name]}
        )
    else:
        say(_shown(name, loaded))


@config.command("set", epilog="Example: nvccache config set max_size 20G")
@click.argument("name", metavar="NAME")
@click.argument("value", metavar="VALUE")
@json_option
def set_value(name: str, value: str, as_json: bool) -> None:
    """Write a setting to the settings file.

    VALUE is checked first. Comments and all other lines stay, and the file is replaced in one step.
    """
    name = _known(name)
    path = _file()
    change(path, name, value)
    if as_json:
        say_json({"file": path, "setting": name, "value": _jsonable(name, _typed(name, value))})
    else:
        say(f"set `{name}` to `{our_settings.shown(name, value)}` in `{path}`")
    _warn_of_variable(name)


@config.command("unset", epilog="Example: nvccache config unset max_size")
@click.argument("name", metavar="NAME")
@json_option
def unset_value(name: str, as_json: bool) -> None:
    """Remove a setting from the settings file."""
    name = _known(name)
    path = _file()
    was_there = change(path, name, None)
    if as_json:
        say_json({"file": path, "setting": name, "was_set": was_there})
    else:
        say(f"removed `{name}` from `{path}`" if was_there else f"`{name}` is not set in `{path}`")
    _warn_of_variable(name)


@config.command("path", epilog="Example: nvccache config path")
@json_option
def show_path(as_json: bool) -> None:
    """Print the path of the settings file."""
    path = _file()
    if as_json:
        say_json({"file": path, "exists": os.path.exists(path)})
    else:
        say(path)


def _known(word: str) -> str:
    """The setting with this name or this environment variable; raises WrongUsage."""
    name = _name(word)
    if name in settings.SETTINGS:
        return name
    raise WrongUsage(f"there is no setting `{word}`{hints.for_setting(name)}", "`nvccache config` lists them")


def _name(word: str) -> str:
    return word.removeprefix(settings.PREFIX).lower().replace("-", "_")


def _file() -> str:
    path = settings.config_file(os.environ)
    if not path:
        raise Failure(
            "there is no settings file, because there is no home directory", "set `XDG_CONFIG_HOME`"
        )
    return path


def _warn_of_variable(name: str) -> None:
    variable = settings.SETTINGS[name].variable
    if variable in os.environ:
        warn(f"`{variable}` is set in the environment, which takes precedence")


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
            printable(_shown(name, loaded)) or "-",
            loaded.origins[name] + (", because its value is wrong" if name in wrong else ""),
        )
        for name in settings.SETTINGS
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, origin in rows:
        say(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")


def _shown(name: str, loaded: Config) -> str:
    value = our_settings.shown(name, getattr(loaded, name))
    row = settings.SETTINGS[name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if row.parse is settings.as_size and isinstance(value, int):
        return format_size(value) if value else "no limit"
    if row.parse is settings.as_mask and isinstance(value, int):
        return f"{value:03o}"
    if isinstance(value, float):
        return f"{value:g} s"
    return str(value or "")


def change(path: str, name: str, value: str | None) -> bool:
    """Set a setting in a file, or remove it if `value` is None; whether it was there. Raises Failure."""
    path = os.path.realpath(path)
    try:
        with _locked(os.path.dirname(path), may_make=value is not None):
            return _change(path, name, value)
    except FileNotFoundError:
        return False  # there is nothing to remove
    except OSError as error:
        raise Failure(f"cannot write `{path}`: {error.strerror or error}") from None


def _change(path: str, name: str, value: str | None) -> bool:
    document = _parsed(path)
    was_there = name in document
    if value is None:
        if was_there:
            del document[name]
            _replace(path, document)
        return was_there
    if not value.strip():
        raise Failure(f"`{name}` cannot be empty", f"`nvccache config unset {name}` restores the default")
    if isinstance(document.get(name), dict | list):  # may contain comments
        raise Failure(f"`{name}` is a table or a list in `{path}`", "correct the file first")
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
    """The file, or an empty document; raises Failure for a file that is not TOML."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    if os.path.exists(path) and not os.path.isfile(path):  # opening a FIFO would block
        raise Failure(f"`{path}` is not a regular file")
    try:
        with open(path, encoding="utf-8-sig", newline="") as stream:
            text = stream.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise Failure(f"`{path}` is too large for a settings file")
            return tomlkit.parse(text)
    except FileNotFoundError:
        return tomlkit.document()
    except UnicodeDecodeError:
        raise Failure(f"`{path}` is not UTF-8 text") from None
    except ParseError as error:
        raise Failure(f"`{path}` line {error.line} is not TOML", "correct that line first") from None
    except TOMLKitError as error:
        raise Failure(f"`{path}` is not TOML: {error}", "correct the file first") from None


def _typed(name: str, value: str) -> str | int | bool:
    """The value in its TOML type; an invalid one stays a string, which `_check` refuses."""
    parse = settings.SETTINGS[name].parse
    lower = value.strip().lower()
    if parse is settings.as_switch and lower in (*settings.ON, *settings.OFF):
        return lower in settings.ON
    if parse is settings.as_count and lower.isdecimal() and len(lower) < 10:
        return int(lower)
    return value


def _check(setting: str, document: tomlkit.TOMLDocument) -> None:
    """Refuse a value that a compile would reject; raises Failure."""
    try:
        text = document.as_string().encode(errors="surrogateescape").decode()
        settings.SETTINGS[setting].parse(settings_file.parsed(text)[setting], os.environ, True)
    except UnicodeDecodeError as error:
        raise Failure(f"`{setting}` is unchanged: the value is not UTF-8 text: {error.reason}") from None
    except ValueError as error:
        raise Failure(f"`{setting}` is unchanged: {error}") from None


def _replace(path: str, document: tomlkit.TOMLDocument) -> None:
    """Replace the file; raises OSError."""
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
    with replacing(path, mode) as stream:
        stream.write(document.as_string().encode())
