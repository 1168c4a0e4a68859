"""Whether what lies in a cache is what was put there: each record and blob against its checksum.

Only buckets of this version are looked at. A compile checks the same of whatever it uses, and does without
what is damaged; this looks at all of it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

from nvccache.files import keys
from nvccache.records import replay_layout
from nvccache.store import layout, store
from nvccache.store.directory import StrangeFileError
from nvccache.store.store import COMPRESSED, Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[int, int], None]

_GOOD, _DAMAGED, _UNREADABLE, _GONE = "good", "damaged", "unreadable", "gone"


@dataclass
class Checked:
    """How many files were looked at, and which of them are not what they should be."""

    files: int = 0
    bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    removed: int = 0
    unreadable: int = 0  # by this user
    of_other_versions: int = 0


def check(cache: Store, is_repairing: bool, tell: Tell) -> Checked:
    """Look at every file; `cache` is one of looking.py. Raises OSError for the directory itself."""
    checked = Checked()
    names = [(path, size) for path, size, _ in layout.entries(cache.directory)]
    for done, (path, size) in enumerate(names, 1):
        bucket = path.partition("/")[0]
        if bucket not in store.BUCKETS:
            checked.of_other_versions += 1
            continue
        state = _state_of(cache, path)
        if state == _GONE:
            continue  # a build or `clean` goes on meanwhile
        checked.files, checked.bytes = checked.files + 1, checked.bytes + size
        checked.unreadable += state == _UNREADABLE
        if state == _DAMAGED:
            checked.damaged.append(path)
            if is_repairing:
                with contextlib.suppress(OSError):
                    cache.directory.unlink(path)
                    checked.removed += 1
        if done % 20 == 0 or done == len(names):
            tell(done, len(names))
    return checked


def _state_of(cache: Store, path: str) -> str:
    bucket, _, name = path.split("/")
    try:
        if path.removesuffix(COMPRESSED) != cache.name(bucket, name.removesuffix(COMPRESSED)):
            return _DAMAGED  # in a folder where nobody looks for it
        if bucket == store.BLOB:
            return _GOOD if _is_blob(cache, path, name) else _DAMAGED
        if name.endswith(COMPRESSED):
            return _DAMAGED
        os.close(cache.directory.open(path)[0])
        record = cache.find_record(bucket, name)
        if record is not None and bucket == store.REPLAY:
            replay_layout.blobs_in(record)
        return _GOOD if record is not None else _DAMAGED
    except FileNotFoundError:
        return _GONE
    except PermissionError:
        return _UNREADABLE
    except (StrangeFileError, ValueError):
        return _DAMAGED
    except OSError:
        return _DAMAGED  # the disk does not give it back


def _is_blob(cache: Store, path: str, name: str) -> bool:
    """Whether it is as a compile wants it, and of its digest as well; raises OSError and ValueError."""
    digest = name.removesuffix(COMPRESSED)
    read = store.compressed_blob if name.endswith(COMPRESSED) else store.raw_blob
    content, _ = read(cache.directory, path, digest)
    return content is not None and keys.digest_bytes(content) == digest
