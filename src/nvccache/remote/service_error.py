"""What can be wrong with a remote, in the words of outcomes.REMOTE_FAULTS, from what opendal says of it.

What a server has said is not quoted, but for codes of its protocol: the rest may have addresses, names of
accounts or requests in it.
"""

from __future__ import annotations

import re

# Bytes a second, once the time for an answer is over: what is slower counts as one that does not answer.
SLOWEST = 32 * 1024
_CODE = re.compile(
    r"""<Code>([A-Za-z]{1,40})</Code>|\bcode: "([A-Za-z]{1,40})"|"""
    r"\b(NOAUTH|WRONGPASS|NOPERM|NoPerm|OOM|LOADING|MASTERDOWN|READONLY)\b"
)
_KIND = re.compile(r"(\w+) \((?:permanent|temporary|persistent)\)")
# Where the request went: its words say nothing about what came of it.
_PLACE = re.compile(r"\b(?:url|uri|path|endpoint|headers): [^,\n}]*")
_STATUS = re.compile(r"status: (\d{3})\b")
_BAD_CREDENTIALS = frozenset(
    (
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "RequestTimeTooSkewed",
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
        "InvalidSecurity",
        "NOAUTH",
        "WRONGPASS",
        "NOPERM",
        "NoPerm",
    )
)
_THROTTLED = frozenset(("SlowDown", "Throttling", "TooManyRequests", "RequestLimitExceeded", "ServerBusy"))
_FULL = frozenset(("OOM", "QuotaExceeded", "InsufficientStorage", "EntityTooLarge"))
_DENIED = frozenset(("AccessDenied", "AllAccessDisabled", "AccountProblem", "NoSuchBucket", "READONLY"))
_OF_STATUS = {
    "401": "bad_credentials",
    "403": "denied",
    "407": "bad_credentials",
    "413": "full",
    "429": "throttled",
    "502": "unreachable",
    "503": "throttled",
    "504": "unreachable",
    "507": "full",
}
_OF_KIND = {
    "PermissionDenied": "denied",
    "RateLimited": "throttled",
}
_OF_CODE = {
    **dict.fromkeys(_BAD_CREDENTIALS, "bad_credentials"),
    **dict.fromkeys(_THROTTLED, "throttled"),
    **dict.fromkeys(_FULL, "full"),
    **dict.fromkeys(_DENIED, "denied"),
    "LOADING": "unreachable",
    "MASTERDOWN": "unreachable",
}
# As opendal and what it is built on say it; the first that is found counts.
_SAYINGS = (
    ("timeout", ("timeout reached", "timed out", "operation timeout")),
    ("tls", ("certificate", "corrupt message", "tls", "ssl", "handshake")),
    ("bad_credentials", ("failed to load signing credential", "credential", "authentication failed")),
    ("full", ("no space left", "disk quota")),
    (
        "unreachable",
        (
            "error sending request",
            "connect",
            "dns",
            "resolve",
            "connection",
            "network is unreachable",
            "no route",
            "broken pipe",
            "channel closed",
        ),
    ),
)
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
# Where the word alone would send somebody to look in the wrong place.
_TEXT_OF_CODE = {
    "NOPERM": "it does not permit this user that command, or these keys",
    "NoPerm": "it does not permit this user that command, or these keys",
    "NoSuchBucket": "there is no such bucket",
}


class ServiceError(Exception):
    """A remote could not do what it was asked for: a word of outcomes.REMOTE_FAULTS, and a clause."""

    def __init__(self, word: str, detail: str = "", status: str = "", text: str = "") -> None:
        """`text` says more than what is said of the word otherwise."""
        self.word = word
        self.status = status  # of HTTP, if there was one
        self.text = (text or _TEXT_OF_CODE.get(detail) or TEXTS[word]) + (f" ({detail})" if detail else "")
        super().__init__(self.text)


class OwnLimitError(ServiceError):
    """This process lacks what speaks to any remote: nothing is the matter with the remote."""


def is_absence(said: str) -> bool:
    """Whether an exception of opendal says that there is no such name: its type does not always."""
    return _kind(said) == "NotFound"


def is_of_one_name(said: str) -> bool:
    """Whether a refusal may be of this name alone: without its bucket there is nothing at all."""
    return _code(said) != "NoSuchBucket"


def is_vague(said: str) -> bool:
    """Whether it only says that a request failed: reading a stream leaves out why."""
    return said.endswith("error sending request")


def status_of(said: str) -> str:
    return next(iter(_STATUS.findall(said)), "")


def of(said: str) -> ServiceError:
    """What an exception of opendal with this text stands for."""
    said = _PLACE.sub("", said.partition("\n\nBacktrace")[0])
    code = _code(said)
    status = status_of(said)
    detail = code or (f"status {status}" if status else "")
    word = _OF_CODE.get(code) or _OF_STATUS.get(status) or _OF_KIND.get(_kind(said))
    if word or detail:
        return ServiceError(word or "broken", detail, status)
    lowered = said.lower()
    for word, sayings in _SAYINGS:
        if any(saying in lowered for saying in sayings):
            return ServiceError(word)
    return ServiceError("broken")


def _code(said: str) -> str:
    return next((one or two or three for one, two, three in _CODE.findall(said)), "")


def _kind(said: str) -> str:
    found = _KIND.match(said)
    return found[1] if found else ""
