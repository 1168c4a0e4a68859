"""The settings of one call: environment first, then the user's configuration file, then defaults.

Owns the names and defaults of every setting. A file in a checkout is never read: a checkout must
not steer the cache. The directories follow the XDG base directory rules, as platformdirs gives them
on Linux; platformdirs itself would cost 14 ms on every hit, so a test compares the two instead.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_MAX_SIZE = 10 * 1024**3
_SUFFIXES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_FALSE = ("", "0", "false", "no", "off")

# setting -> (environment variable, kind); kinds: path, size, count, switch, list
SETTINGS = {
    "dir": ("NVCCACHE_DIR", "path"),
    "max_size": ("NVCCACHE_MAX_SIZE", "size"),
    "base_dir": ("NVCCACHE_BASE_DIR", "path"),
    "nvcc": ("NVCCACHE_NVCC", "path"),
    "jobs": ("NVCCACHE_JOBS", "count"),
    "log": ("NVCCACHE_LOG", "path"),
    "disable": ("NVCCACHE_DISABLE", "switch"),
    "readonly": ("NVCCACHE_READONLY", "switch"),
    "recache": ("NVCCACHE_RECACHE", "switch"),
    "strict": ("NVCCACHE_STRICT", "switch"),
}


class ConfigError(ValueError):
    """A setting has a value that cannot be used; the message is one sentence for the user."""


class Config:
    """The settings in force. Sizes are bytes, paths are absolute or empty."""

    __slots__ = (
        "base_dir",
        "dir",
        "disable",
        "jobs",
        "log",
        "max_size",
        "nvcc",
        "origins",
        "readonly",
        "recache",
        "strict",
    )

    dir: str
    max_size: int
    base_dir: str
    nvcc: str
    jobs: int
    log: str
    disable: bool
    readonly: bool
    recache: bool
    strict: bool
    origins: dict[str, str]  # setting -> "default", "file" or the environment variable


def home_of(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or os.path.expanduser("~")


def default_cache_dir(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CACHE_HOME", "").strip() or os.path.join(home_of(environ), ".cache")
    return os.path.join(base, "nvccache")


def config_file(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home_of(environ), ".config")
    return os.path.join(base, "nvccache", "config.toml")


def parse_size(text: str) -> int:
    """Bytes from `10G`, `500M`, `1.5T`, `1048576`; raises ConfigError."""
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    number, suffix = (word[:-1], word[-1:]) if word[-1:] in _SUFFIXES else (word, "")
    try:
        size = float(number) * _SUFFIXES[suffix]
        if not 0 <= size < 2**63:  # also refuses nan
            raise ValueError
    except ValueError:
        raise ConfigError(f"`{text}` is not a size such as `10G`, `500M` or `1048576`") from None
    return int(size)


def load(environ: Mapping[str, str]) -> Config:
    """The settings in force; raises ConfigError for a value or a file that cannot be used."""
    from_file = _read_file(config_file(environ))
    config = Config()
    config.origins = {}
    for name, (variable, kind) in SETTINGS.items():
        if variable in environ:
            raw: object = environ[variable]
            config.origins[name] = variable
        elif name in from_file:
            raw = from_file[name]
            config.origins[name] = "file"
        else:
            raw = None
            config.origins[name] = "default"
        setattr(config, name, _value(name, kind, raw, environ))
    return config


def _value(name: str, kind: str, raw: object, environ: Mapping[str, str]) -> object:
    if kind == "switch":
        return raw if isinstance(raw, bool) else str(raw or "").strip().lower() not in _FALSE
    if raw is None or raw == "":
        return {"dir": default_cache_dir(environ), "max_size": DEFAULT_MAX_SIZE, "jobs": 0}.get(name, "")
    if kind == "size":
        return parse_size(str(raw))
    if kind == "count":
        if not str(raw).isdecimal():
            raise ConfigError(f"`{raw}` is not a number of jobs")
        return int(str(raw))
    path = str(raw)
    if path == "~" or path.startswith("~/"):
        path = home_of(environ) + path[1:]
    if name == "nvcc" and "/" not in path:
        return path  # a name to look for on PATH
    return os.path.abspath(path)


def _read_file(path: str) -> dict[str, object]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    with open(descriptor, "rb") as stream:
        import sys

        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            values = tomllib.load(stream)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"cannot read `{path}`: {error}") from None
    unknown = sorted(set(values) - set(SETTINGS))
    if unknown:
        raise ConfigError(f"unknown setting `{unknown[0]}` in `{path}`")
    return values
