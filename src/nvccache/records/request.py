"""A call of nvcc, as received. Part of the hot path."""

from __future__ import annotations

from nvccache import real_nvcc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.config import Config
    from nvccache.records.facts import CurrentState


class Request:
    """A call, and what is known of it so far."""

    __slots__ = ("arguments", "checkout", "config", "environ", "invocation", "now", "nvcc")

    def __init__(self, nvcc: str, arguments: list[str], environ: dict[str, str], config: Config) -> None:
        self.nvcc = nvcc
        self.arguments = arguments
        self.environ = environ  # the caller's
        self.config = config
        self.checkout = ""  # in which nvcc gets relative paths; empty if no base directory is set
        self.now: CurrentState | None = None  # the state of files in which its records were looked up

    if TYPE_CHECKING:
        invocation: Invocation  # once parsed

    @property
    def guarded_environ(self) -> dict[str, str]:
        """The environment for what this call starts."""
        return real_nvcc.guarded(self.environ, self.nvcc)
