"""The cache directory: what is kept, where, and how it is read.

    $NVCCACHE_DIR/
      CACHEDIR.TAG
      replay-v10/ab/<key>        a call as it was typed: stat signatures of what it read, what it gave
      record-v1/ab/<key>         what a call or a stage was observed to read, and what it gave (record.py)
      blob-v3/ab/<digest>        an output the user may get, as it is, so that it can be reflinked
      blob-v3/ab/<digest>.zst    an intermediate, compressed; both end with their sum if they are large
      memo-v1/ab/<key>           what would be found out again, such as the digests of files of a directory
      object-v5/ab/<key>         the last call that made an object, or tried to: for `nvccache explain`
      journal/                   see events.py
      journal/usage-v4           bytes, as counted so far; see layout.py
      tmp/                       files on their way to their names, and nothing else
      locks/<shard>.lock         for who adds or removes (locks.py); locks/running/ see inflight.py

Part of the hot path; directory.py opens and writes the files. Everything but `usage-v4` is immutable:
written under a temporary name, then renamed. Readers take no lock; what has vanished or does not match its
checksum is removed and counts as absent. A bucket whose meaning changes gets a new number; those of other
versions are not read.
"""

from __future__ import annotations

import errno
import os
import time

from nvccache.files import keys, untrusted
from nvccache.store import directory
from nvccache.store.cachedir_tag import ForeignDirectoryError
from nvccache.store.directory import Directory, LockTimeoutError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BLOB, RECORD, MEMO, REPLAY, OBJECT = "blob-v3", "record-v1", "memo-v1", "replay-v10", "object-v5"
BUCKETS = (BLOB, RECORD, MEMO, REPLAY, OBJECT)
COMPRESSED = ".zst"
# They tell how a user compiles, or hold values of variables, and are read by that user alone.
_SECRET = frozenset((OBJECT, REPLAY))
_SUMMED_BY_THEMSELVES = frozenset((REPLAY,))  # the launcher reads them: records/replay_layout.py
LARGEST_RECORD = 1 << 26  # bytes; that of a unit with 1 600 headers has 300 000
_BLOCK = 1 << 12  # bytes, below which a file takes no less room for being compressed
_LARGEST_BLOB = 1 << 32
_LARGEST_COMPRESSED = 1 << 28
_LARGEST_TEXT = 1 << 30  # bytes of an intermediate; a frame of 100 KB can claim gigabytes
_COMPRESSION_LEVEL = 1
# Bytes of an output or an intermediate from which its file ends with a sum, which is checked in place of the
# digest; XXH3 takes a fifth of the time of BLAKE3, but has to be loaded.
SUMMED_FROM = 1 << 21
TAIL = keys.LENGTH + 34  # bytes: the digest, a blank, the sum and a newline
REFRESHED_AFTER = 6 * 3600  # seconds for which what a hit rests on is not marked as used again
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class Store:
    """One cache directory. Nothing here raises OSError for what is only a cache's trouble."""

    __slots__ = (
        "_has_stopped",
        "_memos",
        "added",
        "directory",
        "fault",
        "is_readonly",
        "is_stale",
        "published",
        "root",
        "trouble",
        "used",
    )

    def __init__(self, place: str | Directory, is_readonly: bool = False) -> None:
        self.directory = directory.at(place)
        self.root = self.directory.path
        self.is_readonly = is_readonly
        self.added: dict[str, int] = {}  # bytes by which the folders of a name have grown
        self.trouble = ""  # the last reason why something could not be stored, a sentence
        self.fault = ""  # the first such reason that is the directory's, a word of outcomes.STORE_FAULTS
        self.used: dict[str, None] = {}  # the files that this call rests on, by their paths in the directory
        self.is_stale = False  # whether one of them had not been marked as used for long
        self.published: dict[tuple[str, str], None] = {}  # (bucket, key) of what was made and put here
        self._has_stopped = False
        self._memos: dict[str, str] = {}  # those that were found or added

    def find_record(self, bucket: str, key: str) -> bytes | None:
        """A record's body, if its first line, the checksum of the body under its key, is right.

        Who reads a replay record has to check it.
        """
        name = self.name(bucket, key)
        try:
            content, status = self.directory.read(name, LARGEST_RECORD)
        except OSError:
            return None
        self.is_stale |= _is_old(status)
        checksum, _, body = content.partition(b"\n")
        if bucket in _SUMMED_BY_THEMSELVES:
            body = content
        elif checksum != _checksum(key, body):
            self.remove_damaged(bucket, key)
            return None
        self.used[name] = None
        return body

    def add_record(
        self,
        bucket: str,
        key: str,
        body: bytes | Callable[[], bytes],
        lock: bool = True,
        is_received: bool = False,
    ) -> None:
        """Put a record in the place of an older one. Nothing depends on what is put there without a lock.

        A body that depends on the older one is made while nobody else adds to its shard.
        """
        if bucket == RECORD and not is_received:
            self.published[bucket, key] = None

        def content() -> bytes:
            made = body() if callable(body) else body
            return made if bucket in _SUMMED_BY_THEMSELVES else _checksum(key, made) + b"\n" + made

        mode = 0o600 if bucket in _SECRET else 0o666
        shard = key[0] if lock else ""
        self._publish(self.name(bucket, key), content, shard, LARGEST_RECORD, replace=True, mode=mode)

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
        """The content with this digest, checked, or None."""
        for suffix, read in (("", raw_blob), (COMPRESSED, compressed_blob)):
            name = self.name(BLOB, digest) + suffix
            try:
                content, status = read(self.directory, name, digest)
            except (FileNotFoundError, PermissionError):
                continue  # it may be of use to another user
            except (OSError, ValueError):
                content = None
            if content is not None:
                self.is_stale |= _is_old(status)
                self.used[name] = None
                return content
            self._remove(name)
        return None

    def read_blobs(self, digests: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of several, as each is asked for."""
        return map(self.read_blob, digests)

    def read_raw_blob(self, digest: str) -> bytes | None:
        """The same of what this cache has uncompressed, for a record that says so."""
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
        if self.is_readonly or self._has_stopped:
            return
        if (compress or len(content) >= SUMMED_FROM) and not self.directory.exists(name):
            content = as_stored(content, digest, compress)
        most = _LARGEST_COMPRESSED if compress else _LARGEST_BLOB
        self._publish(name, lambda: content, digest[0], most)

    def name(self, bucket: str, name: str) -> str:
        """Where a record or a blob lies in the directory; a name that is none leads nowhere."""
        if len(name) != keys.LENGTH or not name.isalnum() or not name.isascii():
            name = "0" * keys.LENGTH  # a record that was tampered with must not lead out of the cache
        return f"{bucket}/{name[:2]}/{name}"

    def path(self, bucket: str, name: str) -> str:
        return f"{self.root}/{self.name(bucket, name)}"

    def remove_damaged(self, bucket: str, key: str) -> None:
        self._remove(self.name(bucket, key))

    def forget_read_records(self) -> None:
        """Remove the records that this call has read, since one of them was seen to be wrong."""
        for name in [name for name in self.used if name.startswith(f"{RECORD}/")]:
            self._remove(name)

    def rely_on(self, digest: str) -> None:
        """Count a blob among what this call rests on, though it is not read."""
        name = self.name(BLOB, digest)
        self.used[name] = self.used[name + COMPRESSED] = None

    def mark_used(self, names: Iterable[str]) -> None:
        """Mark files as used just now that are relied upon without being read.

        A hit reads its record and its products; what these rest on is asked only when a file has changed.
        """
        if self.is_readonly:
            return
        for name in names:
            bucket, _, rest = name.partition("/")
            known = self.name(bucket, rest[3:].removesuffix(COMPRESSED))
            # Anything else was written there by somebody hostile.
            if bucket in BUCKETS and name.removesuffix(COMPRESSED) == known:
                self.directory.mark_used(name)

    def _publish(
        self,
        name: str,
        content: Callable[[], bytes],
        shard: str,
        most: int,
        replace: bool = False,
        mode: int = 0o666,
    ) -> None:
        """Write a file, unless it is there and is to stay, or has more bytes than would be read again.

        `shard` is empty for a file that no entry depends on: renaming alone is enough for those. What depends
        on the file that is there is made under the lock.
        """
        if self.is_readonly or self._has_stopped:
            return
        try:
            if not shard:
                self._write(name, content(), most, mode)
            else:
                from nvccache.store import locks

                with locks.to_publish(self.directory, shard):
                    if replace or not self.directory.exists(name):
                        self._write(name, content(), most, mode)
                    else:
                        self.directory.mark_used(name)
            self.used[name] = None
        except (OSError, StoreError) as error:
            self.trouble = str(error)
            self.fault = self.fault or fault_of(error)
            self._has_stopped = isinstance(error, LockTimeoutError)

    def _write(self, name: str, content: bytes, most: int, mode: int) -> None:
        if len(content) > most:
            return
        try:
            replaced = self.directory.status(name).st_size
        except FileNotFoundError:
            replaced = 0
        self.directory.write(name, content, mode)
        self._count(name, len(content) - replaced)

    def _remove(self, name: str) -> None:
        self.trouble = f"removed damaged {self.root}/{name}"
        if not self.is_readonly:
            try:
                size = self.directory.status(name).st_size
                self.directory.unlink(name)
            except OSError:
                return
            self._count(name, -size)

    def _count(self, name: str, grown: int) -> None:
        shard = name.split("/")[1]
        self.added[shard] = self.added.get(shard, 0) + grown


def raw_blob(root: Directory, name: str, digest: str) -> tuple[bytes | None, os.stat_result]:
    """A blob with this digest, else None, and its status. Raises OSError and ValueError."""
    descriptor, status = root.open(name)
    try:
        content = _whole(descriptor, status.st_size, digest)
        if content is not None:
            root.count_as_used(descriptor, status)
        return content, status
    finally:
        os.close(descriptor)


def _whole(descriptor: int, size: int, digest: str) -> bytes | None:
    """The content of an open file of `size` bytes, if its digest, or its sum, is right; raises OSError."""
    if size < SUMMED_FROM:
        content = untrusted.read_all(descriptor, size)
        return content if keys.digest_bytes(content) == digest else None
    length = size - TAIL
    tail = os.pread(descriptor, TAIL, max(0, length))
    # Looked at first: nobody's gigabytes of nothing are taken into memory.
    if length > _LARGEST_BLOB or not tail.startswith(digest.encode()):
        return None
    content = untrusted.read_all(descriptor, length)
    return content if tail_of(digest, content) == tail else None


def without_tail(stored: bytes, digest: str) -> bytes | None:
    """What stands before the tail of a file that has one, if its sum is right."""
    content, tail = stored[:-TAIL], stored[-TAIL:]
    return content if tail_of(digest, content) == tail else None


def tail_of(digest: str, stored: bytes) -> bytes:
    """What a large blob ends with: whose file it is, and what damage would change."""
    return f"{digest} {keys.sum_of(stored)}\n".encode()


def compressed_blob(root: Directory, name: str, digest: str) -> tuple[bytes | None, os.stat_result]:
    """The same for one that is compressed."""
    content, status = root.read(name, _LARGEST_COMPRESSED)
    return decompress(content, digest), status


def _is_old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > REFRESHED_AFTER


def _checksum(key: str, body: bytes) -> bytes:
    return keys.key_of("record", (("key", (key,)), ("body", (body,)))).encode()


def as_stored(content: bytes, digest: str, compress: bool) -> bytes:
    """What the file of a blob holds."""
    stored = content
    if compress:
        import zstandard

        stored = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)
    return stored + tail_of(digest, stored) if len(content) >= SUMMED_FROM else stored


def decompress(content: bytes, digest: str) -> bytes | None:
    """What was compressed, if it has this digest; raises ValueError for what is no compressed blob."""
    import zstandard

    try:
        size = zstandard.get_frame_parameters(content).content_size
        if size > _LARGEST_TEXT:  # so is a size that is not known
            return None
        is_summed = size >= SUMMED_FROM
        frame = without_tail(content, digest) if is_summed else content
        if frame is None:
            return None
        text = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size)
        return text if is_summed or keys.digest_bytes(text) == digest else None
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(str(error)) from None


def fault_of(error: Exception) -> str:
    """The word of outcomes.STORE_FAULTS for what kept something from being stored."""
    if isinstance(error, LockTimeoutError):
        return "lock_timeout"
    if isinstance(error, ForeignDirectoryError):
        return "foreign_directory"
    number = error.errno if isinstance(error, OSError) else None
    if number in _FULL:
        return "disk_full"
    return "not_writable" if number in _FORBIDDEN else "other"
