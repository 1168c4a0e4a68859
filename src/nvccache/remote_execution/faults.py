"""Why a stage did not come back from another machine: the words of outcomes.EXECUTOR_FAULTS."""

from __future__ import annotations

from nvccache.outcomes import EXECUTOR_FAULTS

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
OPEN_BREAKER = frozenset(EXECUTOR_FAULTS) - {FAILED, OVERTAKEN}


class ExecutorError(Exception):
    """A stage has to run here after all: `word` of the list above, and a sentence for the log."""

    def __init__(self, word: str, text: str = "") -> None:
        super().__init__(text or word)
        self.word = word
