"""What a record of a call says of the machine beside its files, and whether that is still so.

Behind the hot path: most that a replay asks it asks only when the machine has been started anew since. A
question is a topic and a subject; the answer is a digest.
"""

from __future__ import annotations

import os
import stat
import time

from nvccache.files import keys, signatures
from nvccache.records.input_records import LIBRARIES
from nvccache.toolkit import processor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.store.store import Store

HOST = "host"  # its name, kernel and number of processors; the subject is empty
NATIVE = "native"  # all of the processor; the subject is empty
CALLER = (
    "caller"  # what this process was given: users, limits, processors, standard input; the subject is empty
)
DIRECTORY = "directory"  # in which it is compiled, by its names; the subject is empty
CHECKOUT = "checkout"  # that it is compiled somewhere in the directory of this path
FEATURES = "features"  # the class of the processor that the loader of this path shows
# The last is input_records.LIBRARIES: what the loader keeps of directories (its path and the names asked for,
# with `:` between them) says of these names.
# Lines of /proc/self/status that tell of the caller.
STATUS_OF_CALLER = frozenset(("Umask", "Uid", "Gid", "Groups", "CapEff", "Cpus_allowed"))


def answer(topic: str, subject: str, environ: Mapping[str, str], cache: Store) -> str:
    """What is so now; empty for a question that is not understood, or not answered.

    The subject may come from a record that somebody made up: it decides neither what is run nor, beyond the
    caches of loaders and what may be a loader, what is read.
    """
    if topic == NATIVE:
        said = processor.describe()
    elif topic == HOST:
        said = " ".join([*os.uname(), str(os.cpu_count())])
    elif topic == CALLER:
        said = _said_of_caller()
    elif topic == DIRECTORY:
        said = f"{os.getcwd()}\0{environ.get('PWD', '')}"
    elif topic == CHECKOUT:
        said = "inside" if f"{os.getcwd()}/".startswith(f"{subject}/") else ""
    elif topic == FEATURES:
        said = processor.features(subject, environ, cache)
    elif topic == LIBRARIES:
        return _said_of_libraries(subject, cache)
    else:
        return ""
    return keys.digest_bytes(said.encode(errors="surrogateescape")) if said else ""


def _said_of_caller() -> str:
    """What the kernel says of this process and gives to each that it starts; empty if it does not say it.

    The launcher puts the same together (launcher/process.c).
    """
    try:
        status, limits = (_text_of_kernel(f"/proc/self/{name}") for name in ("status", "limits"))
    except OSError:
        return ""
    try:
        typed = os.fstat(0)
    except OSError:  # it is closed
        typed = None
    kept = [line for line in status.split("\n") if line.partition(":")[0] in STATUS_OF_CALLER]
    stream = f"{stat.S_IFMT(typed.st_mode)} {typed.st_rdev}" if typed else ""
    return "\0".join([*kept, limits, str(os.getpriority(os.PRIO_PROCESS, 0)), stream])


def _text_of_kernel(path: str) -> str:
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "surrogateescape")


def _said_of_libraries(subject: str, cache: Store) -> str:
    """Read only where the file is another one than the last time."""
    path, *names = subject.split(":")
    shown = signatures.of(path)
    file = (path, signatures.to_text([shown] if shown else []))
    memo_key = keys.key_of("said of libraries", [("file", file), ("names", tuple(names))])
    said = cache.find_memo(memo_key)
    if not said:
        from nvccache.toolkit import ld_so

        said = ld_so.said_of(path, names)
        if said and shown and signatures.is_settled(shown, time.time_ns()) and signatures.of(path) == shown:
            cache.add_memo(memo_key, said)
    return said
