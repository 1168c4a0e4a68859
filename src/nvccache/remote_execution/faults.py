"""Why a stage has no result from another machine: the keys of outcomes.EXECUTOR_FAULTS."""

from __future__ import annotations

from nvccache.outcomes import EXECUTOR_FAULTS

UNREACHABLE, TIMEOUT, TLS = "unreachable", "timeout", "tls"
DENIED, BAD_CREDENTIALS = "denied", "bad_credentials"
FULL = "full"  # the storage, or the queue
NOT_INSTALLED = "not_installed"  # a Python package is missing
NO_WORKERS = "no_workers"  # the stage stayed in the queue too long
OTHER_VERSION = "other_version"  # of the API, or a needed part of it is missing
OTHER_MACHINE = "other_machine"  # a worker with another class of processor
WRONG_RESULT = "wrong_result"  # content does not match its digest
FAILED = "failed"  # the tool failed, or an output is missing
OVERTAKEN = "overtaken"  # the local run was first
BROKEN = "broken"  # anything else

# Other stages would fail in the same manner, so the engine gets none for a while.
OPEN_BREAKER = frozenset(EXECUTOR_FAULTS) - {FAILED, OVERTAKEN}


class ExecutorError(Exception):
    """A stage has to run here after all: a `fault` of the list above, and a sentence for the log."""

    def __init__(self, fault: str, text: str = "") -> None:
        super().__init__(text or fault)
        self.fault = fault
