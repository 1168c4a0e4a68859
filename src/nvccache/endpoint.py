"""Parses NVCCACHE_EXECUTOR, which names other machines that stages may run on.

    grpc://HOST:PORT?OPTION=VALUE&…     an engine that speaks the Remote Execution API; grpcs:// with TLS
    prefix:COMMAND                      a launcher, put before a stage's command, such as `srun -n1 --`

Imports nothing that is slow to load. The setting contains no secrets, so that it can be shown: it names files
with the secrets, which are read where they are used.
"""

from __future__ import annotations

import os

from nvccache.values import dataclass, field

GRPC, GRPCS, PREFIX = "grpc", "grpcs", "prefix"
_FILES = ("ca", "cert", "key", "token_file")
_OPTIONS = ("instance", "queue", "deadline", "property", *_FILES)
_MOST_SECONDS = 86400


class EndpointError(ValueError):
    """NVCCACHE_EXECUTOR is invalid; the message is a clause that says why, without secrets."""


@dataclass(slots=True)
class Endpoint:
    """An engine or a launcher, to which stages are sent."""

    text: str  # the setting
    scheme: str
    target: str = ""  # host and port
    launcher: list[str] = field(default_factory=list)  # argv of the launcher
    instance: str = ""
    queue: float = 10.0  # seconds that a stage waits for a worker at most
    deadline: float = 300.0  # seconds until a sent stage is given up, since its worker may hang
    files: dict[str, str] = field(default_factory=dict)
    properties: list[tuple[str, str]] = field(default_factory=list)  # further requirements on workers

    @property
    def is_launcher(self) -> bool:
        return self.scheme == PREFIX

    @property
    def shown(self) -> str:
        """The endpoint as messages and logs show it: of a launcher, only the program's name."""
        if self.is_launcher:
            return f"prefix:{os.path.basename(self.launcher[0])}"
        return f"{self.scheme}://{self.target}" + (f"/{self.instance}" if self.instance else "")

    @property
    def identity(self) -> str:
        """16 hexadecimal digits, used in names of files about this endpoint."""
        from hashlib import sha256

        return sha256(self.text.encode(errors="surrogateescape")).hexdigest()[:16]


def parse(text: str) -> Endpoint:
    """The endpoint of a setting; raises EndpointError."""
    scheme, _, rest = text.strip().partition(":")
    endpoint = Endpoint(text, scheme)
    if scheme == PREFIX:
        import shlex

        try:
            endpoint.launcher = shlex.split(rest)
        except ValueError:
            raise EndpointError("the command has an unterminated quote") from None
        if not endpoint.launcher or not endpoint.launcher[0]:
            raise EndpointError("there is no command after `prefix:`")
        return endpoint
    authority, _, query = rest.partition("?")
    endpoint.target = authority.removeprefix("//").rstrip("/")
    if "@" in authority:
        raise EndpointError(
            "the URL has a user or password; put secrets into the file that `token_file` names"
        )
    host, _, port = endpoint.target.rpartition(":")
    if scheme not in (GRPC, GRPCS) or not authority.startswith("//") or not host or not port.isdecimal():
        raise EndpointError("the value is neither of the form `grpc://host:port` nor `prefix:srun -n1 --`")
    for pair in filter(None, query.split("&")):
        _set_option(endpoint, *pair.partition("=")[::2])
    if scheme == GRPC and endpoint.files:
        # Anyone on the network could read a token that is sent without encryption.
        raise EndpointError("certificates and tokens need `grpcs://`")
    if ("cert" in endpoint.files) != ("key" in endpoint.files):
        raise EndpointError("the options `cert` and `key` must be set together")
    return endpoint


def _set_option(endpoint: Endpoint, name: str, value: str) -> None:
    from urllib.parse import unquote

    if name not in _OPTIONS:
        known = ", ".join(f"`{option}`" for option in _OPTIONS)
        raise EndpointError(f"the URL has an unknown option; the known ones are {known}")
    value = unquote(value)
    if name in _FILES:
        if not value.startswith("/"):
            raise EndpointError(f"the option `{name}` is not the absolute path of a file")
        endpoint.files[name] = value
    elif name == "instance":
        endpoint.instance = value.strip("/")
    elif name == "property":
        key, colon, setting = value.partition(":")
        if not key or not colon:
            raise EndpointError("the option `property` is not of the form `name:value`")
        endpoint.properties.append((key, setting))
    elif not value.isdecimal() or not 0 < int(value) <= _MOST_SECONDS:
        raise EndpointError(f"the option `{name}` is not a number of seconds up to {_MOST_SECONDS}")
    else:
        setattr(endpoint, name, float(value))
