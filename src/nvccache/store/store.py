"""The cache directory: its layout, and how entries are stored and found.

    $NVCCACHE_DIR/
      CACHEDIR.TAG
      replay-v21/ab/<sum>        a call as typed: stat signatures of its inputs, and its result
      record-v10/ab/<key>        observed inputs of a call or stage, and its result (record.py)
      blob-v3/ab/<digest>        an output that a caller may request, uncompressed so that it can be reflinked
      blob-v3/ab/<digest>.zst    an intermediate, compressed; large files of both kinds end with a checksum
      private-v2/ab/<key>        output of a dry run, or the command that an nvcc script starts; never sent
      memo-v1/ab/<key>           what can be computed again, such as the digests of programs
      object-v11/ab/<key>        how an object was last compiled without a replay, for `nvccache explain`
      journal/                   see events.py
      journal/usage-v5           running count of bytes; see eviction.py
      tmp/                       files that are being written
      locks/                     see locks.py

Entries are immutable. They are written under a temporary name, then renamed, without a lock. A file that does
not match its checksum is removed and counts as absent. If the meaning of a bucket changes, it gets a new
number; buckets with other numbers are not read. directory.py opens and writes files. Direct hits load this
module, so it is part of the hot path.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from nvccache.files import keys, untrusted
from nvccache.store import directory
from nvccache.store.directory import Directory, ForeignDirectoryError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

BLOB, RECORD, MEMO, REPLAY, OBJECT = "blob-v3", "record-v10", "memo-v1", "replay-v21", "object-v11"
PRIVATE = "private-v2"
BUCKETS = (BLOB, RECORD, PRIVATE, MEMO, REPLAY, OBJECT)
COMPRESSED = ".zst"
# Files that only their user can read, because they contain command lines or values of environment variables.
_PRIVATE = frozenset((OBJECT, REPLAY, PRIVATE))
_SELF_CHECKED = frozenset((REPLAY,))  # buckets whose format contains a checksum (replay_layout.py)
LARGEST_RECORD = 1 << 26  # bytes; the record of a TU with 1,600 headers has 300,000
_BLOCK = 1 << 12  # bytes; compressing a smaller file saves no disk space
_COMPRESSION_LEVEL = 1
# The file of a blob of this many bytes or more ends with an XXH3 checksum, which is verified instead of the
# digest. XXH3 takes a fifth of the time of BLAKE3, but loading its module takes longer than a small digest.
SUMMED_FROM = 1 << 21
TAIL = keys.LENGTH + 34  # bytes: digest, blank, checksum, newline
REFRESHED_AFTER = 6 * 3600  # seconds after which a hit marks the results of its stages as used again
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class Store:
    """One cache directory. Its methods raise no OSError, but set `fault`."""

    def __init__(self, cache: str | Directory, is_readonly: bool = False) -> None:
        self.directory = directory.at(cache)
        self.root = self.directory.path
        self.is_readonly = is_readonly
        self.added: dict[str, int] = {}  # bytes written, by the first character of keys and digests
        # A sentence that says why something could not be stored, or was removed; the last one if several.
        self.fault_message = ""
        self.fault = ""  # the first fault of the directory: a word of outcomes.STORE_FAULTS
        self.used: dict[str, None] = {}  # paths, in the directory, of the files that this call has used
        self.is_stale = False  # whether a file in `used` was last marked at least REFRESHED_AFTER ago
        self.published: dict[tuple[str, str], None] = {}  # (bucket, key) of entries made by this call
        self._memos: dict[str, str] = {}  # the memos that this call has found or added

    def find_record(self, bucket: str, key: str) -> bytes | None:
        """The body of a record; None if there is no such record, or if it is damaged.

        The checksum in the first line covers body and key. Replay records are not checked here; their readers
        must check them.
        """
        name = self.name(bucket, key)
        try:
            content, status = self.directory.read(name)
        except OSError:
            return None
        self.is_stale |= _is_old(status)
        checksum, _, body = content.partition(b"\n")
        if bucket in _SELF_CHECKED:
            body = content
        elif checksum != _checksum(key, body):
            self.remove_damaged(bucket, key)
            return None
        self.used[name] = None
        return body

    def add_record(self, bucket: str, key: str, body: bytes, is_received: bool = False) -> None:
        """Write a record, replacing any older one."""
        if bucket == RECORD and not is_received:
            self.published[bucket, key] = None
        content = body if bucket in _SELF_CHECKED else _checksum(key, body) + b"\n" + body
        self._publish(self.name(bucket, key), content, 0o600 if bucket in _PRIVATE else 0o666)

    def find_memo(self, key: str) -> str:
        if key not in self._memos:
            raw = self.find_record(MEMO, key)
            if raw is None:
                return ""
            self._memos[key] = os.fsdecode(raw)
        return self._memos[key]

    def add_memo(self, key: str, text: str) -> None:
        self._memos[key] = text
        self.add_record(MEMO, key, os.fsencode(text))

    def has_blob(self, digest: str) -> bool:
        name = self.name(BLOB, digest)
        return self.directory.exists(name) or self.directory.exists(name + COMPRESSED)

    def read_blob(self, digest: str) -> bytes | None:
        """The content with this digest; None if the cache does not have it, or if it is damaged."""
        for suffix, read in (("", raw_blob), (COMPRESSED, compressed_blob)):
            name = self.name(BLOB, digest) + suffix
            try:
                content, status = read(self.directory, name, digest)
            except (FileNotFoundError, PermissionError):
                continue  # do not remove the file: other users may be able to read it
            except (OSError, ValueError):
                content = None
            if content is not None:
                self.is_stale |= _is_old(status)
                self.used[name] = None
                return content
            self._remove(name)
        return None

    def read_blobs(self, digests: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of several blobs, each read when it is needed."""
        return map(self.read_blob, digests)

    def read_raw_blob(self, digest: str) -> bytes | None:
        """Like `read_blob`, but only for uncompressed blobs, and without adding the file to `used`."""
        name = self.name(BLOB, digest)
        try:
            return raw_blob(self.directory, name, digest)[0]
        except OSError:
            return None

    def add_blob(self, digest: str, content: bytes, compress: bool, is_received: bool = False) -> None:
        compress = compress and len(content) > _BLOCK
        if not is_received:
            self.published[BLOB, digest] = None
        name = self.name(BLOB, digest) + (COMPRESSED if compress else "")
        if self.is_readonly:
            return
        if compress or len(content) >= SUMMED_FROM:
            content = as_stored(content, digest, compress)
        self._publish(name, content)

    def name(self, bucket: str, name: str) -> str:
        """The path of a record or blob, relative to the directory. A malformed name is replaced by zeros."""
        if len(name) not in (keys.LENGTH, keys.SUM_LENGTH) or not name.isalnum() or not name.isascii():
            name = "0" * keys.LENGTH  # a name from a malicious record must not lead out of the cache
        return f"{bucket}/{name[:2]}/{name}"

    def path(self, bucket: str, name: str) -> str:
        return f"{self.root}/{self.name(bucket, name)}"

    def remove_damaged(self, bucket: str, key: str) -> None:
        self._remove(self.name(bucket, key))

    def remove_read_records(self) -> None:
        """Remove the records that this call has read, since one of them has proved wrong."""
        for name in [name for name in self.used if name.startswith(f"{RECORD}/")]:
            self._remove(name)

    def rely_on(self, digest: str) -> None:
        """Count a blob among the files that this call has used, without reading it."""
        name = self.name(BLOB, digest)
        self.used[name] = self.used[name + COMPRESSED] = None

    def mark_used(self, names: Iterable[str]) -> None:
        """Mark files as used although this call has not read them.

        A hit reads only its record and its products. But when a source changes, the next call needs the
        results of the stages, so they must not be evicted.
        """
        if not self.is_readonly:
            for name in names:
                self.directory.mark_used(name)

    def _publish(self, name: str, content: bytes, mode: int = 0o666) -> None:
        """Write a file; an existing file of this name is replaced, because it may be damaged."""
        if self.is_readonly:
            return
        try:
            self.directory.write(name, content, mode)
        except (OSError, StoreError) as error:
            self.fault_message = str(error)
            self.fault = self.fault or fault_of(error)
            return
        self.used[name] = None
        # This sum is too high if a file was replaced, and too low if two threads add to it at the same time.
        # It is corrected when the shard is counted again.
        shard = name.split("/")[1][0]
        self.added[shard] = self.added.get(shard, 0) + len(content)

    def _remove(self, name: str) -> None:
        self.fault_message = f"removed the damaged file {self.root}/{name}"
        if not self.is_readonly:
            untrusted.remove(f"{self.root}/{name}")


def raw_blob(root: Directory, name: str, digest: str) -> tuple[bytes | None, os.stat_result]:
    """The content of an uncompressed blob, None if it is damaged, and the file's status. Raises OSError."""
    descriptor, status = root.open(name)
    try:
        content = _read_checked(descriptor, status.st_size, digest)
        if content is not None:
            root.touch(descriptor)
        return content, status
    finally:
        os.close(descriptor)


def _read_checked(descriptor: int, size: int, digest: str) -> bytes | None:
    """The content of an open blob file of `size` bytes, or None if it is damaged; raises OSError."""
    if size < SUMMED_FROM:
        content = untrusted.read_all(descriptor, size)
        return content if keys.digest_bytes(content) == digest else None
    content = untrusted.read_all(descriptor, size - TAIL)
    return content if os.read(descriptor, TAIL) == tail_of(digest, content) else None


def tail_of(digest: str, stored: bytes) -> bytes:
    """The last line of a large blob's file: its digest, which identifies the blob, and a checksum."""
    return f"{digest} {keys.sum_of(stored)}\n".encode()


def compressed_blob(root: Directory, name: str, digest: str) -> tuple[bytes | None, os.stat_result]:
    """Like `raw_blob`, for a compressed blob. Also raises ValueError if it cannot be decompressed."""
    content, status = root.read(name)
    return _decompress(content, digest), status


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > REFRESHED_AFTER


def _checksum(key: str, body: bytes) -> bytes:
    return keys.key_of("record", (("key", (key,)), ("body", (body,)))).encode()


def as_stored(content: bytes, digest: str, compress: bool) -> bytes:
    stored = content
    if compress:
        stored = _zstandard().ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)
    return stored + tail_of(digest, stored) if len(content) >= SUMMED_FROM else stored


def _zstandard() -> Any:
    """The C module of zstandard. Loading it takes 2 ms; loading the package, with `typing`, takes 9 ms."""
    name = "zstandard.backend_c"
    if name not in sys.modules:
        import importlib.util
        from importlib.machinery import PathFinder

        package = importlib.util.find_spec("zstandard")
        folders = package.submodule_search_locations if package else None
        spec = PathFinder.find_spec(name, folders) if folders else None
        if not spec or not spec.loader:  # there is no C module, as with PyPy
            import zstandard

            return zstandard
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _decompress(content: bytes, digest: str) -> bytes | None:
    """The content of a compressed blob, or None if it does not match its digest; raises ValueError."""
    zstandard = _zstandard()
    try:
        is_summed = zstandard.get_frame_parameters(content).content_size >= SUMMED_FROM
        if is_summed:
            content, tail = content[:-TAIL], content[-TAIL:]
            if tail_of(digest, content) != tail:
                return None
        text = zstandard.ZstdDecompressor().decompress(content)
        return text if is_summed or keys.digest_bytes(text) == digest else None
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(str(error)) from None


def fault_of(error: Exception) -> str:
    """The word of outcomes.STORE_FAULTS that describes an error."""
    if isinstance(error, ForeignDirectoryError):
        return "foreign_directory"
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return "disk_full"
    return "not_writable" if number in _FORBIDDEN else "other"
