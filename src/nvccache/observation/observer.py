"""Having the tools of a compile observed: the library that is loaded into them, and what must be so for that.

Each tool that is run has a directory of its own, in which the library lies as a link and writes its log; see
observer/log.c. So one variable is all that the tools see. What a log says is read by observer_log.py.
"""

from __future__ import annotations

import os
import re
import struct

from nvccache.files import elf, keys, signatures
from nvccache.machine import process
from nvccache.observation.observer_log import LINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.store.store import Store

VARIABLE = "LD_PRELOAD"
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "native", "observer.so")
_LOG, _REHEARSAL = "log", "rehearsal"  # as in observer/rehearsal.c, and what the latter holds
_SEPARATORS = re.compile(r"[\s:$]")  # the loader splits at the first two, and fills in after the third
_TRIED = ("/bin/sh", "-c", ":")  # the shell that nvcc itself needs
_WORKS, _FAILS = "works", "fails"
# To set it anew, or to take it away, tells a script nothing.
_ASKS_FOR_US = re.compile(rb"(?<!unset )\bLD_PRELOAD\b(?!=)|/proc/[^/\s]+/environ")
_LARGEST_SCRIPT = 1 << 20
_MESSAGE = b"ERROR: ld.so: object '%s' from LD_PRELOAD cannot be preloaded"


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

    That is told by devices and inodes. Raises OSError.
    """
    with open(os.path.join(watched_directory, _REHEARSAL), "xb") as stream:
        stream.write(struct.pack("=Q", 2 if of_nvcc else 1))
        for device, inode in handed_down:
            stream.write(struct.pack("=QQ", device, inode))


def log_in(watched_directory: str) -> str:
    return os.path.join(watched_directory, _LOG)


def without_loader_messages(stderr: bytes, watched_directory: str) -> bytes:
    """What a tool said, without what the loaders of its 32-bit programs say of our library."""
    message = _MESSAGE % os.fsencode(os.path.join(watched_directory, LINK))
    if message not in stderr:
        return stderr
    return re.sub(re.escape(message) + rb"[^\n]*\n", b"", stderr)
