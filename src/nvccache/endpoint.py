"""Parses NVCCACHE_EXECUTOR: the other machines that stages may run on.

    grpc://HOST:PORT?OPTION=VALUE&…     an engine that speaks the Remote Execution API; grpcs:// with TLS
    prefix:COMMAND                      a launcher, put before a stage's command, such as `srun -n1 --`

Imports nothing heavy. Secrets are in files that the setting names, and are read where they are used, so that
showing the setting shows no secret.
"""

from __future__ import annotations

import os

from nvccache.values import dataclass, field

GRPC, GRPCS, PREFIX = "grpc", "grpcs", "prefix"
INPUT, WORKER = "input", "worker"  # where the tools come from: sent along, or installed on the worker
# An installation may lack the package with the clients.
PACKAGE = "nvccache.remote_execution"
NOT_INSTALLED = f"nothing is sent: there is no package `{PACKAGE}`"
_FILES = ("ca", "cert", "key", "token_file")
_OPTIONS = ("instance", "toolchain", "queue", "deadline", "property", *_FILES)
_EXAMPLE = "`grpc://host:port` or `prefix:srun -n1 --`"
_QUEUE_SECONDS, _DEADLINE_SECONDS = 10.0, 300.0  # a worker that hangs holds a build up no longer
_MOST_SECONDS = 86400


class EndpointError(ValueError):
    """NVCCACHE_EXECUTOR is invalid; the message is a clause for the user, without secrets."""


@dataclass(slots=True)
class Endpoint:
    """Where stages are sent."""

    scheme: str
    target: str = ""  # host and port
    launcher: list[str] = field(default_factory=list)  # its argv
    instance: str = ""
    toolchain: str = INPUT
    queue: float = _QUEUE_SECONDS  # the longest wait of a stage for a worker
    deadline: float = _DEADLINE_SECONDS  # for a stage in all, in seconds
    files: dict[str, str] = field(default_factory=dict)
    properties: list[tuple[str, str]] = field(default_factory=list)  # further requirements on workers

    @property
    def is_launcher(self) -> bool:
        return self.scheme == PREFIX

    @property
    def shown(self) -> str:
        """For messages and logs; of a launcher only the program's name."""
        if self.is_launcher:
            return f"prefix:{os.path.basename(self.launcher[0])}"
        return f"{self.scheme}://{self.target}" + (f"/{self.instance}" if self.instance else "")

    @property
    def identity(self) -> str:
        """16 hexadecimal digits for the names of its files on this machine."""
        from hashlib import sha256

        text = "\0".join((self.scheme, self.target, self.instance, *self.launcher))
        return sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def parse(text: str) -> Endpoint:
    """Where stages may be sent; raises EndpointError."""
    scheme, colon, rest = text.strip().partition(":")
    if scheme == PREFIX and colon:
        return _prefix(rest)
    if scheme not in (GRPC, GRPCS) or not rest.startswith("//"):
        raise EndpointError(f"it is neither of the form {_EXAMPLE}")
    authority, _, query = rest[2:].partition("?")
    if "@" in authority:
        raise EndpointError(
            "it has a user or a password, which belongs into the file that `token_file` names"
        )
    host, _, port = authority.rstrip("/").rpartition(":")
    if not host or not (port.isdecimal() and 0 < int(port) < 65536):
        raise EndpointError("it does not end in a host and a port, as in `grpc://host:50051`")
    if any(character.isspace() or character in "/#" for character in host):
        raise EndpointError("its host has a character that a host cannot have")
    endpoint = Endpoint(scheme)
    endpoint.target = f"{host}:{port}"
    for pair in filter(None, query.split("&")):
        _take_option(endpoint, *pair.partition("=")[::2])
    _check_files(endpoint)
    return endpoint


def _prefix(text: str) -> Endpoint:
    import shlex

    endpoint = Endpoint(PREFIX)
    try:
        endpoint.launcher = shlex.split(text)
    except ValueError:
        raise EndpointError("its command has an unterminated quote") from None
    if not endpoint.launcher or not endpoint.launcher[0]:
        raise EndpointError("it has no command after `prefix:`")
    return endpoint


def _take_option(endpoint: Endpoint, name: str, value: str) -> None:
    from urllib.parse import unquote

    if name not in _OPTIONS:
        known = ", ".join(f"`{option}`" for option in _OPTIONS)
        raise EndpointError(f"it has an unknown option; known are {known}")
    value = unquote(value)
    if not value:
        raise EndpointError(f"its option `{name}` has no value")
    if name in _FILES:
        if not value.startswith("/"):
            raise EndpointError(f"its option `{name}` is not the absolute path of a file")
        endpoint.files[name] = value
    elif name == "toolchain":
        if value not in (INPUT, WORKER):
            raise EndpointError("its option `toolchain` is neither `input` nor `worker`")
        endpoint.toolchain = value
    elif name == "instance":
        endpoint.instance = value.strip("/")
    elif name == "property":
        key, colon, setting = value.partition(":")
        if not key or not colon or not setting:
            raise EndpointError("its option `property` is not of the form `name:value`")
        endpoint.properties.append((key, setting))
    elif name == "queue":
        endpoint.queue = _seconds(name, value)
    else:
        endpoint.deadline = _seconds(name, value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= _MOST_SECONDS:
        raise EndpointError(f"its option `{name}` is not a number of seconds up to {_MOST_SECONDS}")
    return seconds


def _check_files(endpoint: Endpoint) -> None:
    if endpoint.scheme == GRPC and endpoint.files:
        # On an unencrypted connection anyone could read a token.
        raise EndpointError("its certificates and tokens need `grpcs://`")
    if ("cert" in endpoint.files) != ("key" in endpoint.files):
        raise EndpointError("its options `cert` and `key` need each other")
