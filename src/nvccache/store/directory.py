"""Opens all files in the cache directory. Paths are relative to the directory, such as `locks/usage.lock`.

A cache directory is recognized by nvccache's CACHEDIR.TAG, which also makes backup programs skip it. nvccache
adds the tag to a directory that is empty, or that contains only names of nvccache because a cache was removed
in part. Any other directory is foreign: nothing in it is read, written or removed. Users who may write to a
cache directory are trusted with its content. But links in it are not followed, and opening a file never
blocks.

Only its owner can use a new cache directory. Once the owner has given permissions to a group or to others,
new files get the same permissions. Direct hits load this module, so it is part of the hot path.
"""

from __future__ import annotations

import errno
import os
import stat

from nvccache.files import untrusted

TEMPORARY = "tmp"
TAG_NAME = "CACHEDIR.TAG"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_NEW_TAG_PREFIX = ".nvccache-tag-"  # the name of a tag that is being written; random characters follow
# All other names that nvccache uses in a cache directory, those of scratch directories included.
_OURS = r"\.nvccache-tag-.*|nvccache-\d+|tmp|journal|locks|remote|[a-z]+(-[a-z]+)*-v\d+|lost\+found"


class ForeignDirectoryError(OSError):
    """The directory contains other files, and has no tag of nvccache."""


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


class NoCacheError(StoreError):
    """There is no cache directory, or nothing has been stored in it yet."""


class Directory:
    """One cache directory. Methods raise OSError, such as FileNotFoundError, unless they say otherwise."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._mode = 0  # the directory's permissions; 0 until the tag has been checked

    def prepare(self) -> None:
        """Create the directory if it does not exist, and add the tag if it is empty."""
        if self._mode:
            return
        try:
            self._check()
        except FileNotFoundError:
            os.makedirs(self.path, 0o700, exist_ok=True)
            _add_tag(self.path, 0o666 & stat.S_IMODE(os.stat(self.path).st_mode))
            self._check()

    def problem(self) -> str:
        """Why compiles cannot use this cache: a word of outcomes.REASONS, or empty if they can."""
        try:
            self._check()
        except FileNotFoundError:
            return ""  # the first compile will create it
        except ForeignDirectoryError:
            return "foreign_directory"
        except OSError:
            return "unusable_cache"
        return ""

    def open(self, path: str, flags: int = os.O_RDONLY, make: bool = False) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file, and its status; `make` creates missing files and folders.

        Only users who can write to a new file can read it, because logs contain command lines.
        """
        full = self._full(path, make)
        mode = 0o600 | (self._mode & untrusted.WRITABLE_BY_OTHERS) * 3
        try:
            descriptor = os.open(full, flags | untrusted.FILE | (os.O_CREAT if make else 0), mode)
        except FileNotFoundError:
            if not make:
                raise
            self._make_folder(os.path.dirname(path))
            descriptor = os.open(full, flags | untrusted.FILE | os.O_CREAT, mode)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", full)
        is_new = make and not status.st_size and status.st_uid == os.geteuid()
        if is_new and mode & untrusted.WRITABLE_BY_OTHERS:  # the umask may have removed permissions
            os.fchmod(descriptor, mode)
        return descriptor, status

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """The content of a file, and its status. Also marks the file as used."""
        descriptor, status = self.open(path)
        try:
            content = untrusted.read_all(descriptor, status.st_size)
            self.touch(descriptor)
            return content, status
        finally:
            os.close(descriptor)

    def touch(self, descriptor: int) -> None:
        """Mark an open file as used, for eviction, by setting its modification time. Raises nothing."""
        try:  # noqa: SIM105
            os.utime(descriptor)
        except OSError:
            pass  # the file belongs to another user

    def mark_used(self, path: str) -> None:
        """Mark a file as used, without reading it; raises nothing."""
        try:
            descriptor, _ = self.open(path)
        except OSError:
            return
        self.touch(descriptor)
        os.close(descriptor)

    def write(self, path: str, content: bytes, mode: int = 0o666) -> None:
        """Write a file atomically, replacing any older one."""
        full, prefix = self._full(path, make=True), f"{self.path}/{TEMPORARY}/"
        if not (os.path.isdir(os.path.dirname(full)) and os.path.isdir(prefix)):
            self._make_folder(os.path.dirname(path))
            self._make_folder(TEMPORARY)
        untrusted.write_atomically(full, prefix, content, mode & self._mode)

    def exists(self, path: str) -> bool:
        """Whether a file exists and can be opened for reading; raises nothing."""
        try:
            os.close(self.open(path)[0])
        except OSError:
            return False
        return True

    def status(self, path: str) -> os.stat_result:
        """The status of a directory entry; links are not followed."""
        return os.lstat(self._full(path))

    def unlink(self, path: str) -> None:
        os.unlink(self._full(path))

    def rename(self, path: str, new_path: str) -> None:
        os.rename(self._full(path), self._full(new_path))

    def list(self, folder: str = "") -> list[tuple[str, os.stat_result]]:
        """The names in a folder with their status, links not followed; empty if there is no such folder."""
        names = []
        try:
            entries = os.scandir(self._full(folder))
        except FileNotFoundError:
            if not folder:
                raise
            return []
        with entries:
            for entry in entries:
                try:
                    names.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:
                    continue  # another process has just removed it
        return names

    def _full(self, path: str, make: bool = False) -> str:
        if not self._mode:
            if make:
                self.prepare()
            else:
                self._check()
        return f"{self.path}/{path}"

    def _check(self) -> None:
        """Raise ForeignDirectoryError for a foreign directory, FileNotFoundError if there is no cache yet."""
        if not _has_tag(self.path):
            is_free = _is_free(self.path)
            if not _has_tag(self.path):  # another call may have added the tag just now
                if is_free:
                    raise FileNotFoundError(errno.ENOENT, "not a cache yet", self.path)
                raise ForeignDirectoryError(f"`{self.path}` is not empty and has no {TAG_NAME} of nvccache")
        self._mode = stat.S_IMODE(os.stat(self.path).st_mode)

    def _make_folder(self, folder: str) -> None:
        """Create a folder, and the cache directory itself if it was removed meanwhile."""
        self._mode = 0
        self.prepare()
        path = self.path
        for name in folder.split("/"):
            path = f"{path}/{name}"
            untrusted.make_folder(path, 0o777 & self._mode)


def _has_tag(folder: str) -> bool:
    """Whether a directory has nvccache's tag; raises PermissionError if the tag cannot be read."""
    try:
        descriptor = os.open(f"{folder}/{TAG_NAME}", os.O_RDONLY | untrusted.FILE)
    except PermissionError:
        raise
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, len(TAG)) == TAG
    finally:
        os.close(descriptor)


def _is_free(folder: str) -> bool:
    """Whether a directory contains only names that nvccache uses; raises OSError."""
    import re

    return all(re.fullmatch(_OURS, name) for name in os.listdir(folder))


def _add_tag(folder: str, mode: int) -> None:
    """Write the tag into a directory, even if another call does so at the same time. Raises OSError."""
    untrusted.write_atomically(f"{folder}/{TAG_NAME}", f"{folder}/{_NEW_TAG_PREFIX}", TAG, mode)


def is_private(path: str) -> bool:
    """Whether only this user can write to a cache directory."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & untrusted.WRITABLE_BY_OTHERS


def at(cache: str | Directory) -> Directory:
    """The Directory for a path; if a Directory is given, that Directory."""
    return Directory(cache) if isinstance(cache, str) else cache
