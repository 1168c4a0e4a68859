"""The cache directory as a place that is not trusted: the one way to open anything below it.

Whoever may write into the directory may have put links, FIFOs, devices or files of any size where ours
belong. So every folder is opened from the one above it and no link is followed; a file is opened without
waiting, and must be a regular one, of somebody who is trusted. Paths are relative to the directory, such as
`record-v1/ab/<key>`; the directory itself may be reached by a link, since its path is the user's.

The directory is ours if it has our CACHEDIR.TAG; one that is empty may be claimed. Knows nothing of what the
files mean. Part of the hot path.

Trusted are this user, root and the owner of the directory; where group or others may write into the
directory, everybody is. What is made in such a directory has the directory's own permissions for group and
others, so that those who share it can use it; `umask` says otherwise.
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
# What opening a link, a folder, a socket or a device without a driver ends in.
_STRANGE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV)
_FOREVER = float("inf")
_TRIES = 5  # while other processes make and remove the same


class StrangeFileError(OSError):
    """What lies there is no file of ours: a link, a device, too large, or of somebody who is not trusted."""


class StoreError(Exception):
    """The cache directory cannot be used; the message is one sentence for the user."""


class NoCacheError(StoreError):
    """There is no directory, or an empty one that nothing was stored in yet."""


class LockTimeoutError(StoreError):
    """Another process holds a lock for longer than a call waits."""


def is_private(path: str) -> bool:
    """Whether nobody but this user may put anything into a cache directory."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


class _Folder:
    """An open folder: closed at the end of a block, unless it is kept open for the next one."""

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
    """One cache directory. All methods raise OSError; what is not there is FileNotFoundError.

    The directory and the folders in it are kept open: they are entered once, each from the one above.
    """

    __slots__ = ("_descriptors", "_open_folders", "_permissions", "path", "seconds_waited")

    def __init__(self, path: str, umask: int | None = None) -> None:
        self.path = path
        self.seconds_waited = 0.0  # for locks; see locks.py
        self._permissions = untrusted.Permissions(umask)
        self._open_folders: dict[str, int] = {}  # descriptors of the directory, "", and of the folders in it
        self._descriptors: list[int] = []  # those, and what they were before the directory was made anew

    def __del__(self) -> None:
        for descriptor in self._descriptors:
            try:  # noqa: SIM105
                os.close(descriptor)
            except OSError:
                pass

    def prepare(self) -> None:
        """Make the directory if there is none, and claim it if it is empty."""
        self._enter("", make=True)

    def problem(self, folders: tuple[str, ...]) -> str:
        """Why compiles are better done without this cache, a word of outcomes.REASONS; or empty.

        The digests of programs are in one of its `folders`: without them a call costs more than it saves.
        """
        try:
            top = self._enter("")
            for folder in folders:
                if not _can_be_read(folder, top):
                    return "unusable_cache"
        except FileNotFoundError:
            return ""  # it will be made
        except ForeignDirectoryError:
            return "foreign_directory"
        except OSError:
            return "unusable_cache"
        return ""

    def open(
        self, path: str, flags: int = os.O_RDONLY, make: bool = False, for_writers: bool = False
    ) -> tuple[int, os.stat_result]:
        """A regular file and its status; with `make` it is made, with its folders, if it is not there.

        With `for_writers` those who may not write it may not read it either.
        """
        folder, _, name = path.rpartition("/")
        with self._within(folder, make) as within:
            permitted = self._permissions.of_lock() if for_writers else self._permissions.of_file(0o666)
            descriptor = self._open(name, flags, within, permitted if make else None)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StrangeFileError(f"`{path}` is no regular file")
            if not self._permissions.trusts(status):
                raise StrangeFileError(f"`{path}` belongs to somebody else")
        except OSError:
            os.close(descriptor)
            raise
        return descriptor, status

    def read(self, path: str, most: int) -> tuple[bytes, os.stat_result]:
        """The bytes of a file, which may have `most`, and its status. The file counts as used just now."""
        descriptor, status = self.open(path)
        try:
            if status.st_size > most:
                raise StrangeFileError(f"`{path}` is larger than anything of ours")
            content = untrusted.read_all(descriptor, status.st_size)
            self.count_as_used(descriptor, status)
            return content, status
        finally:
            os.close(descriptor)

    def count_as_used(self, descriptor: int, status: os.stat_result) -> None:
        """Have an open file count as used just now; raises nothing."""
        untrusted.touch(descriptor, status)

    def mark_used(self, path: str) -> None:
        """Mark a file as used just now that is relied upon without being read; raises nothing."""
        try:
            descriptor, status = self.open(path)
        except OSError:
            return
        self.count_as_used(descriptor, status)
        os.close(descriptor)

    def write(self, path: str, content: bytes, mode: int = 0o666) -> None:
        """Make a file appear at once and whole, or not at all; what is there is replaced."""
        folder, _, name = path.rpartition("/")
        temporary = os.urandom(16).hex()
        aside = self._enter(TEMPORARY, make=True)
        untrusted.write_new(temporary, content, aside, *self._permissions.of_file(mode))
        try:
            with self._within(folder, make=True) as within:
                os.rename(temporary, name, src_dir_fd=aside, dst_dir_fd=within)
                try:
                    self._check_that_it_is_ours()
                except FileNotFoundError:
                    untrusted.remove(name, within)
                    raise
        except BaseException:
            untrusted.remove(temporary, aside)
            raise

    def exists(self, path: str) -> bool:
        """Whether there is a file that could be read."""
        try:
            os.close(self.open(path)[0])
        except OSError:
            return False
        return True

    def status(self, path: str) -> os.stat_result:
        """The status of what is there, links not followed."""
        folder, _, name = path.rpartition("/")
        with self._within(folder) as within:
            return os.stat(name, dir_fd=within, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        with self._within(folder) as within:
            os.unlink(name, dir_fd=within)

    def rename(self, path: str, name: str) -> None:
        """Give a file another name in its folder."""
        folder, _, old = path.rpartition("/")
        with self._within(folder) as within:
            os.rename(old, name, src_dir_fd=within, dst_dir_fd=within)

    def list(self, folder: str = "") -> list[tuple[str, os.stat_result]]:
        """The names in a folder, and their status, links not followed; nothing if there is no such folder."""
        return [(name, status) for name, status in self.each(folder) if status]

    def each(self, folder: str, until: float = _FOREVER) -> Iterator[tuple[str, os.stat_result | None]]:
        """The same, one after the other; no status is asked for after `until`, of the monotonic clock."""
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

    def _open(self, name: str, flags: int, within: int, permitted: tuple[int, bool] | None) -> int:
        """Open a file, and make it with what is `permitted`, if that is not None."""
        for _ in range(_TRIES):
            try:
                # Without O_CREAT, which Linux refuses for files of others in directories like /tmp.
                return os.open(name, flags | untrusted.FILE, dir_fd=within)
            except FileNotFoundError:
                if not permitted:
                    raise
            except OSError as error:
                if error.errno in _STRANGE:
                    raise StrangeFileError(f"`{name}` is no regular file") from None
                raise
            try:
                untrusted.write_new(name, b"", within, *permitted)
            except FileExistsError:
                continue
            try:
                self._check_that_it_is_ours()
            except FileNotFoundError:
                untrusted.remove(name, within)
                raise
        raise StrangeFileError(f"`{name}` comes and goes")

    def _within(self, folder: str, make: bool = False) -> _Folder:
        """A folder that is open in a block."""
        first, slash, second = folder.partition("/")
        above = self._enter(first, make)
        if not slash:
            return _Folder(above, True)
        return _Folder(self._enter_below(second, above, make), False)

    def _enter(self, folder: str, make: bool = False) -> int:
        """The descriptor of the directory itself, "", or of a folder in it; it is kept open."""
        if make and folder:
            self._enter("", make)
        held = self._open_folders.get(folder)
        # Whoever removes the cache during a build leaves us with folders that have no name any more, and with
        # a directory that lost its tag first.
        if held is not None and (not make or self._is_left(folder, held)):
            return held
        if not folder:
            self._open_folders = {}  # what was open stays so: another thread may be using it
            return self._enter_top(make)
        descriptor = self._enter_below(folder, self._enter("", make), make)
        if not self._permissions.trusts(os.fstat(descriptor)):
            os.close(descriptor)
            raise StrangeFileError(f"`{folder}` belongs to somebody else")
        return self._keep(folder, descriptor)

    def _is_left(self, folder: str, held: int) -> bool:
        return bool(os.fstat(held).st_nlink) and (folder != "" or cachedir_tag.is_in(held))

    def _check_that_it_is_ours(self) -> None:
        """Raise FileNotFoundError if the cache has been removed while something was put into it."""
        top = self._open_folders.get("")  # None while another thread opens it anew
        if top is None or not cachedir_tag.is_in(top):
            raise FileNotFoundError(f"`{self.path}` has been removed")

    def _enter_top(self, make: bool) -> int:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(self.path, exist_ok=True)
            umask = self._permissions.umask
            if umask is not None:
                os.chmod(self.path, 0o777 & ~umask)
            descriptor = os.open(self.path, flags)
        try:
            self._permissions.learn_from(os.fstat(descriptor))
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
        """Raise ForeignDirectoryError unless it is ours, FileNotFoundError if it could become ours."""
        if cachedir_tag.is_in(top):
            return
        if not cachedir_tag.is_free(top):
            if cachedir_tag.is_in(top):  # another call has claimed it meanwhile
                return
            raise ForeignDirectoryError(
                f"`{self.path}` is not empty and has no {cachedir_tag.NAME} of nvccache"
            )
        if not make:
            raise FileNotFoundError(f"`{self.path}` is no cache yet")
        cachedir_tag.add(top, *self._permissions.of_file(0o666))

    def _enter_below(self, name: str, above: int, make: bool) -> int:
        return untrusted.enter(name, above, self._permissions if make else None)


def of(config: Config) -> Directory:
    """The cache directory that the settings name."""
    return Directory(config.dir, config.umask)


def at(place: str | Directory) -> Directory:
    """A cache directory by its path, or itself."""
    return Directory(place) if isinstance(place, str) else place


def _can_be_read(folder: str, top: int) -> bool:
    """Whether a folder may be searched, or there is none; raises OSError."""
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
            continue  # it has just been removed
