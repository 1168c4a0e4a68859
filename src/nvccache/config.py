"""The settings of one call, from the environment, else from the user's file, else from the defaults.

Owns the table of settings, which is the body of `Config`. Each row defines a setting's environment variable,
its name in the file, its line in `nvccache config` and its text in the reference. Part of the hot path. Files
in a checkout are never read, since a checkout must not configure the cache. The default replaces an invalid
value, and `problems` says so, for the log and the commands. Directories follow the XDG rules, as with
platformdirs; a test compares the two. Importing platformdirs would cost 14 ms on every hit.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Parser = Callable[[object, Mapping[str, str], bool], object]  # may raise ValueError with a message

PREFIX = "NVCCACHE_"
FILE = "file"  # the origin of values from the file, and the `setting` of a problem with the file
AUTO = "auto"  # a value of base_dir
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
OFF = ("0", "false", "no", "off")
ON = ("1", "true", "yes", "on")
_LARGEST_FILE = 1 << 20  # bytes


class ConfigError(ValueError):
    """A setting has an invalid value; the message for the user is a clause."""


def home_of(environ: Mapping[str, str]) -> str:
    """HOME, else the directory in the user database; empty if neither is an absolute path."""
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except (KeyError, OSError):
            return ""
    return home if home.startswith("/") else ""


def default_cache_dir(environ: Mapping[str, str]) -> str:
    """The path of the cache directory by default; empty if there is no home directory."""
    return _below("XDG_CACHE_HOME", ".cache", environ, "nvccache")


def config_file(environ: Mapping[str, str]) -> str:
    """The path of the settings file; empty if there is no home directory."""
    return _below("XDG_CONFIG_HOME", ".config", environ, "nvccache/config.toml")


def _below(variable: str, folder: str, environ: Mapping[str, str], name: str) -> str:
    base = environ.get(variable, "")
    if not base.startswith("/"):  # XDG says to ignore relative paths
        home = home_of(environ)
        base = os.path.join(home, folder) if home else ""
    return os.path.join(base, name) if base else ""


def parse_size(text: str) -> int:
    """Bytes from `10G`, `500M`, `1.5T`, `10GiB`, `0`; raises ConfigError."""
    upper = text.strip().upper()
    number = upper.rstrip("BIKMGT")
    unit = upper[len(number) :]
    try:
        size = float(number if number.isascii() else "") * _UNITS[unit.removesuffix("B").removesuffix("I")]
        if not (size == 0 or 1 <= size < 2**63):  # rejects nan, too
            raise ValueError
    except (ValueError, KeyError):
        raise ConfigError(f"`{text}` is not a size such as `10G`, `500M` or `1T`") from None
    # ccache reads a plain 5 as 5 GiB. As a limit of 5 bytes, it would empty the cache of a user of ccache.
    if not unit and 0 < size < _UNITS["M"]:
        raise ConfigError(f"`{text}` needs a unit: `K`, `M`, `G` or `T`, or `B` for bytes")
    return int(size)


def as_switch(raw: object, environ: Mapping[str, str], is_in_file: bool) -> bool:
    lower = str(raw).strip().lower()
    if lower not in ON and lower not in OFF:
        raise ConfigError(f"`{raw}` is neither on (`1`, `true`) nor off (`0`, `false`)")
    return lower in ON


def as_size(raw: object, environ: Mapping[str, str], is_in_file: bool) -> int:
    return parse_size(str(raw))


def as_count(raw: object, environ: Mapping[str, str], is_in_file: bool) -> int:
    text = str(raw)
    if not text.isdecimal() or len(text) > 6:
        raise ConfigError(f"`{text}` is not a number of jobs")
    return int(text)


def as_path(raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """An absolute path."""
    if not isinstance(raw, str) or "\0" in raw:
        raise ConfigError(f"`{raw}` is not a path")
    path = raw
    if raw.startswith("~"):
        user, slash, below = raw.partition("/")
        home = home_of(environ) if user == "~" else os.path.expanduser(user)
        path = home + slash + below if home.startswith("/") else raw
    if not path.startswith("/") and (is_in_file or raw.startswith("~")):
        raise ConfigError(f"`{raw}` is neither an absolute path nor a path below a home directory")
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise ConfigError(
            f"`{raw}` is relative to the working directory, but that is unknown: {error.strerror}"
        ) from None


def as_base(raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """`auto`, or an absolute path."""
    return AUTO if raw == AUTO else as_path(raw, environ, is_in_file)


def as_program(raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """A name to look up on PATH, or an absolute path."""
    is_name = isinstance(raw, str) and "/" not in raw and "\0" not in raw
    return str(raw) if is_name else as_path(raw, environ, is_in_file)


def as_remotes(raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """The text, unchanged; it may contain passwords."""
    from nvccache import remote_url

    remote_url.parse(str(raw))
    return str(raw)


def as_executor(raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """The text, unchanged."""
    from nvccache import endpoint

    endpoint.parse(str(raw))
    return str(raw)


class Problem:
    """What is wrong with a setting."""

    def __init__(self, setting: str, sentence: str, misspelled: str = "") -> None:
        self.setting = setting  # the name of the setting, or FILE, or `unknown`
        self.sentence = sentence  # what is wrong, and what is used instead
        self.misspelled = misspelled  # the given name, if no setting has it


SETTINGS: dict[str, Setting] = {}  # the table, in the order of the reference; `Config` fills it


class Setting:
    """A row of the table of settings."""

    variable: str

    def __init__(
        self, parse: Parser, default: object, if_wrong: object = None, shown_default: str = ""
    ) -> None:
        self.parse = parse  # each parser is described by KIND_TEXTS in docs/generate/reference.py
        self.default = default  # a value, or a function that computes it from the environment
        self.if_wrong = if_wrong  # what replaces an invalid value; if None, the default does
        self.shown_default = shown_default  # what the reference shows as default, if not the value itself

    def __set_name__(self, owner: type, name: str) -> None:
        self.variable = PREFIX + name.upper()
        SETTINGS[name] = self


setting: Any = Setting  # so that type checkers treat a row as the value that it has in a `Config`


class Config:
    """The settings in force. Sizes are bytes, 0 for no limit; paths are absolute or empty.

    A row is `name: type = setting(parser, default)`, followed by its text for docs/reference/settings.md,
    which has the same order. These texts are not compiled, so they cost a hit nothing. An instance has
    the value of each setting as an attribute. `dir` is empty if it is not set and there is no home directory.
    """

    dir: str = setting(
        as_path, default_cache_dir, shown_default="`$XDG_CACHE_HOME/nvccache`, else `~/.cache/nvccache`"
    )
    """Where the cache is. Any number of processes may use it at the same time."""
    max_size: int = setting(as_size, 10 * 1024**3, shown_default="`10G`")
    """How large the cache may get, with a unit: `500M`, `20G` (powers of 1024). `0` means no limit. The least
    recently used entries are removed first."""
    base_dir: str = setting(as_base, "")
    """A directory above your checkouts, which then share compiles. Paths of sources and include directories
    below it are passed to nvcc relative to the working directory, so `__FILE__` and messages have relative
    paths. The directory may be a checkout itself. `auto` means the outermost Git checkout
    around the working directory."""
    nvcc: str = setting(as_program, "", shown_default="the first on `PATH`")
    """The real nvcc that a link named `nvcc` starts: a path, or a name to look up on `PATH`. The default
    is the first nvcc on `PATH` that is not nvccache. `nvccache nvcc` ignores this setting."""
    jobs: int = setting(as_count, 0, shown_default="one per core")
    """How many tools may run at the same time in all calls of this user on this machine, in addition to one
    tool per call. The default is one per core."""
    log: str = setting(as_path, "")
    """A log file, to which every call appends what it did, without values of macros. Only the owner can read
    the file."""
    # `disable` and `readonly` make nvccache do less, so an invalid value must not turn them off.
    disable: bool = setting(as_switch, False, if_wrong=True)
    """Run nvcc without the cache."""
    readonly: bool = setting(as_switch, False, if_wrong=True)
    """Use the cache, but change nothing in it. Calls are not counted."""
    recache: bool = setting(as_switch, False)
    """Run every stage, even if its result is cached, and store the result again."""
    strict: bool = setting(as_switch, False)
    """For tests: if nvccache fails, end the call with a traceback instead of running nvcc."""
    remote: str = setting(as_remotes, "")  # the value may contain passwords
    """Remote caches that are queried after the local cache: one or more URLs, separated by blanks. If a URL
    ends with `,rw`, results are also written to that remote. See [remotes](#remotes)."""
    executor: str = setting(as_executor, "")
    """Other machines, which run cicc and ptxas when no core is idle on this machine: `grpc://HOST:PORT`,
    `grpcs://HOST:PORT` or `prefix:COMMAND`. See [remote execution](../how-to/remote-execution.md)."""
    executor_dir: str = setting(as_path, "")
    """A directory for the files of stages that a `prefix:` command runs. All machines must see it under the
    same path."""

    origins: dict[str, str]  # setting -> "default", "file" or the environment variable
    problems: list[Problem]

    @property
    def counts_calls(self) -> bool:
        return bool(self.dir) and not self.readonly


def load(environ: Mapping[str, str]) -> Config:
    """The settings in force; never raises for an invalid setting."""
    config = Config()
    file = config_file(environ)
    in_file, problems = _in_file(file) if file and os.path.lexists(file) else ({}, [])
    origins: dict[str, str] = {}
    unknown = {variable for variable in environ if variable.startswith(PREFIX)}
    for name, row in SETTINGS.items():
        unknown.discard(row.variable)
        raw: object = environ.get(row.variable, in_file.get(name))
        origin = row.variable if row.variable in environ else FILE if name in in_file else "default"
        value = row.default(environ) if callable(row.default) else row.default
        if raw is not None and not (isinstance(raw, str) and not raw.strip()):
            try:
                value = row.parse(raw, environ, origin == FILE)
            except ValueError as error:  # ConfigError, or Python's error for a number with too many digits
                where = f"`{name}` in `{file}`" if origin == FILE else f"`{origin}`"
                origin = "default"
                value = value if row.if_wrong is None else row.if_wrong
                switched = f"it counts as {'on' if value else 'off'}"
                instead = switched if row.parse is as_switch else "the default is used instead"
                problems.append(Problem(name, f"{where}: {error}; {instead}"))
        vars(config)[name] = value
        origins[name] = origin
    for variable in sorted(unknown):
        problems.append(Problem("unknown", f"`{variable}`: there is no setting of this name", variable))
    config.origins, config.problems = origins, problems
    return config


def _in_file(file: str) -> tuple[dict[str, object], list[Problem]]:
    """The settings in the user's file, and what is wrong with the file."""
    try:
        values = parse_file(read_file(file))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not valid TOML: {error}"
        return {}, [Problem(FILE, f"`{file}` cannot be read: {why}; the defaults are used instead")]
    known = {name: value for name, value in values.items() if name in SETTINGS}
    text = f"`{file}`: there is no setting `{{}}`"
    return known, [Problem("unknown", text.format(name), name) for name in values if name not in SETTINGS]


def read_file(path: str) -> str:
    """The text of a regular file (a FIFO could block a compile); raises OSError and ValueError."""
    import stat

    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        text = stream.read(_LARGEST_FILE + 1)
    if len(text) > _LARGEST_FILE:
        raise OSError(0, "larger than 1 MiB")
    return text.decode("utf-8-sig")


def parse_file(text: str) -> dict[str, Any]:
    """The settings in a TOML text; raises ValueError and RecursionError if it is not TOML."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)
