"""The cache directory: what is kept, where, and how many processes share it.

    $NVCCACHE_DIR/
      CACHEDIR.TAG
      manifest-v1/ab/<key>       what a command was seen to read, and the key of the result each time
      stage-v1/ab/<key>          what a stage produced: digests of its outputs, its diagnostics, its cost
      blob-v1/ab/<digest>        an output the user may get, as it is, so that it can be reflinked
      blob-v1/ab/<digest>.zst    an intermediate, compressed
      tool-v1/ab/<key>           memo: stat signature of an executable -> digest of its content
      journal/                   see journal.py
      usage-v1                   bytes and files, as counted so far
      tmp/  locks/

Everything but `usage-v1` is immutable: written under a temporary name, then renamed. Readers take no
lock; what has vanished or does not match its checksum is removed and counts as absent. Those who add
and those who remove hold the lock of the shard, so that a file found present is not removed while an
entry that needs it is being written. A bucket whose meaning changes gets a new number; buckets of
other versions are never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field

from nvccache import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BLOB, STAGE, MANIFEST, TOOL = "blob-v1", "stage-v1", "manifest-v1", "tool-v1"
BUCKETS = (BLOB, STAGE, MANIFEST, TOOL)
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_LOCK_SECONDS = 10.0  # a publisher that waits longer gives up: the result is right without the cache
_COMPRESSION_LEVEL = 1


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a stage produced: `outputs` maps role to digest, `seconds` is what it cost.

    `is_redirect` marks an entry without outputs: the result depends on a further ingredient too.
    """

    outputs: dict[str, str] = field(default_factory=dict)
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    is_redirect: bool = False


class Store:
    """One cache directory. Nothing here raises OSError for what is only a cache's trouble."""

    def __init__(self, root: str, is_readonly: bool = False) -> None:
        self.root = root
        self.is_readonly = is_readonly
        self.added_bytes = 0
        self.trouble = ""  # the last reason why something could not be stored

    def find_entry(self, key: str) -> Entry | None:
        raw = self._read_record(STAGE, key)
        if raw is None:
            return None
        values = json.loads(raw)
        return Entry(
            outputs=values["outputs"],
            stdout=values["stdout"].encode("latin-1"),
            stderr=values["stderr"].encode("latin-1"),
            seconds=values["seconds"],
            is_redirect=values["is_redirect"],
        )

    def add_entry(self, key: str, entry: Entry) -> None:
        values = {
            "outputs": entry.outputs,
            "stdout": entry.stdout.decode("latin-1"),
            "stderr": entry.stderr.decode("latin-1"),
            "seconds": round(entry.seconds, 6),
            "is_redirect": entry.is_redirect,
        }
        self._write_record(STAGE, key, json.dumps(values).encode())

    def find_manifest(self, key: str) -> list[dict[str, object]]:
        """What the command was seen to read, newest first; see manifest.py for the form."""
        raw = self._read_record(MANIFEST, key)
        return json.loads(raw) if raw is not None else []

    def add_manifest(self, key: str, readings: list[dict[str, object]]) -> None:
        self._write_record(MANIFEST, key, json.dumps(readings).encode())

    def find_memo(self, key: str) -> str:
        raw = self._read_record(TOOL, key)
        return raw.decode() if raw is not None else ""

    def add_memo(self, key: str, text: str) -> None:
        self._write_record(TOOL, key, text.encode())

    def has_blob(self, digest: str) -> bool:
        path = self._path(BLOB, digest)
        return os.path.exists(path) or os.path.exists(path + ".zst")

    def read_blob(self, digest: str) -> bytes | None:
        """The content with this digest, checked, or None."""
        for suffix in ("", ".zst"):
            path = self._path(BLOB, digest) + suffix
            try:
                with open(path, "rb") as stream:
                    content = stream.read()
                content = _decompress(content) if suffix else content
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                content = b""
            if keys.digest_bytes(content) == digest:
                _touch(path)
                return content
            self._remove_damaged(path)
        return None

    def raw_blob_path(self, digest: str) -> str:
        """Where the blob lies if it is kept uncompressed."""
        return self._path(BLOB, digest)

    def add_blob(self, digest: str, content: bytes, compress: bool) -> None:
        path = self._path(BLOB, digest) + (".zst" if compress else "")
        if compress and not os.path.exists(path) and not self.is_readonly:
            content = _compress(content)
        self._publish(path, content, digest[0])

    def _path(self, bucket: str, name: str) -> str:
        return f"{self.root}/{bucket}/{name[:2]}/{name}"

    def _read_record(self, bucket: str, key: str) -> bytes | None:
        """A record's body, if its first line, the checksum of the body under its key, is right."""
        path = self._path(bucket, key)
        try:
            with open(path, "rb") as stream:
                checksum, _, body = stream.read().partition(b"\n")
        except OSError:
            return None
        if checksum != _checksum(key, body):
            self._remove_damaged(path)
            return None
        _touch(path)
        return body

    def _write_record(self, bucket: str, key: str, body: bytes) -> None:
        content = _checksum(key, body) + b"\n" + body
        self._publish(self._path(bucket, key), content, key[0], replace=True)

    def _publish(self, path: str, content: bytes, shard: str, replace: bool = False) -> None:
        if self.is_readonly:
            return
        try:
            with shard_lock(self.root, shard):
                if not replace and os.path.exists(path):
                    _touch(path)
                    return
                write_whole(self.root, path, content)
        except (OSError, StoreError) as error:
            self.trouble = str(error)
            return
        self.added_bytes += len(content)

    def _remove_damaged(self, path: str) -> None:
        self.trouble = f"removed damaged {path}"
        if not self.is_readonly:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _checksum(key: str, body: bytes) -> bytes:
    builder = keys.KeyBuilder("record")
    builder.add("key", key)
    builder.add("body", body)
    return builder.key().encode()


def _compress(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(content)


def _decompress(content: bytes) -> bytes:
    """Raises ValueError for what is not a compressed blob."""
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(content)
    except (zstandard.ZstdError, MemoryError) as error:  # a damaged header can claim any size
        raise ValueError(str(error)) from None


def _touch(path: str) -> None:
    """Mark as used just now: eviction goes by modification time."""
    with contextlib.suppress(OSError):
        os.utime(path)


def write_whole(root: str, path: str, content: bytes) -> None:
    """Make a file appear at once and whole, or not at all; raises OSError."""
    for directory in (f"{root}/tmp", os.path.dirname(path)):
        if not os.path.isdir(directory):
            prepare(root)
            os.makedirs(directory, exist_ok=True)
    temporary = f"{root}/tmp/{os.urandom(16).hex()}"
    # Not mkstemp, whose files only their owner can read: users may share a cache directory.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def prepare(root: str) -> None:
    """Make the cache directory and mark it as one; raises OSError."""
    os.makedirs(root, exist_ok=True)
    tag = f"{root}/CACHEDIR.TAG"
    if not os.path.exists(tag):
        with open(tag, "wb") as stream:
            stream.write(_TAG)


@contextlib.contextmanager
def shard_lock(root: str, shard: str) -> Iterator[None]:
    """Hold the lock of one of the sixteen shards; raises StoreError after ten seconds, or OSError."""
    import filelock

    directory = f"{root}/locks"
    if not os.path.isdir(directory):
        prepare(root)
        os.makedirs(directory, exist_ok=True)
    lock = filelock.FileLock(f"{directory}/{shard}.lock", timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise StoreError(f"another process holds the lock `{directory}/{shard}.lock`") from None
    try:
        yield
    finally:
        lock.release()


def restore(content: bytes, raw_blob: str, destination: str, unlink_first: bool) -> None:
    """Put content where the user wants it, as a clone of the blob where the file system can.

    `unlink_first` does as the assembler does with an object: an existing file or link is replaced,
    unless there is nothing in it. The other tools write into the existing file. Raises OSError.
    """
    if unlink_first and _holds_something(destination):
        os.unlink(destination)
    descriptor = os.open(destination, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as stream:
        if not _clone(raw_blob, stream.fileno(), content):
            stream.write(content)


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


def remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
