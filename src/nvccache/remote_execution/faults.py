"""The reasons why another machine returns no result of a stage: the keys of outcomes.EXECUTOR_FAULTS."""

from __future__ import annotations

UNREACHABLE = "unreachable"  # no connection, no answer in time, or no common encryption
DENIED = "denied"  # the credentials are wrong or insufficient
NO_WORKERS = "no_workers"  # the stage stayed in the queue too long, or the engine is full
FAILED = "failed"  # the tool failed, or an output is missing
BROKEN = "broken"  # anything else
CANCELLED = ""  # the stage's result is no longer needed


class ExecutorError(Exception):
    """A stage has to run on this machine. `fault` is a word from above; `text`, a sentence, is logged."""

    def __init__(self, fault: str, text: str = "") -> None:
        super().__init__(text or fault)
        self.fault = fault


class NotInstalledError(ExecutorError):
    """A Python package is missing."""
