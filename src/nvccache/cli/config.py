"""`nvccache config`: the settings in force and where each came from, and changes to the user's file."""

from __future__ import annotations

import os

import click

from nvccache import config as settings
from nvccache import wrong_settings
from nvccache.cli import settings as our_settings
from nvccache.cli import settings_editor
from nvccache.cli.output import Failure, WrongUsage, json_option, say, say_json, warn
from nvccache.cli.suggesting import SuggestingGroup
from nvccache.cli.units import size_words
from nvccache.escaping import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config, Setting


@click.group(cls=SuggestingGroup, invoke_without_command=True, no_args_is_help=False)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show the settings and where each came from, or change them."""
    if ctx.invoked_subcommand:
        if as_json:
            raise WrongUsage("`--json` goes behind the last word of the command", ctx=ctx)
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
    settings_editor.change(path, name, value)
    if as_json:
        say_json({"file": path, "setting": name, "value": _jsonable(name, _in_file(path, name))})
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
    was_there = settings_editor.change(path, name, None)
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
    near = wrong_settings.nearest(name)
    meant = f"; did you mean `{near}`?" if near else ""
    raise WrongUsage(
        f"there is no setting `{word}`{meant}", "`nvccache config` lists them", click.get_current_context()
    )


def _file() -> str:
    path = settings.config_file(os.environ)
    if not path:
        raise Failure("there is no settings file, since there is no home directory", "set `XDG_CONFIG_HOME`")
    return path


def _in_file(path: str, name: str) -> object:
    return settings_editor.value_in(path, name)


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
