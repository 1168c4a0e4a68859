"""The interface of all remotes, and their errors.

Methods block: callers that must not wait use threads (tier.py). Messages of opendal and redis are mapped to
the words of outcomes.REMOTE_FAULTS. Of a server's message only protocol codes are quoted: the rest may
contain addresses, account names or requests.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod


class Service(ABC):
    """Thread-safe. Both methods raise ServiceError."""

    @abstractmethod
    def get(self, name: str, most: int) -> bytes | None:
        """The content under a name; None if there is none, or more than `most` bytes."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Create or replace, atomically: a concurrent `get` returns the old or the new content."""


# Bytes per second that a transfer must reach once its timeout is over, or it counts as timed out.
MIN_RATE = 32 * 1024
_CODE = re.compile(
    r"""<Code>([A-Za-z]{1,40})</Code>|\bcode: "([A-Za-z]{1,40})"|"""
    r"\b(NOAUTH|WRONGPASS|NOPERM|NoPerm|OOM|LOADING|MASTERDOWN|READONLY)\b"
)
_KIND = re.compile(r"(\w+) \((?:permanent|temporary|persistent)\)")
# The target of the request, which may contain any of the words below.
_TARGET = re.compile(r"\b(?:url|uri|path|endpoint|headers): [^,\n}]*")
_STATUS = re.compile(r"status: (\d{3})\b")
# By word: codes of S3, Azure and redis, HTTP statuses, and opendal's error kinds, in this order.
_CODES = {
    "bad_credentials": (
        "SignatureDoesNotMatch InvalidAccessKeyId ExpiredToken InvalidToken TokenRefreshRequired "
        "RequestTimeTooSkewed AuthenticationFailed InvalidAuthenticationInfo InvalidSecurity "
        "NOAUTH WRONGPASS NOPERM NoPerm 401 407"
    ),
    "throttled": ("SlowDown Throttling TooManyRequests RequestLimitExceeded ServerBusy 429 503 RateLimited"),
    "full": "OOM QuotaExceeded InsufficientStorage EntityTooLarge 413 507",
    "denied": (
        "AccessDenied AllAccessDisabled AccountProblem NoSuchBucket READONLY PermissionDenied "
        "403 405 501"  # a read-only server does not implement PUT
    ),
    "unreachable": "LOADING MASTERDOWN 502 504",
}
_NO_SUCH_METHOD = ("405", "501")  # statuses of HTTP
_WORDS = {mark: word for word, marks in _CODES.items() for mark in marks.split()}
# Parts of messages of opendal and its dependencies, in lower case; the first match wins.
_PHRASES = {
    "timeout": ("timeout reached", "timed out", "operation timeout"),
    "tls": ("certificate", "corrupt message", "tls", "ssl", "handshake"),
    "bad_credentials": ("credential", "authentication failed"),
    "full": ("no space left", "disk quota"),
    "unreachable": (
        *("error sending request", "connect", "dns", "resolve", "connection", "network is unreachable"),
        *("no route", "broken pipe", "channel closed"),
    ),
}
UNUSABLE = "unusable_directory"  # the word for faults of a directory, which has no server
TEXTS = {
    "unreachable": "no connection",
    UNUSABLE: "its file system reports an error",
    "timeout": "no answer in time",
    "denied": "it denies access",
    "bad_credentials": "it rejects the credentials",
    "throttled": "it asks for fewer requests",
    "full": "it is full",
    "tls": "its certificate or encryption cannot be used",
    "not_installed": "its client is not installed",
    "broken": "its answer cannot be used",
}
# More precise, where the text for the word would mislead.
_TEXT_OF_CODE = {
    "NOPERM": "it denies this user the command or the keys",
    "NoPerm": "it denies this user the command or the keys",
    "NoSuchBucket": "there is no such bucket",
}


class ServiceError(Exception):
    """A request to a remote failed: a word of outcomes.REMOTE_FAULTS, and a clause."""

    def __init__(self, word: str, detail: str = "", status: str = "", text: str = "") -> None:
        """`text` replaces the usual clause for the word."""
        self.word = word
        self.status = status  # of HTTP, if there was one
        self.text = (text or _TEXT_OF_CODE.get(detail) or TEXTS[word]) + (f" ({detail})" if detail else "")
        super().__init__(self.text)


class OwnLimitError(ServiceError):
    """This process has too few threads or descriptors for a client: the remote is not at fault."""


def is_lasting(error: ServiceError) -> bool:
    """Whether all processes should leave the remote alone for a while.

    Not without a client or descriptors here. A directory may be mounted at any time, and opening it again
    costs nothing.
    """
    return error.word not in ("not_installed", UNUSABLE) and not isinstance(error, OwnLimitError)


def is_not_found(message: str) -> bool:
    """Whether an exception of opendal means "not found": its type does not always show it."""
    return _kind(message) == "NotFound"


def may_concern_one_name(message: str) -> bool:
    """Whether access may be denied for this name alone, not for the bucket or the method."""
    fault = error_of(message)
    return _code(message) != "NoSuchBucket" and fault.status not in _NO_SUCH_METHOD


def lacks_cause(message: str) -> bool:
    """Whether the message lacks the cause, as those for reading a stream do."""
    return message.endswith("error sending request")


def error_of(message: str) -> ServiceError:
    """The error for a message of an opendal exception or a redis error reply."""
    message = _TARGET.sub("", message.partition("\n\nBacktrace")[0])
    code, status = _code(message), next(iter(_STATUS.findall(message)), "")
    detail = code or (f"status {status}" if status else "")
    word = _WORDS.get(code) or _WORDS.get(status) or _WORDS.get(_kind(message))
    if word or detail:
        return ServiceError(word or "broken", detail, status)
    lowered = message.lower()
    found = (word for word, phrases in _PHRASES.items() if any(phrase in lowered for phrase in phrases))
    return ServiceError(next(found, "broken"))


def _code(message: str) -> str:
    return next((one or two or three for one, two, three in _CODE.findall(message)), "")


def _kind(message: str) -> str:
    found = _KIND.match(message)
    return found[1] if found else ""
