"""The checks of `nvccache doctor` for the cache directory: can a compile store, lock and count there?

The checks write and remove a file, but write nothing into a directory that is not a cache of nvccache. With
`--check-files`, they compare every record and blob with its checksum. A compile checks only the files that it
uses, and replaces damaged ones. docs/how-to/shared-cache.md says how users share a cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from nvccache.cli import settings as our_settings
from nvccache.cli.output import BAD, GOOD, ODD, Finding, format_count, format_size
from nvccache.config import Config
from nvccache.files import keys
from nvccache.records import replay_layout
from nvccache.store import eviction, store
from nvccache.store.directory import Directory, NoCacheError
from nvccache.store.store import COMPRESSED, Store

_MOST_NAMED = 20
_NAME_ANOTHER = "set `NVCCACHE_DIR` to an empty directory, or one that does not exist yet"
_MAKE_ROOM = "make room on the cache's file system, or set a smaller `max_size` and run `nvccache clean`"


def check_cache(settings: Config) -> Iterator[Finding]:
    """Findings about the cache directory and each part of it."""
    root = settings.dir
    for name in ("disable", "readonly", "recache"):
        if getattr(settings, name):
            yield Finding(ODD, "settings", f"the setting `{name}` is on ({settings.origins[name]})")
    if not root:
        yield Finding(
            BAD, "cache", f"no cache: {our_settings.NO_CACHE}", ("compiles run nvcc without a cache",)
        )
        return
    if Directory(root).problem() == "foreign_directory":
        text = f"`{root}` is not used, because it contains files but no cache of nvccache"
        yield Finding(BAD, "cache", text, (f"to fix it: {_NAME_ANOTHER}",))
        return
    if settings.readonly:
        yield Finding(GOOD, "cache", f"the cache `{root}` is read but not changed, and calls are not counted")
        return
    part = root
    try:
        top = Directory(root)
        top.prepare()
        for name in (".", "tmp", "journal", "locks", *store.BUCKETS):
            part = os.path.normpath(f"{root}/{name}")
            _check_part(top, name, part)
        part, probe = root, f"tmp/{os.urandom(16).hex()}"  # `nvccache clean` removes files with such names
        top.write(probe, b"probe")
        top.unlink(probe)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = _MAKE_ROOM if is_full else f"see docs/how-to/shared-cache.md, or {_NAME_ANOTHER}"
        text = f"nothing can be stored in `{part}`{_owner_of(part)}: {error.strerror or error}"
        yield Finding(BAD, "cache", text, (f"to fix it: {fix}",))
        return
    limit = f"at most {format_size(settings.max_size)}" if settings.max_size else "of any size"
    yield Finding(GOOD, "cache", f"`{root}`, {limit}")
    if os.stat(root).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"other users can write to the cache{_owner_of(root)}, so they could change your programs"
        yield Finding(ODD, "trust", text)


def _check_part(top: Directory, name: str, path: str) -> None:
    """Raise OSError if a part of the cache exists but cannot be written to."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(top.status(name).st_mode):
            raise OSError(errno.ENOTDIR, "it is a symbolic link, or not a directory")
        if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _owner_of(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f" (owner {status.st_uid}, group {status.st_gid}, mode {stat.S_IMODE(status.st_mode):03o})"


def check_files(settings: Config) -> Iterator[Finding]:
    """How many of the files that this user can read are undamaged, and which are damaged."""
    cache = our_settings.open_untouched(settings.dir)
    files = size = 0
    damaged = []
    with contextlib.suppress(NoCacheError), eviction.as_store_errors(cache.directory):
        for file in eviction.entries(cache.directory):
            if file.path.partition("/")[0] not in store.BUCKETS:
                continue
            with contextlib.suppress(
                FileNotFoundError, PermissionError
            ):  # the file was removed, or belongs to another user
                if not _is_good(cache, file.path):
                    damaged.append(file.path)
                files, size = files + 1, size + file.size
    if damaged:
        text = f"{len(damaged)} of {format_count(files, 'file')} damaged; the results will be compiled again"
        yield Finding(BAD, "files", text, tuple(damaged[:_MOST_NAMED]))
    else:
        yield Finding(GOOD, "files", f"{format_count(files, 'file')}, {format_size(size)}, none damaged")


def _is_good(cache: Store, path: str) -> bool:
    """Whether a file is undamaged and has its right name; raises FileNotFoundError and PermissionError."""
    bucket, _, name = path.split("/")
    digest = name.removesuffix(COMPRESSED)
    if path.removesuffix(COMPRESSED) != cache.name(bucket, digest):
        return False  # no compile looks for the file in this directory
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
    except (OSError, ValueError, IndexError):  # OSError if the disk cannot read the file
        return False
