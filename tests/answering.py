"""What is there now, with answers about the machine that a test makes up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nvccache.records.facts import CurrentState


class Answering(CurrentState):
    """Gives one answer to all questions, or those of a function."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, answer: str | Callable[[str, str], str] = ""
    ) -> None:
        super().__init__(environ or {})
        self._answer = answer

    def answer(self, topic: str, subject: str) -> str:
        return self._answer if isinstance(self._answer, str) else self._answer(topic, subject)
