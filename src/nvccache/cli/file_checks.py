"""`nvccache doctor --check-files`: checks every record and blob of this version against its sums.

A compile checks only what it uses, and makes what is damaged again. Nothing is changed here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from nvccache.cli import settings as our_settings
from nvccache.cli.output import BAD, GOOD, ODD, Finding, bar
from nvccache.cli.units import format_count, format_size
from nvccache.config import Config
from nvccache.files import keys
from nvccache.records import replay_layout
from nvccache.store import eviction, layout, store
from nvccache.store.directory import NoCacheError
from nvccache.store.store import COMPRESSED, Store

_MOST_SHOWN = 20


def of_files(settings: Config) -> Iterator[Finding]:
    """How many files are undamaged, which are damaged, and how many cannot be read."""
    cache = our_settings.untouched(settings.dir)
    files = size = unreadable = 0
    damaged = []
    with (
        contextlib.suppress(NoCacheError),
        eviction.as_store_errors(cache.directory),
        bar("checking files") as on_progress,
    ):
        every = layout.entries(cache.directory)
        entries = [each for each in every if each.path.partition("/")[0] in store.BUCKETS]
        for done, (path, bytes_of_file) in enumerate([(file.path, file.size) for file in entries], 1):
            with contextlib.suppress(FileNotFoundError):  # a build or `clean` removed it
                try:
                    if not _is_good(cache, path):
                        damaged.append(path)
                except PermissionError:
                    unreadable += 1
                files, size = files + 1, size + bytes_of_file
            if done % 20 == 0 or done == len(entries):
                on_progress(done, len(entries))
    if damaged:
        more = [f"and {len(damaged) - _MOST_SHOWN} more"] * (len(damaged) > _MOST_SHOWN)
        text = f"{len(damaged)} of {format_count(files, 'file')} damaged: they are made again when needed"
        yield Finding(BAD, "files", text, (*damaged[:_MOST_SHOWN], *more))
    else:
        yield Finding(GOOD, "files", f"{format_count(files, 'file')} without damage, {format_size(size)}")
    if unreadable:
        yield Finding(ODD, "files", f"you cannot read {format_count(unreadable, 'file')} of other users")


def _is_good(cache: Store, path: str) -> bool:
    """Whether a compile would accept a file, and its digest is right; raises FileNotFoundError."""
    bucket, _, name = path.split("/")
    digest = name.removesuffix(COMPRESSED)
    if path.removesuffix(COMPRESSED) != cache.name(bucket, digest):
        return False  # in a directory where it is never looked up
    try:
        if bucket == store.BLOB:
            read = store.compressed_blob if name.endswith(COMPRESSED) else store.raw_blob
            content, _ = read(cache.directory, path, digest)
            return content is not None and keys.digest_bytes(content) == digest
        os.close(cache.directory.open(path)[0])
        record = cache.find_record(bucket, name)
        if record is not None and bucket == store.REPLAY:
            replay_layout.blobs_in(record)
        return record is not None
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError, IndexError):  # also after a read error of the disk
        return False
