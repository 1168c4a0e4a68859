"""Opens everything in the cache directory.

Who may write to it is trusted with what it holds, but not with files outside it: each folder is opened
relative to its parent, and links are not followed. Files are opened without blocking, and must be regular
files. Paths are relative to the directory, such as
`record-v2/ab/<key>`. The path of the directory itself may contain links, since the user chose it.

The directory is ours if it has our CACHEDIR.TAG; an empty one may be claimed. Does not know what the files
mean. Part of the hot path.

A directory that is created is its user's alone. New files get the directory's permissions for group and
others, so that its users can share them.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from nvccache.files import untrusted
from nvccache.store import cachedir_tag
from nvccache.store.cachedir_tag import ForeignDirectoryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvccache.config import Config

TEMPORARY = "tmp"
# From opening a link, a folder, a socket or a device without a driver.
_NOT_REGULAR = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
_FOREVER = float("inf")
_TRIES = 5  # while other processes create and remove the same file


class UntrustedFileError(OSError):
    """Not a file of ours: a link, a device, or too large."""


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


class NoCacheError(StoreError):
    """There is no directory, or nothing has been stored in it yet."""


class LockTimeoutError(StoreError):
    """Another process holds a lock for longer than a call waits."""


def is_private(path: str) -> bool:
    """Whether only this user can write to a cache directory."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & untrusted.WRITABLE_BY_OTHERS


class _Folder:
    """An open folder: closed at the end of a `with` block, unless it is kept open for later ones."""

    __slots__ = ("_descriptor", "_is_kept")

    def __init__(self, descriptor: int, is_kept: bool) -> None:
        self._descriptor = descriptor
        self._is_kept = is_kept

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        if not self._is_kept:
            os.close(self._descriptor)


class Directory:
    """One cache directory. All methods raise OSError; FileNotFoundError if something does not exist.

    The directory and its top-level folders are opened once and stay open.
    """

    __slots__ = ("_descriptors", "_open_folders", "_permissions", "path", "seconds_waited")

    def __init__(self, path: str) -> None:
        self.path = path
        self.seconds_waited = 0.0  # for locks; see locks.py
        self._permissions = untrusted.Permissions()
        self._open_folders: dict[str, int] = {}  # descriptors by name; the directory itself is ""
        self._descriptors: list[int] = []  # the same, and those from before the directory was recreated

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            try:  # noqa: SIM105
                os.close(descriptor)
            except OSError:
                pass

    def prepare(self) -> None:
        """Create the directory if it does not exist, and claim it if it is empty."""
        self._enter("", make=True)

    def problem(self, folders: tuple[str, ...]) -> str:
        """Why compiles should not use this cache, a word of outcomes.REASONS; or empty.

        All `folders` must be readable: one holds the digests of programs, and a call that has to compute
        those costs more than it saves.
        """
        try:
            top = self._enter("")
            for folder in folders:
                if not _can_be_read(folder, top):
                    return "unusable_cache"
        except FileNotFoundError:
            return ""  # it will be created
        except ForeignDirectoryError:
            return "foreign_directory"
        except OSError:
            return "unusable_cache"
        return ""

    def open(
        self, path: str, flags: int = os.O_RDONLY, make: bool = False, for_writers: bool = False
    ) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file, and its status; `make` creates missing files and folders.

        With `for_writers` the new file can be read only by those who can write it.
        """
        folder, _, name = path.rpartition("/")
        with self._within(folder, make) as within:
            mode = self._permissions.of_lock() if for_writers else self._permissions.of_file(0o666)
            descriptor = self._open(name, flags, within, mode if make else None)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UntrustedFileError(f"`{path}` is not a regular file")
        except OSError:
            os.close(descriptor)
            raise
        return descriptor, status

    def read(self, path: str, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """The content of a file of at most `max_bytes`, and its status. Marks the file as used."""
        descriptor, status = self.open(path)
        try:
            if status.st_size > max_bytes:
                raise UntrustedFileError(f"`{path}` is larger than any file of ours")
            content = untrusted.read_all(descriptor, status.st_size)
            self.touch(descriptor, status)
            return content, status
        finally:
            os.close(descriptor)

    def touch(self, descriptor: int, status: os.stat_result) -> None:
        """Mark an open file as used; raises nothing."""
        untrusted.touch(descriptor, status)

    def mark_used(self, path: str) -> None:
        """Mark a file as used that is needed but not read; raises nothing."""
        try:
            descriptor, status = self.open(path)
        except OSError:
            return
        self.touch(descriptor, status)
        os.close(descriptor)

    def write(self, path: str, content: bytes, mode: int = 0o666) -> None:
        """Write a file atomically, replacing any older one."""
        folder, _, name = path.rpartition("/")
        temporary = os.urandom(16).hex()
        temporary_folder = self._enter(TEMPORARY, make=True)
        untrusted.write_new(temporary, content, temporary_folder, *self._permissions.of_file(mode))
        try:
            with self._within(folder, make=True) as within:
                os.rename(temporary, name, src_dir_fd=temporary_folder, dst_dir_fd=within)
                try:
                    self._check_tag()
                except FileNotFoundError:
                    untrusted.remove(name, within)
                    raise
        except BaseException:
            untrusted.remove(temporary, temporary_folder)
            raise

    def exists(self, path: str) -> bool:
        """Whether there is a file that can be opened for reading."""
        try:
            os.close(self.open(path)[0])
        except OSError:
            return False
        return True

    def status(self, path: str) -> os.stat_result:
        """The status of a directory entry; links are not followed."""
        folder, _, name = path.rpartition("/")
        with self._within(folder) as within:
            return os.stat(name, dir_fd=within, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        with self._within(folder) as within:
            os.unlink(name, dir_fd=within)

    def rename(self, path: str, name: str) -> None:
        """Rename a file within its folder."""
        folder, _, old = path.rpartition("/")
        with self._within(folder) as within:
            os.rename(old, name, src_dir_fd=within, dst_dir_fd=within)

    def list(self, folder: str = "") -> list[tuple[str, os.stat_result]]:
        """Names in a folder with their status, links not followed; empty if the folder does not exist."""
        return [(name, status) for name, status in self.each(folder) if status]

    def each(self, folder: str, until: float = _FOREVER) -> Iterator[tuple[str, os.stat_result | None]]:
        """The same, lazily; the status is None for entries reached after `until`, of the monotonic clock."""
        try:
            with self._within(folder) as within:
                descriptor = os.open(".", untrusted.LISTED, dir_fd=within)
        except FileNotFoundError:
            if not folder:
                raise
            return
        try:
            with os.scandir(descriptor) as entries:
                yield from _with_status(entries, until)
        finally:
            os.close(descriptor)

    def _open(self, name: str, flags: int, within: int, mode: tuple[int, bool] | None) -> int:
        """Open a file; create a missing one with `mode` (see Permissions.of_file), unless that is None."""
        for _ in range(_TRIES):
            try:
                # Without O_CREAT, which Linux refuses for files of other users in directories like /tmp.
                return os.open(name, flags | untrusted.FILE, dir_fd=within)
            except FileNotFoundError:
                if not mode:
                    raise
            except OSError as error:
                if error.errno in _NOT_REGULAR:
                    raise UntrustedFileError(f"`{name}` is not a regular file") from None
                raise
            try:
                untrusted.write_new(name, b"", within, *mode)
            except FileExistsError:
                continue
            try:
                self._check_tag()
            except FileNotFoundError:
                untrusted.remove(name, within)
                raise
        raise UntrustedFileError(f"`{name}` is created and removed all the time")

    def _within(self, folder: str, make: bool = False) -> _Folder:
        """A folder, open for the length of a `with` block."""
        first, slash, second = folder.partition("/")
        parent = self._enter(first, make)
        if not slash:
            return _Folder(parent, True)
        return _Folder(self._enter_below(second, parent, make), False)

    def _enter(self, folder: str, make: bool = False) -> int:
        """The descriptor of the directory itself (`""`) or of a top-level folder; it is kept open."""
        if make and folder:
            self._enter("", make)
        known = self._open_folders.get(folder)
        # If the cache is removed during a build, open folders are unlinked, and the directory loses its tag.
        if known is not None and (not make or self._still_exists(folder, known)):
            return known
        if not folder:
            self._open_folders = {}  # not closed: another thread may be using them
            return self._enter_top(make)
        return self._keep(folder, self._enter_below(folder, self._enter("", make), make))

    def _still_exists(self, folder: str, descriptor: int) -> bool:
        return bool(os.fstat(descriptor).st_nlink) and (folder != "" or cachedir_tag.is_in(descriptor))

    def _check_tag(self) -> None:
        """Raise FileNotFoundError if the cache was removed while something was written to it."""
        top = self._open_folders.get("")  # None while another thread is reopening it
        if top is None or not cachedir_tag.is_in(top):
            raise FileNotFoundError(f"`{self.path}` has been removed")

    def _enter_top(self, make: bool) -> int:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(self.path, 0o700, exist_ok=True)
            descriptor = os.open(self.path, flags)
        try:
            self._permissions.adopt(os.fstat(descriptor))
            self._claim(descriptor, make)
        except BaseException:
            os.close(descriptor)
            raise
        return self._keep("", descriptor)

    def _keep(self, folder: str, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        self._open_folders[folder] = descriptor
        return descriptor

    def _claim(self, top: int, make: bool) -> None:
        """With `make`, tag an empty directory; without, raise FileNotFoundError. Or ForeignDirectoryError."""
        if cachedir_tag.is_in(top):
            return
        if not cachedir_tag.is_free(top):
            if cachedir_tag.is_in(top):  # another call has just claimed it
                return
            raise ForeignDirectoryError(
                f"`{self.path}` is not empty and has no {cachedir_tag.NAME} of nvccache"
            )
        if not make:
            raise FileNotFoundError(f"`{self.path}` is not a cache yet")
        cachedir_tag.add(top, *self._permissions.of_file(0o666))

    def _enter_below(self, name: str, parent: int, make: bool) -> int:
        return untrusted.open_folder(name, parent, self._permissions if make else None)


def of(config: Config) -> Directory:
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


def at(cache: str | Directory) -> Directory:
    """The Directory for a path; a Directory is returned as it is."""
    return Directory(cache) if isinstance(cache, str) else cache


def _can_be_read(folder: str, top: int) -> bool:
    """Whether a folder can be listed and searched, or does not exist; raises OSError."""
    try:
        status = os.stat(folder, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return not stat.S_ISDIR(status.st_mode) or os.access(
        folder, os.R_OK | os.X_OK, dir_fd=top, effective_ids=True
    )


def _with_status(
    entries: Iterator[os.DirEntry[str]], until: float
) -> Iterator[tuple[str, os.stat_result | None]]:
    for entry in entries:
        try:
            is_late = time.monotonic() > until
            yield entry.name, None if is_late else entry.stat(follow_symlinks=False)
        except OSError:
            continue  # just removed
