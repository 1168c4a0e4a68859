"""The settings of one call: environment first, then the user's configuration file, then defaults.

Owns the names, values and defaults of every setting. Part of the hot path. A file in a checkout is never
read: a checkout must not steer the cache. A setting that is wrong costs only itself: its default is in
force, and what is wrong with it stands in `problems`, for the log, for the commands and to be counted. The
directories follow the XDG base directory rules, as platformdirs gives them on Linux; platformdirs
itself would cost 14 ms on every hit, so a test compares the two instead.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MAX_SIZE = 10 * 1024**3
DEFAULT_REMOTE_TIMEOUT = 2.0
DEFAULT_MIN_SECONDS = 1.0
PREFIX = "NVCCACHE_"
UNKNOWN, FILE = "unknown", "file"  # in place of a setting's name: a name that is none, and the file itself
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
UNITS = "`K`, `M`, `G`, `T`, or `B` for bytes"
_FALSE = ("", "0", "false", "no", "off")
_TRUE = ("1", "true", "yes", "on")
# Whoever sets one of these wants less done than usual: a word that is not understood means that, too.
_ON_IN_DOUBT = ("disable", "readonly")
_ON_BY_DEFAULT = ("observe",)
_MOST_DIGITS = 6  # of a number of jobs
_LEAST_SECONDS, _MOST_SECONDS = 0.01, 3600

# setting -> (environment variable, kind); kinds: path, size, count, mask, switch, remotes, seconds,
# executor, least (seconds, also none)
SETTINGS = {
    "dir": ("NVCCACHE_DIR", "path"),
    "max_size": ("NVCCACHE_MAX_SIZE", "size"),
    "umask": ("NVCCACHE_UMASK", "mask"),
    "base_dir": ("NVCCACHE_BASE_DIR", "path"),
    "nvcc": ("NVCCACHE_NVCC", "path"),
    "jobs": ("NVCCACHE_JOBS", "count"),
    "log": ("NVCCACHE_LOG", "path"),
    "stats_dir": ("NVCCACHE_STATS_DIR", "path"),
    "disable": ("NVCCACHE_DISABLE", "switch"),
    "readonly": ("NVCCACHE_READONLY", "switch"),
    "recache": ("NVCCACHE_RECACHE", "switch"),
    "strict": ("NVCCACHE_STRICT", "switch"),
    "observe": ("NVCCACHE_OBSERVE", "switch"),
    "remote": ("NVCCACHE_REMOTE", "remotes"),
    "remote_timeout": ("NVCCACHE_REMOTE_TIMEOUT", "seconds"),
    "executor": ("NVCCACHE_EXECUTOR", "executor"),
    "executor_dir": ("NVCCACHE_EXECUTOR_DIR", "path"),
    "executor_jobs": ("NVCCACHE_EXECUTOR_JOBS", "count"),
    "executor_min_seconds": ("NVCCACHE_EXECUTOR_MIN_SECONDS", "least"),
}
_VARIABLES = frozenset([variable for variable, _ in SETTINGS.values()])


class ConfigError(ValueError):
    """A setting has a value that cannot be used; the message is a clause for the user."""


class Problem:
    """One setting that is wrong. `setting` is its name, UNKNOWN or FILE; `where` is a variable or a file's
    line; `word` is the name that is none."""

    __slots__ = ("setting", "text", "where", "word")

    def __init__(self, setting: str, where: str, text: str, word: str = "") -> None:
        self.setting = setting
        self.where = where
        self.text = text
        self.word = word


class Config:
    """The settings in force. Sizes are bytes, 0 for no limit; paths are absolute or empty.

    `dir` is empty where there is no home directory and nothing says where else the cache should be.
    """

    __slots__ = (
        "base_dir",
        "dir",
        "disable",
        "executor",
        "executor_dir",
        "executor_jobs",
        "executor_min_seconds",
        "jobs",
        "log",
        "max_size",
        "nvcc",
        "observe",
        "origins",
        "problems",
        "readonly",
        "recache",
        "remote",
        "remote_timeout",
        "stats_dir",
        "strict",
        "umask",
    )

    dir: str
    max_size: int
    umask: int | None  # None: that of the process
    base_dir: str
    nvcc: str  # or a name to look for on PATH
    jobs: int
    log: str
    stats_dir: str
    disable: bool
    readonly: bool
    recache: bool
    strict: bool
    observe: bool
    remote: str  # remote/url.py reads it; it may have passwords in it
    remote_timeout: float  # seconds
    executor: str  # remote_execution/endpoint.py reads it
    executor_dir: str
    executor_jobs: int  # 0 where it is not set
    executor_min_seconds: float
    origins: dict[str, str]  # setting -> "default", "file" or the environment variable
    problems: list[Problem]

    @property
    def journal_root(self) -> str:
        """The directory that has the journal; empty where calls are counted nowhere."""
        return self.stats_dir or self.dir

    @property
    def counts_calls(self) -> bool:
        return bool(self.stats_dir or (self.dir and not self.readonly))

    @property
    def wrong_settings(self) -> str:
        """The names of what is wrong, as the journal has them."""
        return ",".join(sorted({problem.setting for problem in self.problems})) if self.problems else ""


def home_of(environ: Mapping[str, str]) -> str:
    """The home directory: HOME, else as the list of users has it; empty where neither is an absolute path."""
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except (KeyError, OSError):
            return ""
    return home if home.startswith("/") else ""


def default_cache_dir(environ: Mapping[str, str]) -> str:
    """Empty where there is no home directory."""
    return _below("XDG_CACHE_HOME", ".cache", environ, "nvccache")


def config_file(environ: Mapping[str, str]) -> str:
    """Empty where there is no home directory."""
    return _below("XDG_CONFIG_HOME", ".config", environ, "nvccache/config.toml")


def _below(variable: str, folder: str, environ: Mapping[str, str], name: str) -> str:
    base = environ.get(variable, "")
    if not base.startswith("/"):  # the rules of XDG want such a value ignored
        home = home_of(environ)
        base = os.path.join(home, folder) if home else ""
    return os.path.join(base, name) if base else ""


def has_unit(text: str) -> bool:
    return text.strip()[-1:].isalpha()


def parse_size(text: str) -> int:
    """Bytes from `10G`, `500M`, `1.5T`, `10GiB`, `0`; raises ConfigError."""
    word = text.strip().upper()
    number = word.rstrip("BIKMGT")
    unit = word[len(number) :].removesuffix("B").removesuffix("I")
    try:
        size = float(number if number.isascii() else "") * _UNITS[unit]
        if not (size == 0 or 1 <= size < 2**63):  # also refuses nan
            raise ValueError
    except (ValueError, KeyError):
        raise ConfigError(f"`{text}` is not a size such as `10G`, `500M` or `1T`") from None
    # To ccache it would be GiB: a limit of 5 bytes empties the cache of whoever meant these.
    if not has_unit(word) and 0 < size < _UNITS["M"]:
        raise ConfigError(f"`{text}` has no unit: {UNITS}")
    return int(size)


def load(environ: Mapping[str, str]) -> Config:
    """The settings in force; never raises for what a user has set."""
    config = Config()
    config.origins = {}
    path = config_file(environ)
    from_file, config.problems = _read_file(path)
    for name, (variable, kind) in SETTINGS.items():
        raw: object = None
        origin = where = "default"
        line = 0
        if variable in environ:
            raw, origin, where = environ[variable], variable, f"`{variable}`"
        elif name in from_file:
            line, raw = from_file[name]
            origin, where = FILE, f"`{path}` line {line}"
        try:
            value = _value(name, kind, raw, environ, bool(line))
        except ConfigError as error:
            config.problems.append(Problem(name, where, str(error)))
            origin = "default"
            value = name in _ON_IN_DOUBT if kind == "switch" else _default(name, kind, environ)
        config.origins[name] = origin
        setattr(config, name, value)
    for variable in environ:
        if variable.startswith(PREFIX) and variable not in _VARIABLES:
            config.problems.append(Problem(UNKNOWN, f"`{variable}`", "there is no such setting", variable))
    return config


def _default(name: str, kind: str, environ: Mapping[str, str]) -> object:
    if name == "dir":
        return default_cache_dir(environ)
    if kind == "switch":
        return name in _ON_BY_DEFAULT
    defaults = {"size": DEFAULT_MAX_SIZE, "count": 0, "mask": None, "seconds": DEFAULT_REMOTE_TIMEOUT}
    defaults["least"] = DEFAULT_MIN_SECONDS
    return defaults.get(kind, "")


def _value(name: str, kind: str, raw: object, environ: Mapping[str, str], is_in_file: bool) -> object:
    """What a setting is worth; raises ConfigError."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return _default(name, kind, environ)
    try:
        text = str(raw)
    except ValueError:  # Python writes no number of thousands of digits, which TOML can give in hexadecimal
        raise ConfigError("it has too many digits") from None
    if kind == "path":
        return _path(name, raw, environ, is_in_file)
    if kind == "switch":
        word = text.strip().lower()
        if word not in _FALSE and word not in _TRUE:
            raise ConfigError(f"`{text}` is neither on (`1`, `true`) nor off (`0`, `false`)")
        return word in _TRUE
    if kind == "size":
        return parse_size(text)
    if kind == "remotes":
        return _remotes(raw)
    if kind == "executor":
        return _executor(raw)
    if kind in ("seconds", "least"):
        return _seconds(text, _LEAST_SECONDS if kind == "seconds" else 0)
    if kind == "count":
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise ConfigError(f"`{text}` is not a number of jobs")
        return int(text)
    return _mask(raw)


def _remotes(raw: object) -> str:
    """The text of a setting that names remotes; raises ConfigError, without what may be a password."""
    from nvccache.remote import url

    if not isinstance(raw, str):
        raise ConfigError("it is not a text of URLs")
    try:
        url.parse(raw)
    except url.RemoteUrlError as error:
        raise ConfigError(str(error)) from None
    return raw


def _executor(raw: object) -> str:
    """The text of a setting that names an executor; raises ConfigError, without what may be secret."""
    from nvccache.remote_execution import endpoint

    if not isinstance(raw, str):
        raise ConfigError("it is not a text")
    try:
        endpoint.parse(raw)
    except endpoint.EndpointError as error:
        raise ConfigError(str(error)) from None
    return raw


def _seconds(text: str, least: float) -> float:
    """A time in seconds; raises ConfigError."""
    try:
        seconds = float(text)
        if not least <= seconds <= _MOST_SECONDS:  # also refuses nan
            raise ValueError
    except ValueError:
        raise ConfigError(f"`{text}` is not a number of seconds from {least} to {_MOST_SECONDS}") from None
    return seconds


def _mask(raw: object) -> int:
    """A file mode creation mask; raises ConfigError. A number in TOML has lost its zeros, and so its base."""
    digits = raw.strip().removeprefix("0o") if isinstance(raw, str) else ""
    if not digits or len(digits) > 4 or digits.strip("01234567"):
        raise ConfigError(f'`{raw}` is not a mask in octal digits such as "002" or "077"')
    if int(digits, 8) & 0o7700:
        raise ConfigError(f"`{raw}` would keep the cache from its owner")
    return int(digits, 8)


def _path(name: str, raw: object, environ: Mapping[str, str], is_in_file: bool) -> str:
    """An absolute path, or a name of nvcc; raises ConfigError."""
    if not isinstance(raw, str) or "\0" in raw:
        raise ConfigError(f"`{raw}` is not a path")
    if name == "nvcc" and "/" not in raw:
        return raw  # a name to look for on PATH
    path = raw
    if path.startswith("~"):
        home = (
            home_of(environ) if path.partition("/")[0] == "~" else os.path.expanduser(path.partition("/")[0])
        )
        if not home.startswith("/"):
            raise ConfigError(f"`{raw}`: that home directory is not known")
        path = home + path[len(path.partition("/")[0]) :]
    elif is_in_file and not path.startswith("/"):
        raise ConfigError(
            f"`{raw}` is not a path from the root or from `~`: each directory would have its own"
        )
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise ConfigError(f"`{raw}` counts from the working directory: {error.strerror}") from None


def _read_file(path: str) -> tuple[dict[str, tuple[int, object]], list[Problem]]:
    """What the file says: setting -> (line, value); and what is wrong with it."""
    try:
        if not path or not os.path.lexists(path):
            return {}, []
    except ValueError:  # NUL
        return {}, []
    from nvccache import settings_file

    found, wrong = settings_file.read(path, SETTINGS)
    return found, [
        Problem(name or (UNKNOWN if word else FILE), where, text, word) for name, where, text, word in wrong
    ]
