"""Opens everything in the cache directory. Paths are relative to it, such as `record-v7/ab/<key>`.

The directory is ours if it has our CACHEDIR.TAG, for which backup programs skip it; an empty one may be
claimed. Any other is foreign: nothing in it is read, written or removed. Who may write to it is trusted with
what it holds. But no file is opened through a link in its place, nor so that opening it blocks.

A directory that is created is its user's alone. New files get the directory's permissions for group and
others, so that its users can share them. Does not know what the files mean. Part of the hot path.
"""

from __future__ import annotations

import errno
import os
import stat

from nvccache.files import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.config import Config

TEMPORARY = "tmp"
TAG_NAME = "CACHEDIR.TAG"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
_NEW_TAG_PREFIX = ".nvccache-tag-"  # of a tag that is being written; random characters follow
_FILE_SYSTEM_FOLDER = "lost+found"
_SCRATCH_PREFIX = "nvccache-"  # of a user's scratch directories, which may be here; then the uid


class ForeignDirectoryError(OSError):
    """The directory is not empty and lacks our tag."""


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


class NoCacheError(StoreError):
    """There is no directory, or nothing has been stored in it yet."""


class Directory:
    """One cache directory. All methods raise OSError; FileNotFoundError if something does not exist."""

    __slots__ = ("_mode", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._mode = 0  # the directory's permissions, once it is known to be ours

    def prepare(self) -> None:
        """Create the directory if it does not exist, and claim it if it is empty."""
        if self._mode and self._is_tagged():
            return
        try:
            self._check()
        except FileNotFoundError:
            os.makedirs(self.path, 0o700, exist_ok=True)
            _add_tag(self.path, 0o666 & stat.S_IMODE(os.stat(self.path).st_mode))
            self._check()

    def problem(self, folders: tuple[str, ...]) -> str:
        """Why compiles should not use this cache, a word of outcomes.REASONS; or empty.

        All `folders` must be readable: one holds the digests of programs, and a call that has to compute
        those costs more than it saves.
        """
        try:
            self._check()
        except FileNotFoundError:
            return ""  # it will be created
        except ForeignDirectoryError:
            return "foreign_directory"
        except OSError:
            return "unusable_cache"
        for folder in (f"{self.path}/{folder}" for folder in folders):
            if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
                return "unusable_cache"
        return ""

    def open(
        self, path: str, flags: int = os.O_RDONLY, make: bool = False, for_writers: bool = False
    ) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file, and its status; `make` creates missing files and folders.

        With `for_writers` the new file can be read only by those who can write it.
        """
        if make:
            self._make_folder(os.path.dirname(path))
        full = self._full(path)
        while True:
            try:
                # Without O_CREAT, which Linux refuses for files of other users in directories like /tmp.
                descriptor = os.open(full, flags | untrusted.FILE)
                break
            except FileNotFoundError:
                if not make:
                    raise
            mode = untrusted.mode_for_writers(self._mode) if for_writers else 0o666 & self._mode
            try:
                untrusted.write_new(full, b"", mode)
            except FileExistsError:  # another call has just created it
                continue
            self._remove_unless_tagged(full)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", full)
        return descriptor, status

    def read(self, path: str) -> tuple[bytes, os.stat_result]:
        """The content of a file, and its status. Marks the file as used."""
        descriptor, status = self.open(path)
        try:
            content = untrusted.read_all(descriptor, status.st_size)
            self.touch(descriptor)
            return content, status
        finally:
            os.close(descriptor)

    def touch(self, descriptor: int) -> None:
        """Mark an open file as used by its modification time, which eviction goes by; raises nothing."""
        try:  # noqa: SIM105
            os.utime(descriptor)
        except OSError:
            pass  # it belongs to another user

    def mark_used(self, path: str) -> None:
        """Mark a file as used that is needed but not read; raises nothing."""
        try:
            descriptor, _ = self.open(path)
        except OSError:
            return
        self.touch(descriptor)
        os.close(descriptor)

    def write(self, path: str, content: bytes, mode: int = 0o666) -> None:
        """Write a file atomically, replacing any older one."""
        self._make_folder(TEMPORARY)
        self._make_folder(os.path.dirname(path))
        temporary, full = self._full(f"{TEMPORARY}/{os.urandom(16).hex()}"), self._full(path)
        untrusted.write_new(temporary, content, mode & self._mode)
        try:
            os.rename(temporary, full)
        except BaseException:
            untrusted.remove(temporary)
            raise
        self._remove_unless_tagged(full)

    def exists(self, path: str) -> bool:
        """Whether there is a file that can be opened for reading."""
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
        """Names in a folder with their status, links not followed; empty if the folder does not exist."""
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
                    continue  # just removed
        return names

    def _full(self, path: str) -> str:
        if not self._mode:
            self._check()
        return f"{self.path}/{path}"

    def _check(self) -> None:
        """Raise FileNotFoundError if there is no cache, and ForeignDirectoryError if it is not ours."""
        if not _has_tag(self.path):
            is_free = _is_free(self.path)
            if not _has_tag(self.path):  # another call may have claimed it just now
                if is_free:
                    raise FileNotFoundError(errno.ENOENT, "not a cache yet", self.path)
                raise ForeignDirectoryError(f"`{self.path}` is not empty and has no {TAG_NAME} of nvccache")
        self._mode = stat.S_IMODE(os.stat(self.path).st_mode)

    def _is_tagged(self) -> bool:
        return os.path.lexists(f"{self.path}/{TAG_NAME}")

    def _remove_unless_tagged(self, full: str) -> None:
        """Remove a new file if the cache was removed meanwhile: it would make the directory a foreign one."""
        if not self._is_tagged():
            untrusted.remove(full)
            raise FileNotFoundError(errno.ENOENT, "has been removed", self.path)

    def _make_folder(self, folder: str) -> None:
        self.prepare()
        path = self.path
        for name in folder.split("/"):
            path = f"{path}/{name}"
            untrusted.make_folder(path, 0o777 & self._mode)


def _has_tag(folder: str) -> bool:
    """Whether a directory has our tag; raises only PermissionError, if the tag cannot be read."""
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
    """Whether a directory holds no files but ours; raises OSError.

    Empty subdirectories are allowed: a call that is about to write can leave some when the cache is removed.
    So are our own scratch directories and other cache directories.
    """
    with os.scandir(folder) as entries:
        return all(map(_is_free_entry, entries))


def _is_free_entry(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(_NEW_TAG_PREFIX) or entry.name == _FILE_SYSTEM_FOLDER:
        return True
    if entry.name.startswith(_SCRATCH_PREFIX) and entry.name.removeprefix(_SCRATCH_PREFIX).isdecimal():
        return True
    return entry.is_dir(follow_symlinks=False) and (_has_tag(entry.path) or _is_free(entry.path))


def _add_tag(folder: str, mode: int) -> None:
    """Write the tag into a directory; other calls may do so at the same time. Raises OSError."""
    fresh = f"{folder}/{_NEW_TAG_PREFIX}{os.urandom(8).hex()}"
    untrusted.write_new(fresh, TAG, mode)
    os.rename(fresh, f"{folder}/{TAG_NAME}")


def configured(config: Config) -> Directory:
    """The cache directory that the settings name."""
    if not config.readonly:
        _leave_to_user(config.dir, config.origins["dir"] == "default")
    return Directory(config.dir)


def _leave_to_user(path: str, is_default: bool) -> None:
    """Withdraw the right to write from a user's own group, which has no other members.

    Where each user has such a group, the umask is often 002. A directory made with it is not meant to be
    shared; one with the setgid bit is.
    """
    try:
        status = os.stat(path)
        mode = stat.S_IMODE(status.st_mode)
        if mode & (stat.S_ISGID | stat.S_IWGRP) == stat.S_IWGRP and not untrusted.others_may_write(status):
            os.chmod(path, 0o700 if is_default else mode & ~0o020)
    except OSError:
        pass


def is_private(path: str) -> bool:
    """Whether only this user can write to a cache directory."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & untrusted.WRITABLE_BY_OTHERS


def at(cache: str | Directory) -> Directory:
    """The Directory for a path; a Directory is returned as it is."""
    return Directory(cache) if isinstance(cache, str) else cache
