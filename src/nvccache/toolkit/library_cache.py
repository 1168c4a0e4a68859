"""What the dynamic loader keeps of directories (`ld.so.cache`), as far as it is asked for names of libraries.

Loaded by direct hits on a machine whose file was not looked at before.
"""

from __future__ import annotations

import os
import struct

from nvccache.files import keys, untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = "ld.so.cache"  # glibc has it built in, behind a directory that is chosen when it is built
_MOST_BYTES = 64 << 20  # a hundred times that of a large system
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sI24x")
_ENTRY = struct.Struct("<iIIIQ")


def said_of(path: str, names: Iterable[str]) -> str:
    """The digest of what the loader's cache says of these names, or of all of it if that is unclear.

    Empty if this cannot be a loader's cache: the path may come from a record that somebody made up.
    """
    if os.path.basename(path) != _NAME:
        return ""
    try:
        descriptor = untrusted.open_named(path, _MOST_BYTES)
        try:
            content = untrusted.read_all(descriptor, _MOST_BYTES)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, PermissionError):
        return "unreadable"  # for the loader as well
    except (OSError, ValueError):
        return ""
    wanted = {os.fsencode(name) for name in names}
    try:
        found = [("entry", (name, *value)) for name, value in _entries(content) if name in wanted]
    except (struct.error, ValueError):
        return keys.digest_bytes(content)
    return keys.key_of("cache of the loader", found)


def _entries(content: bytes) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """The name of a library, then where it is and for whom; raises struct.error and ValueError."""
    start = content.index(_MAGIC)  # behind a part of an older form, if there is one
    _, count = _HEADER.unpack_from(content, start)
    table = content[start + _HEADER.size :][: count * _ENTRY.size]
    for kind, name, path, system, hardware in _ENTRY.iter_unpack(table):
        where = [content[start + at : content.index(b"\0", start + at)] for at in (name, path)]
        yield where[0], (where[1], b"%d %d %d" % (kind, system, hardware))
