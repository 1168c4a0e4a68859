"""Why a stage has no result from another machine: the keys of outcomes.EXECUTOR_FAULTS."""

from __future__ import annotations

UNREACHABLE = "unreachable"  # no connection, no answer in time, no agreement on encryption
DENIED = "denied"  # credentials or rights
NO_WORKERS = "no_workers"  # the stage stayed in the queue too long, or the engine is full
FAILED = "failed"  # the tool failed, or an output is missing
BROKEN = "broken"  # anything else
CANCELLED = ""  # its result is no longer wanted


class ExecutorError(Exception):
    """A stage has to run here after all: a `fault` of the list above, and a sentence for the log."""

    def __init__(self, fault: str, text: str = "") -> None:
        super().__init__(text or fault)
        self.fault = fault


class NotInstalledError(ExecutorError):
    """A Python package is missing."""
