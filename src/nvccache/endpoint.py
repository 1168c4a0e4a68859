"""Reads NVCCACHE_EXECUTOR: where stages may run other than on this machine.

    grpc://HOST:PORT?OPTION=VALUE&…     an engine that speaks the Remote Execution API; grpcs:// with TLS
    prefix:WORDS                        words put before a stage's command, such as `srun -n1 --`

Imports nothing heavy. Files with secrets are named here and read where they are needed, so that nothing which
shows a setting can show a secret.
"""

from __future__ import annotations

import os

from nvccache.values import dataclass, field

GRPC, GRPCS, PREFIX = "grpc", "grpcs", "prefix"
INPUT, WORKER = "input", "worker"  # where the tools are: sent along, or on the worker already
# An installation may do without what speaks to them.
PACKAGE = "nvccache.remote_execution"
NOT_INSTALLED = f"nothing is sent: there is no package `{PACKAGE}`"
_FILES = ("ca", "cert", "key", "token_file")
_OPTIONS = ("instance", "toolchain", "queue", "deadline", "property", *_FILES)
_EXAMPLE = "`grpc://host:port` or `prefix:srun -n1 --`"
_QUEUE_SECONDS, _DEADLINE_SECONDS = 10.0, 900.0
_MOST_SECONDS = 86400


class EndpointError(ValueError):
    """NVCCACHE_EXECUTOR cannot be understood; a clause for the user, which quotes nothing secret."""


@dataclass(slots=True)
class Endpoint:
    """Where stages are sent."""

    scheme: str
    target: str = ""  # host and port
    words: list[str] = field(default_factory=list)
    instance: str = ""
    toolchain: str = INPUT
    queue: float = _QUEUE_SECONDS  # that a stage may wait for a worker
    deadline: float = _DEADLINE_SECONDS  # that a stage may take in all
    files: dict[str, str] = field(default_factory=dict)
    properties: list[tuple[str, str]] = field(default_factory=list)  # that workers are to have as well

    @property
    def is_launcher(self) -> bool:
        return self.scheme == PREFIX

    @property
    def shown(self) -> str:
        """What people and logs see of it: of a launcher the program alone."""
        if self.is_launcher:
            return f"prefix:{os.path.basename(self.words[0])}"
        return f"{self.scheme}://{self.target}" + (f"/{self.instance}" if self.instance else "")

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that name its files on this machine."""
        from hashlib import sha256

        text = "\0".join((self.scheme, self.target, self.instance, *self.words))
        return sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def parse(text: str) -> Endpoint:
    """Where stages may be sent; raises EndpointError."""
    scheme, colon, rest = text.strip().partition(":")
    if scheme == PREFIX and colon:
        return _prefix(rest)
    if scheme not in (GRPC, GRPCS) or not rest.startswith("//"):
        raise EndpointError(f"it is neither of the form {_EXAMPLE}")
    place, _, query = rest[2:].partition("?")
    if "@" in place:
        raise EndpointError(
            "it has a user or a password, which belongs into the file that `token_file` names"
        )
    host, _, port = place.rstrip("/").rpartition(":")
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
        endpoint.words = shlex.split(text)
    except ValueError:
        raise EndpointError("its words have a quote that does not end") from None
    if not endpoint.words or not endpoint.words[0]:
        raise EndpointError("it has no words after `prefix:`")
    return endpoint


def _take_option(endpoint: Endpoint, name: str, value: str) -> None:
    from urllib.parse import unquote

    if name not in _OPTIONS:
        known = ", ".join(f"`{option}`" for option in _OPTIONS)
        raise EndpointError(f"it has an option that is not known; there are {known}")
    value = unquote(value)
    if not value:
        raise EndpointError(f"its option `{name}` has no value")
    if name in _FILES:
        if not value.startswith("/"):
            raise EndpointError(f"its option `{name}` is not the path of a file from the root")
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
        # A token on a plain connection is everybody's.
        raise EndpointError("its certificates and tokens need `grpcs://`")
    if ("cert" in endpoint.files) != ("key" in endpoint.files):
        raise EndpointError("its options `cert` and `key` go together")
