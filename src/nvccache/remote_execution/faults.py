"""Why a stage did not come back from another machine: a closed list of words."""

from __future__ import annotations

UNREACHABLE, TIMEOUT, TLS = "unreachable", "timeout", "tls"
DENIED, BAD_CREDENTIALS = "denied", "bad_credentials"
FULL = "full"  # the storage, or the queue
NOT_INSTALLED = "not_installed"  # a package that the engine needs
NO_WORKERS = "no_workers"  # it was still in the queue when it should have been done
OTHER_VERSION = "other_version"  # of the interface, or without what is needed of it
OTHER_MACHINE = "other_machine"  # a worker with another class of processor
WRONG_RESULT = "wrong_result"  # content that is not what its digest says
FAILED = "failed"  # the tool ended with an error, or not all of its outputs are there
OVERTAKEN = "overtaken"  # the local try was first
BROKEN = "broken"  # whatever else

# Others would meet them as well, for a while: the engine is left alone.
OPEN_BREAKER = frozenset(
    (UNREACHABLE, TIMEOUT, TLS, DENIED, BAD_CREDENTIALS, FULL, NOT_INSTALLED, NO_WORKERS, OTHER_VERSION,
     OTHER_MACHINE, WRONG_RESULT, BROKEN)
)  # fmt: skip

# For people: why a stage ran here though it was sent.
SENTENCES = {
    UNREACHABLE: "there is no connection to the engine, or it broke; or the launcher did not start the stage",
    TIMEOUT: "the engine did not answer in time, or the stage took too long there",
    TLS: "the certificate of the engine, or its encryption, cannot be used",
    DENIED: "the engine permits no such access",
    BAD_CREDENTIALS: "the engine does not accept the credentials, or a file with them cannot be read",
    FULL: "the engine has no room left, or its queue is full",
    NOT_INSTALLED: "what speaks to the engine is not installed: `nvccache doctor` says how it is",
    NO_WORKERS: "it was still in the queue when a worker should have had it",
    OTHER_VERSION: "the engine speaks another version of the interface, or cannot execute",
    OTHER_MACHINE: "the worker has another class of processor",
    WRONG_RESULT: "what came back is not what it was said to be",
    FAILED: "the tool failed there, or what it made cannot be used",
    OVERTAKEN: "it was started here as well, and ended here first",
    BROKEN: "the answer of the engine cannot be used, or something else went wrong",
}


class AwayError(Exception):
    """A stage has to run here after all: `word` of the list above, and a sentence for the log."""

    def __init__(self, word: str, text: str = "") -> None:
        super().__init__(text or word)
        self.word = word
