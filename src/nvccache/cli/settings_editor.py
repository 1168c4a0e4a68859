"""Changes one setting in the user's settings file and nothing else: comments, order and blanks stay.

tomlkit does the editing. What comes out is read as a compile reads it before it takes the place of the file,
in one step; a link to the file stays a link. Two changes at once do not lose one of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile

from nvccache import config, settings_file
from nvccache.cli.output import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    import tomlkit

_LARGEST = 1 << 20  # characters


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


def value_in(path: str, name: str) -> object:
    """What a file says of a setting, None if nothing."""
    return settings_file.read(path, config.SETTINGS)[0].get(name, (0, None))[1]


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
    parse = config.SETTINGS[name].parse
    word = value.strip().lower()
    if parse is config.as_switch and word in (*config.ON, *config.OFF):
        return word in config.ON
    if parse is config.as_count and word.isdecimal() and len(word) < 10:
        return int(word)
    return value


def _check(setting: str, document: tomlkit.TOMLDocument) -> None:
    """Refuse what a compile would not understand."""
    with tempfile.TemporaryDirectory(prefix="nvccache-config-") as folder:
        environ = {name: text for name, text in os.environ.items() if not name.startswith(config.PREFIX)}
        environ["XDG_CONFIG_HOME"] = folder
        path = config.config_file(environ)
        os.mkdir(os.path.dirname(path))
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(document.as_string())
        for problem in config.load(environ).problems:
            if problem.setting in (setting, config.FILE):
                raise Failure(f"`{setting}` was left as it is: {problem.text}")


def _replace(path: str, document: tomlkit.TOMLDocument) -> None:
    """Put the new text in the place of the old one, in one step; raises OSError."""
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
    descriptor, fresh = tempfile.mkstemp(prefix=".config-", dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(document.as_string())
            stream.flush()
            os.fsync(descriptor)
        os.chmod(fresh, 0o600 if mode is None else mode)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
