"""Parses NVCCACHE_REMOTE: one or more `URL[,rw]`, separated by blanks, in the order of preference.

Imports nothing: if the setting is present, even a direct hit loads this module to validate it. Error messages
do not quote a URL, since it may contain a password, but may quote a path.
"""

from __future__ import annotations

_MOST = 8  # remotes; a name that none has is queried on each of them
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_PLAIN = frozenset(f"{_LETTERS}_-+.")
_UNRESERVED = frozenset(f"{_LETTERS}{_LETTERS.upper()}-._~")  # RFC 3986
_MASK = "***"


class Scheme:
    """The parts of a URL of one scheme: an example, the term for its host, its options, the default port.

    To add a scheme: docs/development/extending.md.
    """

    __slots__ = ("example", "host", "options", "port")

    def __init__(self, example: str, host: str, options: tuple[str, ...], port: int = 0) -> None:
        self.example = example
        self.host = host  # empty if the scheme has none
        self.options = options
        self.port = port


SCHEMES = {
    "s3": Scheme(
        "s3://bucket/prefix",
        "a bucket",
        ("endpoint", "region", "profile", "anonymous", "virtual_host", "ec2"),
    ),
    "redis": Scheme("redis://host:6379/0?prefix=nvccache", "a host", ("prefix", "ttl"), 6379),
    "rediss": Scheme("rediss://host:6379/0?prefix=nvccache", "a host", ("prefix", "ttl"), 6379),
    "https": Scheme("https://host/path", "a host", (), 443),
    "http": Scheme("http://host/path", "a host", (), 80),
    "gs": Scheme("gs://bucket/prefix", "a bucket", ("endpoint", "anonymous", "metadata")),
    "azblob": Scheme("azblob://container/prefix", "a container", ("endpoint", "account", "anonymous")),
    "file": Scheme("file:///directory", "", ()),
}
SWITCHES = frozenset(("anonymous", "virtual_host", "ec2", "metadata"))
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class RemoteUrlError(ValueError):
    """NVCCACHE_REMOTE is invalid; the message is a clause for the user, without secrets."""


class Remote:
    """One remote cache. `str` gives `shown`, so that no message contains the password by accident."""

    __slots__ = ("host", "is_writable", "options", "password", "path", "port", "scheme", "shown", "user")

    scheme: str
    host: str  # or the bucket, or the container; empty for a directory
    port: int  # 0 if the scheme has none
    path: str  # without leading and trailing slashes; for a directory, an absolute path
    user: str
    password: str
    options: dict[str, str]
    is_writable: bool
    shown: str  # the URL without user and password

    def __repr__(self) -> str:
        return self.shown

    __str__ = __repr__

    @property
    def identity(self) -> str:
        """16 hexadecimal digits for file names; independent of user and password."""
        from hashlib import sha256

        return sha256(self.shown.encode()).hexdigest()[:16]


def parse(text: str) -> list[Remote]:
    """The remotes of a setting; raises RemoteUrlError."""
    urls = text.split()
    if len(urls) > _MOST:
        raise RemoteUrlError(f"there are {len(urls)} remotes, and {_MOST} may be used")
    remotes: list[Remote] = []
    for number, url in enumerate(urls, 1):
        which = "" if len(urls) == 1 else f"remote {number} "
        try:
            remote = _remote(url)
        except RemoteUrlError as error:
            hint = ""
            if which and "://" not in url:  # most likely the second half of the previous one
                hint = (
                    "; write `,rw` without a blank" if url in ("rw", ",rw") else "; a blank in a URL is `%20`"
                )
            raise RemoteUrlError(f"{which or 'it '}{error}{hint}") from None
        if any(remote.shown == other.shown for other in remotes):
            raise RemoteUrlError(f"{which}is `{remote.shown}` once more")
        remotes.append(remote)
    return remotes


def masked(text: str) -> str:
    """The setting without secrets, for output; also for an invalid one."""
    try:
        remotes = parse(text)
    except RemoteUrlError:
        return _MASK
    return " ".join([remote.shown + (",rw" if remote.is_writable else "") for remote in remotes])


def _remote(text: str) -> Remote:
    if not text.isascii() or not text.isprintable():
        raise RemoteUrlError("has characters that must be written as `%` and two digits in a URL")
    url, comma, rights = text.partition(",")
    if (comma and rights != "rw") or url.lower().endswith((";rw", ";ro")):
        raise RemoteUrlError(
            "can only end with `,rw`, to allow writing; blanks separate URLs, and in one, "
            "a comma is `%2C` and `;` is `%3B`"
        )
    remote = Remote()
    scheme, colon, rest = url.partition("://")
    if not colon or not scheme or not set(scheme.lower()) <= _PLAIN:
        path = url.removeprefix("file:")
        is_path = path.startswith("/") and set(path) <= {*_UNRESERVED, "/"}  # and no password
        named = "file" if url.startswith(".") else url.partition(":")[0].lower()
        example = f"file://{path}" if is_path else SCHEMES[named if named in SCHEMES else "s3"].example
        raise RemoteUrlError(f"is no URL such as `{example}{',rw' if url and comma else ''}`")
    remote.scheme = scheme.lower()
    if remote.scheme not in SCHEMES:
        known = ", ".join([f"`{name}`" for name in SCHEMES])
        raise RemoteUrlError(f"has the unknown scheme `{remote.scheme}`; there are {known}")
    if "#" in rest:
        raise RemoteUrlError("has a `#`, which is `%23` in a URL")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    remote.is_writable = bool(comma)
    remote.options = _options(remote.scheme, query)
    _read_authority(remote, authority)
    remote.path = _path(remote, _decoded(slash + path))
    remote.shown = _shown(remote)
    return remote


def _read_authority(remote: Remote, authority: str) -> None:
    """The part between `//` and `/`: user, password, host and port."""
    scheme = SCHEMES[remote.scheme]
    credentials, at, address = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    remote.user, remote.password = _decoded(user), _decoded(password)
    if at and not scheme.port:
        raise RemoteUrlError(f"has a user or password, which a URL of `{remote.scheme}` cannot have")
    if remote.scheme == "file" and address in ("", "localhost"):
        remote.host, remote.port = "", 0
        return
    example = _example(remote)
    host, port = _host_and_port(address)
    remote.host = _decoded(host)
    if not remote.host or not scheme.host:
        needs = scheme.host.partition(" ")[2] or "absolute path after `file://`, which begins with `/`"
        raise RemoteUrlError(f"has no {needs}; write it as `{example}`")
    if port and not scheme.port:
        raise RemoteUrlError(f"has a port, which belongs into `?endpoint=`; write it as `{example}`")
    remote.port = _port(port) if port else scheme.port


def _example(remote: Remote) -> str:
    """A URL of the same scheme and rights, for a message."""
    return SCHEMES[remote.scheme].example + (",rw" if remote.is_writable else "")


def _host_and_port(text: str) -> tuple[str, str]:
    """The host may be an IPv6 address in brackets, which contains colons."""
    if text.startswith("["):
        address, bracket, rest = text.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise RemoteUrlError("has an address in brackets that does not end")
        return address + bracket, rest[1:]
    host, _, port = text.partition(":")
    return host, port


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or not 0 < int(text) < 65536:
        raise RemoteUrlError("has a port that is no number from 1 to 65535")
    return int(text)


def _path(remote: Remote, path: str) -> str:
    if any(part in (".", "..") for part in path.split("/")):
        raise RemoteUrlError("has `.` or `..` in its path")
    if remote.scheme == "file":
        if not path.strip("/"):
            raise RemoteUrlError(f"names no directory; write it as `{_example(remote)}`")
        return "/" + path.strip("/")
    path = path.strip("/")
    if remote.scheme in ("redis", "rediss"):
        if path and not (path.isascii() and path.isdecimal() and len(path) < 6):
            raise RemoteUrlError("has a database that is no number; a prefix is `?prefix=`")
        return path or "0"
    return path


def _options(scheme: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    known = SCHEMES[scheme].options
    for pair in query.split("&") if query else []:
        name, equals, value = pair.partition("=")
        if not equals or not name or not set(name) <= _PLAIN or len(name) > 20:
            raise RemoteUrlError("has an option that is not `name=value`")
        if name not in known:
            listed = ", ".join([f"`{each}`" for each in known])
            listed = f"there are {listed}" if listed else f"`{scheme}` has none"
            raise RemoteUrlError(f"has the unknown option `{name}`; {listed}")
        if name in options:
            raise RemoteUrlError(f"has the option `{name}` twice")
        options[name] = _option(name, _decoded(value))
    return options


def _option(name: str, value: str) -> str:
    if name in SWITCHES:
        if value.lower() not in (*_TRUE, *_FALSE):
            raise RemoteUrlError(f"has an option `{name}` that is neither on (`1`) nor off (`0`)")
        return "1" if value.lower() in _TRUE else ""
    if not value:
        raise RemoteUrlError(f"has an option `{name}` without a value")
    if name == "ttl" and not (value.isdecimal() and len(value) < 10 and int(value)):
        raise RemoteUrlError("has an option `ttl` that is no number of seconds")
    if name == "endpoint":
        scheme, colon, rest = value.partition("://")
        if not colon or scheme not in ("http", "https") or not rest.strip("/") or "@" in rest:
            raise RemoteUrlError("has an option `endpoint` that is no URL such as `https://host:port`")
        return value.rstrip("/")
    return value.strip("/") if name == "prefix" else value


def _decoded(text: str) -> str:
    """A part of a URL with percent-encoding decoded; raises RemoteUrlError."""
    if "%" not in text:
        return text
    first, *others = text.split("%")
    content = first.encode()
    try:
        for other in others:
            content += bytes.fromhex(other[:2] if len(other) > 1 else "-") + other[2:].encode()
        decoded = content.decode()
    except ValueError:
        raise RemoteUrlError(
            "has a `%` that is not followed by two hexadecimal digits of a character"
        ) from None
    if not decoded.isprintable():
        raise RemoteUrlError("has a character that cannot be printed")
    return decoded


def _encoded(text: str, safe: str) -> str:
    """Percent-encode a part of a URL, except for unreserved characters and those in `safe`."""
    letters = map(chr, text.encode())
    return "".join([each if each in _UNRESERVED or each in safe else f"%{ord(each):02X}" for each in letters])


def _shown(remote: Remote) -> str:
    authority = _encoded(remote.host, "[]:")
    if remote.port and remote.port != SCHEMES[remote.scheme].port:
        authority += f":{remote.port}"
    if remote.user or remote.password:
        authority = f"{_MASK}@{authority}"
    path = _encoded(remote.path.lstrip("/"), "/:@")
    query = "&".join([f"{name}={_encoded(value, '/:')}" for name, value in remote.options.items()])
    return f"{remote.scheme}://{authority}" + (f"/{path}" if path else "") + (f"?{query}" if query else "")
