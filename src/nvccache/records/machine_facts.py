"""What a record of a call says of the machine beside its files, and whether that is still so.

Behind the hot path: a replay asks only when the machine has been started anew since. A question is a topic
and a subject; the answer is a digest.
"""

from __future__ import annotations

import os
import time

from nvccache.files import keys, signatures
from nvccache.records.input_record import LIBRARIES
from nvccache.toolkit import processor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.store.store import Store

HOST = "host"  # its name, kernel and number of processors; the subject is empty
NATIVE = "native"  # all of the processor; the subject is empty
DIRECTORY = "directory"  # in which it is compiled, by its names; the subject is empty
FEATURES = "features"  # the class of the processor that the loader of this path shows
# The last is reading.LIBRARIES: what the loader keeps of directories (its path and the names asked for,
# with `:` between them) says of these names.


def answer(topic: str, subject: str, environ: Mapping[str, str], cache: Store) -> str:
    """What is so now; empty for a question that is not understood, or not answered.

    The subject may come from a record that somebody made up: it decides neither what is run nor, beyond the
    caches of loaders and what may be a loader, what is read.
    """
    if topic == NATIVE:
        said = processor.describe()
    elif topic == HOST:
        said = " ".join([*os.uname(), str(os.cpu_count())])
    elif topic == DIRECTORY:
        said = f"{os.getcwd()}\0{environ.get('PWD', '')}"
    elif topic == FEATURES:
        said = processor.features(subject, environ, cache)
    elif topic == LIBRARIES:
        return _said_of_libraries(subject, cache)
    else:
        return ""
    return keys.digest_bytes(said.encode(errors="surrogateescape")) if said else ""


def _said_of_libraries(subject: str, cache: Store) -> str:
    """Read only where the file is another one than the last time."""
    path, *names = subject.split(":")
    shown = signatures.of(path)
    builder = keys.KeyBuilder("said of libraries")
    builder.add("file", path, signatures.to_text([shown] if shown else []))
    builder.add("names", *names)
    memo_key = builder.key()
    said = cache.find_memo(memo_key)
    if not said:
        from nvccache.toolkit import library_cache

        said = library_cache.said_of(path, names)
        if said and shown and signatures.is_settled(shown, time.time_ns()) and signatures.of(path) == shown:
            cache.add_memo(memo_key, said)
    return said
