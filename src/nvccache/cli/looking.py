"""Looking at what is in a cache without using it: nothing counts as used, and nothing is removed."""

from __future__ import annotations

import os

from nvccache.files import keys, untrusted
from nvccache.store.directory import Directory, StrangeFileError
from nvccache.store.store import BLOB, Store

_LARGEST_BLOB = 1 << 30


class _UntouchedDirectory(Directory):
    """A cache directory in which a file that is read stays as old as it is."""

    __slots__ = ()

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        descriptor, status = self.open(path)
        try:
            if status.st_size > most:
                raise StrangeFileError(f"`{path}` is larger than anything of ours")
            return untrusted.read_all(descriptor, status.st_size), status
        finally:
            os.close(descriptor)


class _UntouchedStore(Store):
    """The same for blobs, which a store does not have its directory read."""

    __slots__ = ()

    def read_blob(self, digest: str) -> bytes | None:
        try:
            content, _ = self.directory.read(self.name(BLOB, digest), _LARGEST_BLOB)
        except OSError:
            return super().read_blob(digest)
        return content if keys.digest_bytes(content) == digest else None


def at(root: str) -> Store:
    """A cache of which all can be read, as far as this user may."""
    return _UntouchedStore(_UntouchedDirectory(root), is_readonly=True)
