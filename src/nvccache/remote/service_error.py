"""What can be wrong with a remote, in the words of outcomes.REMOTE_FAULTS, from what opendal says of it.

What a server has said is not quoted, but for codes of its protocol: the rest may have addresses, names of
accounts or requests in it.
"""

from __future__ import annotations

import re

_CODE = re.compile(
    r"<Code>([A-Za-z]{1,40})</Code>|\b(NOAUTH|WRONGPASS|NOPERM|OOM|LOADING|MASTERDOWN|READONLY)\b"
)
_KIND = re.compile(r"(\w+) \((?:permanent|temporary|persistent)\)")
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
    )
)
_THROTTLED = frozenset(("SlowDown", "Throttling", "TooManyRequests", "RequestLimitExceeded", "ServerBusy"))
_FULL = frozenset(("OOM", "QuotaExceeded", "InsufficientStorage", "EntityTooLarge"))
_DENIED = frozenset(("AccessDenied", "AllAccessDisabled", "AccountProblem", "READONLY"))
_OF_STATUS = {
    "401": "bad_credentials",
    "403": "denied",
    "407": "bad_credentials",
    "413": "full",
    "429": "throttled",
    "503": "throttled",
    "507": "full",
}
_OF_KIND = {
    "PermissionDenied": "denied",
    "RateLimited": "throttled",
    "ConfigInvalid": "bad_credentials",
}
# As opendal and what it is built on say it; the first that is found counts.
_SAYINGS = (
    ("timeout", ("timeout reached", "timed out", "operation timeout")),
    ("tls", ("certificate", "tls", "ssl", "handshake")),
    ("bad_credentials", ("failed to load signing credential", "credential", "authentication failed")),
    ("full", ("no space left", "disk quota")),
    (
        "unreachable",
        (
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
    "not_installed": "`pip install 'nvccache[remote]'` brings what speaks to it",
    "broken": "its answer cannot be used",
}


class ServiceError(Exception):
    """A remote could not do what it was asked for: a word of outcomes.REMOTE_FAULTS, and a clause."""

    def __init__(self, word: str, detail: str = "") -> None:
        self.word = word
        self.text = TEXTS[word] + (f" ({detail})" if detail else "")
        super().__init__(self.text)


def is_absence(said: str) -> bool:
    """Whether an exception of opendal says that there is no such name: its type does not always."""
    return _kind(said) == "NotFound"


def _kind(said: str) -> str:
    found = _KIND.match(said)
    return found[1] if found else ""


def of(said: str) -> ServiceError:
    """What an exception of opendal with this text stands for."""
    code = next((first or second for first, second in _CODE.findall(said)), "")
    status = next(iter(_STATUS.findall(said)), "")
    detail = code or (f"status {status}" if status else "")
    for word, codes in (
        ("bad_credentials", _BAD_CREDENTIALS),
        ("throttled", _THROTTLED),
        ("full", _FULL),
        ("denied", _DENIED),
    ):
        if code in codes:
            return ServiceError(word, detail)
    if code in ("LOADING", "MASTERDOWN"):
        return ServiceError("unreachable", detail)
    if status in _OF_STATUS:
        return ServiceError(_OF_STATUS[status], detail)
    if _kind(said) in _OF_KIND:
        return ServiceError(_OF_KIND[_kind(said)], detail)
    if status:
        return ServiceError("broken", detail)
    lowered = said.lower()
    for word, sayings in _SAYINGS:
        if any(saying in lowered for saying in sayings):
            return ServiceError(word)
    return ServiceError("broken")
