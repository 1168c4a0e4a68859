"""The interface of all remotes, and their errors.

Methods block, so callers that must not wait use threads (tier.py). Messages of opendal are mapped to the
words of outcomes.REMOTE_FAULTS. Only protocol codes of a server's message are shown, since the rest may
contain addresses, account names or requests.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from nvccache.remote_url import Remote


class Backend(ABC):
    """A remote; thread-safe. Both methods raise BackendError. Names are relative paths (envelope.py)."""

    @abstractmethod
    def get(self, name: str, most: int) -> bytes | None:
        """The content under a name; None if there is none, or if it has more than `most` bytes."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Create or replace an object atomically: a concurrent `get` returns the old or the new content."""


UNUSABLE = "unusable_directory"  # the word for faults of a shared directory, which has no server
TEXTS = {
    "unreachable": "there is no connection to the remote",
    UNUSABLE: "the remote's directory cannot be used",
    "timeout": "the remote did not answer in time",
    "denied": "the remote denies access",
    "bad_credentials": "the remote rejects the credentials",
    "throttled": "the remote asks for fewer requests",
    "full": "the remote is full",
    "tls": "the remote's certificate or encryption cannot be used",
    "not_installed": "the remote's client is not installed",
    "broken": "the remote's answer cannot be used",
}
_CODE = re.compile(
    r'<Code>([A-Za-z]{1,40})</Code>|\bcode: "([A-Za-z]{1,40})"|'
    r"\b(NOAUTH|NoPerm|OOM|BusyLoading|MasterDown|ReadOnly)\b"
)
# The target of the request, which is removed from messages because any word below may occur in it.
_TARGET = re.compile(r"\b(?:url|uri|path|endpoint|headers): [^,\n}]*")
_STATUS = re.compile(r"status: (\d{3})\b")
# Words of faults, each with codes of S3, Azure and redis, and HTTP statuses.
_CODES = {
    "bad_credentials": (
        "SignatureDoesNotMatch InvalidAccessKeyId ExpiredToken InvalidToken TokenRefreshRequired "
        "RequestTimeTooSkewed AuthenticationFailed InvalidAuthenticationInfo InvalidSecurity "
        "NOAUTH NoPerm 401 407"
    ),
    "throttled": "SlowDown Throttling TooManyRequests RequestLimitExceeded ServerBusy 429 503",
    "full": "OOM QuotaExceeded InsufficientStorage EntityTooLarge 413 507",
    # 405 and 501: a read-only server does not implement PUT.
    "denied": "AccessDenied AllAccessDisabled AccountProblem NoSuchBucket ReadOnly 403 405 501",
    "unreachable": "BusyLoading MasterDown 502 504",
}
_WORDS = {mark: word for word, marks in _CODES.items() for mark in marks.split()}
# Parts of messages of opendal and its dependencies, in lower case; the first match wins.
_PHRASES = {
    "timeout": ("timeout reached", "timed out", "operation timeout"),
    "tls": ("certificate", "corrupt message", "tls", "ssl", "handshake"),
    "bad_credentials": ("credential", "authentication failed", "not in github action"),
    "unreachable": ("error sending request", "connect", "dns", "lookup", "no route", "broken pipe"),
}


class BackendError(Exception):
    """A request to a remote failed. `word` is a key of outcomes.REMOTE_FAULTS, and `text` a clause."""

    def __init__(self, word: str, detail: str = "", status: str = "") -> None:
        self.word = word
        self.status = status  # the HTTP status, if there was one
        self.text = TEXTS[word] + (f" ({detail})" if detail else "")
        super().__init__(self.text)

    @property
    def is_lasting(self) -> bool:
        """Whether all processes should leave the remote alone for a while.

        They need not if a client is missing or a directory is unusable. This may change at any time, and
        trying again costs nothing.
        """
        return self.word not in ("not_installed", UNUSABLE)


def error_of(message: str) -> BackendError:
    """The error for a message of an opendal exception."""
    message = _TARGET.sub("", message.partition("\n\nBacktrace")[0])
    code = next((one or two or three for one, two, three in _CODE.findall(message)), "")
    status = next(iter(_STATUS.findall(message)), "")
    detail = code or (f"status {status}" if status else "")
    if detail:
        return BackendError(_WORDS.get(code) or _WORDS.get(status) or "broken", detail, status)
    lowered = message.lower()
    words = (word for word, phrases in _PHRASES.items() if any(phrase in lowered for phrase in phrases))
    return BackendError(next(words, "broken"))


# Words for the exceptions of redis-py and for their subclasses.
_WORDS_OF_REDIS = {"AuthenticationError": "bad_credentials", "NoPermissionError": "bad_credentials"}
_WORDS_OF_REDIS |= {"TimeoutError": "timeout", "ConnectionError": "unreachable"}
_WORDS_OF_REDIS |= {"OutOfMemoryError": "full", "ReadOnlyError": "denied"}


class RedisWithTls(Backend):
    """The scheme `rediss://`, through redis-py. Other remotes use opendal, which has no TLS for redis."""

    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        try:
            redis = importlib.import_module("redis")
        except ImportError:
            raise BackendError("not_installed") from None
        self._prefix = remote.options["prefix"] + "/" if "prefix" in remote.options else ""
        self._seconds = remote.options.get("ttl")
        self._client = redis.Redis(
            remote.host.strip("[]"), remote.port, int(remote.path), protocol=2, retry=None,
            username=remote.user or None, password=remote.password or environ.get("REDISCLI_AUTH") or None,
            ssl=True, ssl_check_hostname=True, ssl_ca_certs=environ.get("SSL_CERT_FILE") or None,
            socket_timeout=timeout, socket_connect_timeout=timeout,
        )  # fmt: skip

    def get(self, name: str, most: int) -> bytes | None:
        content = _answer_of_redis(lambda: self._client.getrange(self._prefix + name, 0, most))
        assert isinstance(content, bytes)
        return content if 0 < len(content) <= most else None  # redis answers an absent name with no bytes

    def put(self, name: str, content: bytes) -> None:
        _answer_of_redis(lambda: self._client.set(self._prefix + name, content, ex=self._seconds))


def _answer_of_redis(request: Callable[[], object]) -> object:
    try:
        return request()
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        words = (_WORDS_OF_REDIS[kind] for kind in kinds if kind in _WORDS_OF_REDIS)
        is_tls = "SSL" in str(error) or isinstance(error.__context__, FileNotFoundError)
        raise BackendError("tls" if is_tls else next(words, "broken")) from None


def connect(remote: Remote, environ: Mapping[str, str], timeout: float = 10.0) -> Backend:
    """A client of a remote. `timeout`, in seconds, limits each read or write. Raises BackendError."""
    if remote.scheme == "file":
        from nvccache.remote.shared_directory import SharedDirectory

        return SharedDirectory(remote.path)
    if remote.scheme == "rediss":
        return RedisWithTls(remote, environ, timeout)
    from nvccache.remote.object_store import ObjectStore

    return ObjectStore(remote, environ, timeout)
