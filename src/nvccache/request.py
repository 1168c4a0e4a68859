"""A call as it came, for what is done where no record answers all of it."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.answer import Answer
    from nvccache.invocation import Invocation


@dataclass(frozen=True, slots=True)
class Request:
    """`environ` is the caller's, `nvcc` the program behind us.

    `terminal` see terminals.py; `program` is what a record holds of the program that the call links, if any.
    """

    nvcc: str
    arguments: tuple[str, ...]
    invocation: Invocation
    environ: dict[str, str]
    guarded_environ: dict[str, str]
    replay_key: str
    terminal: str
    program: Answer | None = None
