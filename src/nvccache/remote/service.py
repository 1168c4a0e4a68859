"""One remote as a place to get from and put to, of whatever kind it is.

Blocks: who must not wait asks on a thread (tier.py). What can be wrong with one is said in the words of
outcomes.REMOTE_FAULTS, by messages of opendal and redis. Of a server's message only codes of its protocol are
quoted: the rest may have addresses, names of accounts or requests in it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator


class Service(ABC):
    """Thread-safe. All methods raise ServiceError."""

    @abstractmethod
    def get(self, name: str, most: int) -> bytes | None:
        """What has this name; None where there is no such name, or more than `most` bytes under it."""

    @abstractmethod
    def has(self, name: str, size: int | None = None) -> bool:
        """Whether something has this name and, where a size is given and the server has one, this size."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Also in place of what has this name; who gets it meanwhile gets all of the one or of the other."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Also of what is not there."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[tuple[str, int, float]]:
        """The names that begin with `prefix`, which ends with `/` or is empty; sizes; when they were changed.

        Times are Unix times, 0 where the server has none; with redis, when a name was last used.
        """

    def sweep(self) -> None:
        """Remove what killed processes have left half written; only a directory has that."""
        return


# Bytes a second, once the time for an answer is over: what is slower counts as one that does not answer.
SLOWEST = 32 * 1024
_CODE = re.compile(
    r"""<Code>([A-Za-z]{1,40})</Code>|\bcode: "([A-Za-z]{1,40})"|"""
    r"\b(NOAUTH|WRONGPASS|NOPERM|NoPerm|OOM|LOADING|MASTERDOWN|READONLY)\b"
)
_KIND = re.compile(r"(\w+) \((?:permanent|temporary|persistent)\)")
# Where the request went, which may hold any word, whatever came of it.
_PLACE = re.compile(r"\b(?:url|uri|path|endpoint|headers): [^,\n}]*")
_STATUS = re.compile(r"status: (\d{3})\b")
# By word: codes of S3, Azure and redis, statuses of HTTP, and kinds of errors of opendal, in this order.
_MARKS = {
    "bad_credentials": (
        "SignatureDoesNotMatch InvalidAccessKeyId ExpiredToken InvalidToken TokenRefreshRequired "
        "RequestTimeTooSkewed AuthenticationFailed InvalidAuthenticationInfo InvalidSecurity "
        "NOAUTH WRONGPASS NOPERM NoPerm 401 407"
    ),
    "throttled": ("SlowDown Throttling TooManyRequests RequestLimitExceeded ServerBusy 429 503 RateLimited"),
    "full": "OOM QuotaExceeded InsufficientStorage EntityTooLarge 413 507",
    "denied": (
        "AccessDenied AllAccessDisabled AccountProblem NoSuchBucket READONLY PermissionDenied "
        "403 405 501"  # a server that cannot be written to does not know PUT
    ),
    "unreachable": "LOADING MASTERDOWN 502 504",
}
_NO_SUCH_METHOD = ("405", "501")  # statuses of HTTP
_WORD_OF = {mark: word for word, marks in _MARKS.items() for mark in marks.split()}
# Parts of messages of opendal and what it is built on, in lower case; the first word that has one counts.
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
TEXTS = {
    "unreachable": "no connection",
    "timeout": "no answer in time",
    "denied": "it permits no such access",
    "bad_credentials": "it does not accept the credentials",
    "throttled": "it asks for fewer requests",
    "full": "it has no room left",
    "tls": "its certificate, or the encryption, cannot be used",
    "not_installed": "what speaks to it is not installed",
    "broken": "its answer cannot be used",
}
# Where the word alone would have somebody look in the wrong place.
_TEXT_OF_CODE = {
    "NOPERM": "it does not permit this user that command, or these keys",
    "NoPerm": "it does not permit this user that command, or these keys",
    "NoSuchBucket": "there is no such bucket",
}


class ServiceError(Exception):
    """A remote could not do what it was asked for: a word of outcomes.REMOTE_FAULTS, and a clause."""

    def __init__(self, word: str, detail: str = "", status: str = "", text: str = "") -> None:
        """`text` takes the place of the usual clause for the word."""
        self.word = word
        self.status = status  # of HTTP, if there was one
        self.text = (text or _TEXT_OF_CODE.get(detail) or TEXTS[word]) + (f" ({detail})" if detail else "")
        super().__init__(self.text)


class OwnLimitError(ServiceError):
    """This process has no threads or files left for a client: the remote is not at fault."""


def is_of_remote(error: Exception) -> bool:
    """Whether an error is of the remote and not of one object."""
    return isinstance(error, ServiceError) and error.word != "broken"


def is_absence(message: str) -> bool:
    """Whether an exception of opendal means that there is no such name: its type does not always show it."""
    return _kind(message) == "NotFound"


def is_of_one_name(message: str) -> bool:
    """Whether a refusal may be of this name alone, and not of the bucket or the method."""
    fault = error_of(message)
    return _code(message) != "NoSuchBucket" and fault.status not in _NO_SUCH_METHOD


def is_vague(message: str) -> bool:
    """Whether only the fact of a failed request is in it: reading a stream leaves out why."""
    return message.endswith("error sending request")


def error_of(message: str) -> ServiceError:
    """What an exception of opendal, or a refusal of redis, with this message stands for."""
    message = _PLACE.sub("", message.partition("\n\nBacktrace")[0])
    code, status = _code(message), next(iter(_STATUS.findall(message)), "")
    detail = code or (f"status {status}" if status else "")
    word = _WORD_OF.get(code) or _WORD_OF.get(status) or _WORD_OF.get(_kind(message))
    if word or detail:
        return ServiceError(word or "broken", detail, status)
    lowered = message.lower()
    words = (word for word, phrases in _PHRASES.items() if any(phrase in lowered for phrase in phrases))
    return ServiceError(next(words, "broken"))


def _code(message: str) -> str:
    return next((one or two or three for one, two, three in _CODE.findall(message)), "")


def _kind(message: str) -> str:
    found = _KIND.match(message)
    return found[1] if found else ""
