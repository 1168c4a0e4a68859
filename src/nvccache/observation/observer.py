"""Runs the tools of a call with the observer, a preloaded library, and finds its logs.

The library is loaded from where it is installed, not from the scratch directory, because a server that a tool
starts keeps it loaded during later compiles. An environment variable names a directory for each run, in which
the library writes its log; once the log is removed, it writes nothing (observer/log.c). Logs are parsed by
observer_log.py.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Mapping, Sequence

from nvccache.files import elf, keys, signatures
from nvccache.machine import process
from nvccache.machine.process import Completed, Handle
from nvccache.observation import observer_log
from nvccache.observation.observer_log import Observation
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

VARIABLE = "LD_PRELOAD"
_LOG_VARIABLE = "_NVCCACHE_SCRATCH"  # the directory with the log of one run
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "observer.so")
_LOG = "log"
_TRIED = ("/bin/sh", "-c", ":")  # a command to try the observer with; nvcc also needs sh
_WORKS, _FAILS = "works", "fails"
_LARGEST_SCRIPT = 1 << 20
_MESSAGE = b"ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded"
_MENTIONED = f"the text of a script contains `{VARIABLE}`"


def obstacle(directory: str, cache: Store) -> str:
    """The reason why tools cannot be observed with logs below this directory; empty if they can."""
    signature = signatures.signature_of(LIBRARY)
    if not signature:
        return "the observer was not built"
    program = signatures.to_text(signatures.all_of(_TRIED[:1]) or [])
    library = (LIBRARY, signatures.to_text([signature]))
    key = keys.key_of("observer", [("library", library), ("program", (program,))])
    answer = cache.find_memo(key)
    if answer not in (_WORKS, _FAILS):
        try:
            answer = _WORKS if _reports(directory) else _FAILS
        except OSError:
            return "the observer could not be tested"
        cache.add_memo(key, answer)
    return "" if answer == _WORKS else "the observer cannot be loaded into programs here"


def _reports(directory: str) -> bool:
    """Whether a shell with the library loaded writes a log, and prints no messages; raises OSError."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="observer-", dir=directory) as folder:
        watched = os.path.join(folder, "watched")
        done = process.run(_TRIED, arm(watched, {}))
        return not done.stderr and os.path.getsize(log_in(watched)) > 0


def looks_for_observer(program: str) -> bool:
    """Whether a program is a script whose text suggests that it behaves differently when observed."""
    try:
        with open(program, "rb") as stream:
            magic = stream.read(len(elf.MAGIC))
            return magic != elf.MAGIC and VARIABLE.encode() in stream.read(_LARGEST_SCRIPT)
    except OSError:
        return False


def arm(watched_directory: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Create the directory for one run of a tool, and return the environment for it; raises OSError."""
    os.mkdir(watched_directory, 0o700)
    with open(log_in(watched_directory), "xb"):
        pass
    # The user's libraries come first, because AddressSanitizer refuses to start otherwise.
    preloaded = f"{environ[VARIABLE]}:{LIBRARY}" if environ.get(VARIABLE) else LIBRARY
    return {**environ, VARIABLE: preloaded, _LOG_VARIABLE: watched_directory}


def log_in(watched_directory: str) -> str:
    return os.path.join(watched_directory, _LOG)


def without_loader_messages(stderr: bytes) -> bytes:
    """A tool's messages, without the loader's about the observer, which 32-bit programs cannot load."""
    message = _MESSAGE % os.fsencode(LIBRARY)
    if message not in stderr:
        return stderr
    return re.sub(re.escape(message) + rb"[^\n]*\n", b"", stderr)


class Log:
    """The observer's log of one run of `program`; if there is none, `why_not` says why."""

    def __init__(self, directory: str, program: str, why_not: str = "", began_ns: int = 0) -> None:
        self._directory, self._program, self._why_not = directory, program, why_not
        self._began_ns = began_ns
        self._observation: Observation | None = None

    def read(self) -> Observation:
        """The contents of the log, which is parsed at the first call only."""
        if self._why_not:
            return Observation([], set(), self._why_not)
        if self._observation is None:
            self._observation = observer_log.read(log_in(self._directory), self._program, self._began_ns)
        return self._observation


class Watch:
    """Runs the tools of one call with the observer."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._numbers = itertools.count()  # numbers the directories of runs; thread-safe

    def run(
        self, argv: Sequence[str], environ: Mapping[str, str], handle: Handle | None = None
    ) -> tuple[Completed, Log]:
        """Run a tool to its end; raises OSError if it cannot be started."""
        program = toolchain.resolve(argv[0], environ.get("PATH", ""))
        if looks_for_observer(program):
            completed = process.run(argv, environ, handle=handle)
            return completed, Log("", argv[0], _MENTIONED)
        directory, began_ns = os.path.join(self._scratch, f"watched-{next(self._numbers)}"), time.time_ns()
        completed = process.run(argv, arm(directory, environ), handle=handle)
        completed.stderr = without_loader_messages(completed.stderr)
        return completed, Log(directory, program, began_ns=began_ns)
