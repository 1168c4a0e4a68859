"""A call as it came, for what is done where no record answers all of it."""

from __future__ import annotations

from nvccache.records.scripted import Behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.config import Config
    from nvccache.records.call_result import CallResult
    from nvccache.records.scripted import Script


class Request:
    """`environ` is the caller's, `nvcc` the program behind us.

    `terminal` see streams.py; `program` is what a record holds of the program that the call links, if any.
    With a `script` this is the call that one of nvcc has become.
    """

    __slots__ = (
        "arguments",
        "config",
        "environ",
        "guarded_environ",
        "invocation",
        "nvcc",
        "program",
        "script",
        "terminal",
    )

    def __init__(
        self,
        nvcc: str,
        arguments: tuple[str, ...],
        invocation: Invocation,
        environ: dict[str, str],
        guarded_environ: dict[str, str],
        config: Config,
        terminal: str,
        program: CallResult | None = None,
        script: Script | None = None,
    ) -> None:
        self.nvcc = nvcc
        self.arguments = arguments
        self.invocation = invocation
        self.environ = environ
        self.guarded_environ = guarded_environ
        self.config = config
        self.terminal = terminal
        self.program = program
        self.script = script

    @property
    def behind(self) -> Behind:
        """What records know the call by."""
        return Behind(self.nvcc, list(self.arguments), self.environ)
