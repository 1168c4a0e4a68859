"""Running the tools of a call under the observer: the library that is loaded into them, and its logs.

Each tool that is run has a directory of its own, in which the library lies as a link and writes its log; see
observer/log.c. So one variable is all that the tools see. What a log says is read by observer_log.py.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence

from nvccache.files import elf, keys, signatures
from nvccache.machine import process, watchdog
from nvccache.machine.process import Completed, Handle
from nvccache.observation import observer_log, process_checks
from nvccache.observation.observer_log import LINK, Observation
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

VARIABLE = "LD_PRELOAD"
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "observer.so")
_LOG, _REHEARSAL = "log", "rehearsal"  # as in observer/rehearsal.c, and what the latter holds
_SEPARATORS = re.compile(r"[\s:$]")  # the loader splits at the first two, and fills in after the third
_TRIED = ("/bin/sh", "-c", ":")  # the shell that nvcc itself needs
_WORKS, _FAILS = "works", "fails"
# A script that sets or unsets it learns nothing.
_ASKS_FOR_US = re.compile(rb"(?<!unset )\bLD_PRELOAD\b(?!=)|/proc/[^/\s]+/environ")
_LARGEST_SCRIPT = 1 << 20
_MESSAGE = b"ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded"
_LOOKED_FOR = f"its text asks for `{VARIABLE}`"
LONGEST_REHEARSAL = 10  # seconds


def obstacle(directory: str, cache: Store) -> str:
    """A clause that says why tools cannot be observed from directories below this one; empty if they can."""
    if _SEPARATORS.search(directory):
        return f"`{directory}` has a character that `{VARIABLE}` cannot have"
    shown = signatures.of(LIBRARY)
    if not shown:
        return "the observer was not built"
    program = signatures.to_text(signatures.all_of(_TRIED[:1]) or [])
    library = (LIBRARY, signatures.to_text([shown]))
    key = keys.key_of("observer", [("library", library), ("program", (program,))])
    answer = cache.find_memo(key)
    if answer not in (_WORKS, _FAILS):
        try:
            answer = _WORKS if _reports(directory) else _FAILS
        except OSError:
            return "the observer could not be tried"
        cache.add_memo(key, answer)
    return "" if answer == _WORKS else "the observer cannot be loaded here"


def _reports(directory: str) -> bool:
    """Whether a program into which the library is loaded writes a log, and nothing else; raises OSError."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="observer-", dir=directory) as folder:
        watched = os.path.join(folder, "watched")
        done = process.run(_TRIED, arm(watched, {}))
        return not done.stderr and os.path.getsize(log_in(watched)) > 0


def is_looked_for(program: str) -> bool:
    """Whether a program is a script by whose text it may do something else where it is observed."""
    try:
        with open(program, "rb") as stream:
            text = stream.read(len(elf.MAGIC))
            return text != elf.MAGIC and bool(_ASKS_FOR_US.search(text + stream.read(_LARGEST_SCRIPT)))
    except OSError:
        return False


def arm(watched_directory: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Make the directory for one run of one tool, and the environment to run it in; raises OSError."""
    os.mkdir(watched_directory, 0o700)
    link = os.path.join(watched_directory, LINK)
    os.symlink(LIBRARY, link)
    with open(log_in(watched_directory), "xb"):
        pass
    # Others go first: AddressSanitizer refuses to start otherwise.
    users = environ.get(VARIABLE, "")
    return {**environ, VARIABLE: f"{users}:{link}" if users else link}


def rehearse(watched_directory: str, handed_down: Iterable[tuple[int, int]], of_nvcc: bool) -> None:
    """Have the run end where a host compiler, or nvcc, would start, or read what was handed down.

    The latter is known by devices and inodes. Raises OSError.
    """
    with open(os.path.join(watched_directory, _REHEARSAL), "xb") as stream:
        stream.write(struct.pack("=Q", 2 if of_nvcc else 1))
        for device, inode in handed_down:
            stream.write(struct.pack("=QQ", device, inode))


def log_in(watched_directory: str) -> str:
    return os.path.join(watched_directory, _LOG)


def without_loader_messages(stderr: bytes, watched_directory: str) -> bytes:
    """A tool's messages, without those of the loaders of its 32-bit programs about our library."""
    message = _MESSAGE % os.fsencode(os.path.join(watched_directory, LINK))
    if message not in stderr:
        return stderr
    return re.sub(re.escape(message) + rb"[^\n]*\n", b"", stderr)


class Log:
    """What the observer has written of one run of `program`; `why_not` is why there is nothing, or empty."""

    __slots__ = ("_directory", "_observation", "_program", "_why_not")

    def __init__(self, directory: str, program: str, why_not: str = "") -> None:
        self._directory, self._program, self._why_not = directory, program, why_not
        self._observation: Observation | None = None

    def read(self) -> Observation:
        """What it shows; read once, as it does not change any more."""
        if self._why_not:
            return Observation([], set(), self._why_not)
        if self._observation is None:
            self._observation = observer_log.read(log_in(self._directory), self._program)
        return self._observation


class Watch:
    """Runs the tools of one call, and has them observed unless there is a reason, a clause, `why_not`."""

    def __init__(self, scratch: str, why_not: str) -> None:
        self._scratch = scratch
        self.why_not = why_not
        self._numbers = itertools.count()  # counts on in one step, whichever thread asks

    @property
    def is_blind(self) -> bool:
        """Whether nothing is observed."""
        return bool(self.why_not)

    def run(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        handle: Handle | None = None,
        on_terminal: bool = False,
    ) -> tuple[Completed, Log]:
        """Run a tool to its end; raises OSError when it cannot be started."""
        program = toolchain.resolve(argv[0], environ.get("PATH", ""))
        if self.is_blind or is_looked_for(program):
            completed = process.run(argv, environ, handle=handle, on_terminal=on_terminal)
            return completed, Log("", argv[0], self.why_not or _LOOKED_FOR)
        directory = os.path.join(self._scratch, f"watched-{next(self._numbers)}")
        armed = arm(directory, environ)
        completed = process.run(argv, armed, handle=handle, on_terminal=on_terminal)
        completed.stderr = without_loader_messages(completed.stderr, directory)
        return completed, Log(directory, program)

    def _end(self, handle: Handle) -> None:
        handle.end()
        watchdog.kill_tools(self._scratch)  # also what it has left behind

    def rehearse(
        self, argv: Sequence[str], environ: Mapping[str, str], on_terminal: bool, of_nvcc: bool = False
    ) -> tuple[Completed, Log]:
        """What a wrapper says and does up to where it starts a compiler, or nvcc; raises OSError."""
        program = toolchain.resolve(argv[0], environ.get("PATH", ""))
        if is_looked_for(program):
            return process.Completed(0, b"", b"", 0.0), Log("", argv[0], _LOOKED_FOR)
        directory = os.path.join(self._scratch, f"watched-{next(self._numbers)}")
        armed = arm(directory, environ)
        rehearse(directory, process_checks.handed_down(), of_nvcc)
        handle = process.Handle()
        # It may wait for what it is kept from doing.
        limit = threading.Timer(LONGEST_REHEARSAL, self._end, (handle,))
        limit.daemon = True
        limit.start()
        try:
            completed = process.run(argv, armed, handle=handle, on_terminal=on_terminal)
        finally:
            limit.cancel()
            limit.join()  # or it would end what runs next
        why_not = f"it took more than {LONGEST_REHEARSAL} s" if handle.is_ended else ""
        return completed, Log(directory, program, why_not)
