"""A call of nvcc, as received or as made by an nvcc that is a script. Part of the hot path."""

from __future__ import annotations

from nvccache import real_nvcc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.commandline.invocation import Invocation
    from nvccache.config import Config
    from nvccache.records.facts import Present
    from nvccache.records.input_records import InputRecord

_PROGRAM = b"\x7fELF"


class Request:
    """A call, and what is known of it so far."""

    __slots__ = (
        "arguments",
        "config",
        "environ",
        "input_record",
        "invocation",
        "is_script",
        "is_waiting",
        "now",
        "nvcc",
        "script",
    )

    def __init__(
        self,
        nvcc: str,
        arguments: list[str],
        environ: dict[str, str],
        config: Config,
        script: Request | None = None,
    ) -> None:
        self.nvcc = nvcc  # the real one, or a script
        self.arguments = arguments
        self.environ = environ  # the caller's
        self.config = config
        self.script = script  # the call of the script that made this one
        self.is_script = not script and is_script(nvcc)
        self.now: Present | None = None  # the state of files in which its records were looked up
        # Of a script:
        self.input_record: InputRecord | None = None  # of its rehearsal; None if there can be none
        self.is_waiting = False  # it starts nvcc as a child and waits, instead of exec

    if TYPE_CHECKING:
        invocation: Invocation  # once parsed; never for a script

    @property
    def guarded_environ(self) -> dict[str, str]:
        """The environment for what this call starts."""
        environ = real_nvcc.guarded(self.environ, self.script.nvcc) if self.script else self.environ
        return real_nvcc.guarded(environ, self.nvcc)


def is_script(nvcc: str) -> bool:
    """Whether an nvcc is no ELF program; False if it cannot be read."""
    try:
        with open(nvcc, "rb") as stream:
            return stream.read(len(_PROGRAM)) != _PROGRAM
    except OSError:
        return False
