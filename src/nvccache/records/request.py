"""A call of nvcc as it came, or as a script has turned it into one. Part of the hot path."""

from __future__ import annotations

import os

from nvccache import real_nvcc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.config import Config
    from nvccache.records.input_records import InputRecord
    from nvccache.records.products import Answer

_PROGRAM = b"\x7fELF"


class Request:
    """A call, and what is known of it by now."""

    __slots__ = (
        "arguments",
        "config",
        "environ",
        "input_record",
        "invocation",
        "is_script",
        "is_waiting",
        "nvcc",
        "program",
        "script",
        "terminal",
    )

    def __init__(
        self,
        nvcc: str,
        arguments: list[str],
        environ: dict[str, str],
        config: Config,
        script: Request | None = None,
    ) -> None:
        self.nvcc = nvcc  # the program behind us
        self.arguments = arguments
        self.environ = environ  # the caller's
        self.config = config
        self.script = script  # the call that has become this one
        self.is_script = not script and is_script(nvcc)
        self.terminal = _terminal(environ)
        self.program: Answer | None = None  # what is known of the program that the call links
        # Of a script:
        self.input_record: InputRecord | None = None  # on what it has depended; None if no record can tell
        self.is_waiting = False  # for nvcc to end, instead of having become it

    if TYPE_CHECKING:
        invocation: Invocation  # once it is parsed, which a script never is

    @property
    def guarded_environ(self) -> dict[str, str]:
        """The environment for what this call starts."""
        environ = real_nvcc.guarded(self.environ, self.script.nvcc) if self.script else self.environ
        return real_nvcc.guarded(environ, self.nvcc)


def is_script(nvcc: str) -> bool:
    """Whether an nvcc is no compiled program; also not where it cannot be read."""
    try:
        with open(nvcc, "rb") as stream:
            return stream.read(len(_PROGRAM)) != _PROGRAM
    except OSError:
        return False


def _terminal(environ: dict[str, str]) -> str:
    """What the terminal at standard error is like, if it is one; see streams.py."""
    if not os.isatty(2):
        return ""
    from nvccache.machine import streams

    return streams.describe(environ)
