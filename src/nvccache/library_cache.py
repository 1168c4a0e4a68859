"""What the dynamic loader keeps of directories (`ld.so.cache`), as far as it is asked for names of libraries.

Loaded by direct hits on a machine whose file was not looked at before.
"""

from __future__ import annotations

import os
import struct

from nvccache import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sI24x")
_ENTRY = struct.Struct("<iIIIQ")


def said_of(path: str, names: Iterable[str]) -> str:
    """The digest of what the loader's cache says of these names, or of all of it if that is unclear."""
    if not path:
        return ""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        return "unreadable"
    wanted = {os.fsencode(name) for name in names}
    builder = keys.KeyBuilder("cache of the loader")
    try:
        for name, value in _entries(content):
            if name in wanted:
                builder.add("entry", name, *value)
    except (struct.error, ValueError):
        return keys.digest_bytes(content)
    return builder.key()


def _entries(content: bytes) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """The name of a library, then where it is and for whom; raises struct.error and ValueError."""
    start = content.index(_MAGIC)  # behind a part of an older form, if there is one
    _, count = _HEADER.unpack_from(content, start)
    table = content[start + _HEADER.size :][: count * _ENTRY.size]
    for kind, name, path, system, hardware in _ENTRY.iter_unpack(table):
        where = [content[start + at : content.index(b"\0", start + at)] for at in (name, path)]
        yield where[0], (where[1], b"%d %d %d" % (kind, system, hardware))
