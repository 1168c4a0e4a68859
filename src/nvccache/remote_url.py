"""Parses NVCCACHE_REMOTE: one or more `URL[,rw]`, separated by blanks, in the order of preference.

Imports hardly anything, since even a direct hit loads this module to validate the setting, if it is set.
Error messages do not quote URLs, since these may contain passwords.
"""

from __future__ import annotations

from nvccache.values import dataclass

_MASK = "***"


@dataclass(slots=True)
class Scheme:
    """The parts of URLs with one scheme. docs/development/extending.md says how to add a scheme."""

    example: str
    host: str  # what the URL's host is, such as a bucket; empty if URLs have none
    options: tuple[str, ...]
    port: int = 0  # the default port; 0 if URLs have no port, user and password
    is_directory: bool = False  # whether URLs have an absolute path of a directory


SCHEMES = {
    "s3": Scheme(
        "s3://bucket/prefix", "bucket", ("endpoint", "region", "profile", "anonymous", "virtual_host", "ec2")
    ),
    "redis": Scheme("redis://host:6379/0?prefix=nvccache", "host", ("prefix", "ttl"), 6379),
    "rediss": Scheme("rediss://host:6379/0?prefix=nvccache", "host", ("prefix", "ttl"), 6379),
    "memcached": Scheme("memcached://host:11211?prefix=nvccache", "host", ("prefix", "ttl"), 11211),
    "https": Scheme("https://host/path", "host", (), 443),
    "http": Scheme("http://host/path", "host", (), 80),
    "gs": Scheme("gs://bucket/prefix", "bucket", ("endpoint", "anonymous", "metadata")),
    "azblob": Scheme("azblob://container/prefix", "container", ("endpoint", "account", "anonymous")),
    "ghac": Scheme("ghac:///prefix", "", ()),
    "file": Scheme("file:///directory", "", (), is_directory=True),
}
_SWITCHES = frozenset(("anonymous", "virtual_host", "ec2", "metadata"))
_OFF = ("0", "false", "no", "off")


class RemoteUrlError(ValueError):
    """NVCCACHE_REMOTE is invalid; the message is a clause that says why, without secrets."""


@dataclass(slots=True)
class Remote:
    """One remote cache. `str` gives `shown`, so that no message contains the password by accident."""

    scheme: str
    host: str  # the host, bucket or container; empty for a directory
    port: int  # 0 if the scheme has none
    path: str  # without leading and trailing slashes; with `file`, an absolute path
    user: str
    password: str
    options: dict[str, str]
    is_writable: bool
    shown: str  # the URL without user and password

    def __repr__(self) -> str:
        return self.shown

    @property
    def identity(self) -> str:
        """16 hexadecimal digits for file names; they do not depend on user and password."""
        from hashlib import sha256

        return sha256(self.shown.encode()).hexdigest()[:16]


def parse(text: str) -> list[Remote]:
    """The remotes of a setting; raises RemoteUrlError."""
    urls = text.split()
    remotes = []
    for number, url in enumerate(urls, 1):
        try:
            remotes.append(_remote(url))
        except RemoteUrlError as error:
            which = "" if len(urls) == 1 else f"remote {number}: "
            raise RemoteUrlError(f"{which}{error}") from None
    return remotes


def masked(text: str) -> str:
    """The setting without user and password, for output; an invalid one is hidden as a whole."""
    try:
        remotes = parse(text)
    except RemoteUrlError:
        return _MASK
    return " ".join([remote.shown + (",rw" if remote.is_writable else "") for remote in remotes])


def _remote(text: str) -> Remote:
    if not text.isascii() or not text.isprintable():
        raise RemoteUrlError("the URL has characters that must be written as `%` and two digits")
    url, comma, rights = text.partition(",")
    if comma and rights != "rw":
        raise RemoteUrlError("a URL can only end with `,rw`, to allow writing; a comma in a URL is `%2C`")
    name, colon, rest = url.partition("://")
    name = name.lower()
    if not colon or name not in SCHEMES:
        examples = ", ".join([f"`{each.example}`" for each in SCHEMES.values()])
        raise RemoteUrlError(f"the URL has none of the forms {examples}; blanks separate URLs")
    scheme = SCHEMES[name]
    rest, question, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    credentials, at, address = authority.rpartition("@")
    host, port = _host_and_port(address, scheme)
    if (at or host != address) and not scheme.port:
        raise RemoteUrlError(f"the URL has a user, password or port, which `{name}` URLs cannot have")
    user, _, password = map(_decoded, credentials.partition(":"))
    shown = f"{name}://{at and _MASK}{at}{address}{slash}{path.rstrip('/')}{question}{query}"
    path = _decoded(path).strip("/")
    if scheme.is_directory:
        host, path = host.removeprefix("localhost"), path and f"/{path}"
    if bool(host) != bool(scheme.host) or (scheme.is_directory and not path):
        raise RemoteUrlError(
            f"the URL has no {scheme.host or 'absolute path'}; write it as `{scheme.example}`"
        )
    if name in ("redis", "rediss"):
        path = path or "0"
        if not path.isdecimal():
            raise RemoteUrlError("the database in the URL is not a number; a prefix is written as `?prefix=`")
    options = _options(name, scheme, query)
    return Remote(name, _decoded(host), port, path, user, password, options, bool(comma), shown)


def _host_and_port(address: str, scheme: Scheme) -> tuple[str, int]:
    """The parts of `HOST:PORT`. The host may be an IPv6 address in brackets, which contains colons."""
    host, colon, port = address.rpartition(":")
    if not colon or port.endswith("]"):
        return address, scheme.port
    if not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise RemoteUrlError("the URL has a port that is not a number from 1 to 65535")
    return host, int(port)


def _options(name: str, scheme: Scheme, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        option, _, value = pair.partition("=")
        value = _decoded(value).strip("/")
        if option not in scheme.options or not value:
            known = ", ".join([f"`{each}`" for each in scheme.options]) or "none"
            raise RemoteUrlError(
                f"the URL has an unknown option, or one without a value; options of `{name}`: {known}"
            )
        if option == "endpoint" and (not value.startswith(("http://", "https://")) or "@" in value):
            raise RemoteUrlError("the option `endpoint` is not a URL such as `https://host:port`")
        if option not in _SWITCHES or value.lower() not in _OFF:
            options[option] = value
    return options


def _decoded(text: str) -> str:
    """A part of a URL with percent-encoding decoded; raises RemoteUrlError."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    decoded = unquote(text, errors="replace")
    if not decoded.isprintable():
        raise RemoteUrlError("the URL has a character that cannot be printed")
    return decoded
