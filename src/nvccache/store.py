"""The cache directory: what is kept, where, and how it is read.

    $NVCCACHE_DIR/
      CACHEDIR.TAG
      replay-v2/ab/<key>         a call as it was typed: stat signatures of what it read, what it gave
      manifest-v2/ab/<key>       the readings of a command, newest first
      reading-v2/ab/<key>        what a command was seen to read, with digests; for a call also its answer
      stage-v4/ab/<key>          what a stage produced: digests of its outputs, its diagnostics, its cost
      blob-v1/ab/<digest>        an output the user may get, as it is, so that it can be reflinked
      blob-v1/ab/<digest>.zst    an intermediate, compressed
      tool-v1/ab/<key>           memo: stat signature of an executable -> digest of its content
      survey-v1/ab/<key>         memo: stat signatures of headers in a directory -> what was found in them
      object-v1/ab/<key>         the last call that made an object, or tried to: for `nvccache explain`
      journal/                   see journal.py
      usage-v1                   bytes and files, as counted so far
      tmp/  locks/

Part of the hot path; how files get here is told in publishing.py. Everything but `usage-v1` is
immutable: written under a temporary name, then renamed. Readers take no lock; what has vanished or does
not match its checksum is removed and counts as absent. A bucket whose meaning changes gets a new
number; buckets of other versions are never touched.
"""

from __future__ import annotations

import os

from nvccache import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BLOB, STAGE, MANIFEST, TOOL = "blob-v1", "stage-v4", "manifest-v2", "tool-v1"
REPLAY, READING, OBJECT, SURVEY = "replay-v2", "reading-v2", "object-v1", "survey-v1"
BUCKETS = (BLOB, STAGE, MANIFEST, TOOL, REPLAY, READING, OBJECT, SURVEY)
_KEY_LENGTH = 32
_WORTH_CLONING = 1 << 20  # bytes; a smaller product is written faster than the means to clone it load


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


class Store:
    """One cache directory. Nothing here raises OSError for what is only a cache's trouble."""

    __slots__ = ("_memos", "added_bytes", "is_readonly", "root", "trouble")

    def __init__(self, root: str, is_readonly: bool = False) -> None:
        self.root = root
        self.is_readonly = is_readonly
        self.added_bytes = 0
        self.trouble = ""  # the last reason why something could not be stored
        self._memos: dict[str, str] = {}  # those that were found

    def find_record(self, bucket: str, key: str) -> bytes | None:
        """A record's body, if its first line, the checksum of the body under its key, is right."""
        path = self.path(bucket, key)
        try:
            content = read_file(path)
        except OSError:
            return None
        checksum, _, body = content.partition(b"\n")
        if checksum != _checksum(key, body):
            self.remove_damaged(bucket, key)
            return None
        _touch(path)
        return body

    def add_record(self, bucket: str, key: str, body: bytes, lock: bool = True) -> None:
        """Put a record in the place of an older one. Nothing depends on what is put there without a lock."""
        content = _checksum(key, body) + b"\n" + body
        self._publish(self.path(bucket, key), content, key[0] if lock else "", replace=True)

    def find_memo(self, key: str) -> str:
        if key not in self._memos:
            raw = self.find_record(TOOL, key)
            if raw is None:
                return ""
            self._memos[key] = os.fsdecode(raw)
        return self._memos[key]

    def add_memo(self, key: str, text: str) -> None:
        self.add_record(TOOL, key, os.fsencode(text))

    def has_blob(self, digest: str) -> bool:
        path = self.path(BLOB, digest)
        return os.path.exists(path) or os.path.exists(path + ".zst")

    def read_blob(self, digest: str) -> bytes | None:
        """The content with this digest, checked, or None."""
        for suffix in ("", ".zst"):
            path = self.path(BLOB, digest) + suffix
            try:
                content = read_file(path)
                content = _decompress(content) if suffix else content
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                content = b""
            if keys.digest_bytes(content) == digest:
                _touch(path)
                return content
            self._remove(path)
        return None

    def add_blob(self, digest: str, content: bytes, compress: bool) -> None:
        path = self.path(BLOB, digest) + (".zst" if compress else "")
        if compress and not os.path.exists(path) and not self.is_readonly:
            content = _compress(content)
        self._publish(path, content, digest[0])

    def path(self, bucket: str, name: str) -> str:
        """Where a record or a blob lies; a name that is none leads nowhere."""
        if len(name) != _KEY_LENGTH or not name.isalnum():
            name = "0" * _KEY_LENGTH  # a record that was tampered with must not lead out of the cache
        return f"{self.root}/{bucket}/{name[:2]}/{name}"

    def remove_damaged(self, bucket: str, key: str) -> None:
        self._remove(self.path(bucket, key))

    def _publish(self, path: str, content: bytes, shard: str, replace: bool = False) -> None:
        if self.is_readonly:
            return
        from nvccache import publishing

        try:
            if publishing.publish(self.root, path, content, shard, replace):
                self.added_bytes += len(content)
            else:
                _touch(path)
        except (OSError, StoreError) as error:
            self.trouble = str(error)

    def _remove(self, path: str) -> None:
        self.trouble = f"removed damaged {path}"
        if not self.is_readonly:
            quietly(os.unlink, path)


def read_file(path: str) -> bytes:
    """The bytes of a file, read with as few calls as can be; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        content = os.read(descriptor, size + 1)
        if len(content) == size:
            return content
        parts = [content]
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def restore(content: bytes, raw_blob: str, destination: str, unlink_first: bool) -> None:
    """Put content where the user wants it, as a clone of the blob where the file system can.

    `unlink_first` does as the assembler does with an object: an existing file or link is replaced,
    unless there is nothing in it. The other tools write into the existing file. Raises OSError.
    """
    if unlink_first and _holds_something(destination):
        os.unlink(destination)
    descriptor = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        if len(content) < _WORTH_CLONING or not _clone(raw_blob, descriptor, content):
            write_all(descriptor, content)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte; raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _holds_something(path: str) -> bool:
    """The condition of binutils (bfd, `cache.c`): it follows links, so a dangling one is written through."""
    try:
        return os.stat(path).st_size != 0 and (os.path.islink(path) or os.path.isfile(path))
    except OSError:
        return False


def _clone(source: str, target: int, content: bytes) -> bool:
    """Share the blob's blocks (copy on write) instead of copying them; False where that cannot be.

    The blob is compared first: content that was just made says nothing of an older blob of its name.
    """
    import fcntl

    ficlone = 0x40049409
    if not source:
        return False
    try:
        with open(source, "rb") as stream:
            if stream.read() != content:
                return False
            fcntl.ioctl(target, ficlone, stream.fileno())
    except OSError:
        return False
    return True


def _checksum(key: str, body: bytes) -> bytes:
    builder = keys.KeyBuilder("record")
    builder.add("key", key)
    builder.add("body", body)
    return builder.key().encode()


def _compress(content: bytes) -> bytes:
    from nvccache import publishing

    return publishing.compress(content)


def _decompress(content: bytes) -> bytes:
    from nvccache import publishing

    return publishing.decompress(content)


def _touch(path: str) -> None:
    """Mark as used just now: eviction goes by modification time."""
    quietly(os.utime, path)


def quietly(action: Callable[[str], None], path: str) -> None:
    """What contextlib.suppress would do, were it not a module more to load on every hit."""
    try:  # noqa: SIM105
        action(path)
    except OSError:
        pass
