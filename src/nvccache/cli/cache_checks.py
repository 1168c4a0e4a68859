"""The checks of `nvccache doctor` for the cache directory: does in each part of it what a compile would do.

A probe is created in `tmp`, renamed to its destination and removed; locks are taken and released. A foreign
directory is left alone. A part that cannot be used is reported with owner, mode and a command that fixes it.
Knows how caches are shared (docs/how-to/shared-cache.md).
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.settings import NO_CACHE, changing, why_not_counted
from nvccache.cli.units import format_count, format_size
from nvccache.config import Config
from nvccache.store import cachedir_tag, directory, store
from nvccache.store.directory import Directory
from nvccache.store.event_line import LOG
from nvccache.store.locks import held

_LEAST_FREE = 1 << 30  # bytes
_NEEDED_FREE = 1 << 20  # for the results of one compile
_CLOCK_SLACK = 2.0  # seconds that a file server's clock may be off
_LOCK_SECONDS = 0.3
_PRIVATE = (store.OBJECT,)  # buckets whose records only their owners can read
_NAME_ANOTHER = "set `NVCCACHE_DIR` to an empty directory, or one that does not exist yet"
_MAKE_ROOM = "make room on its file system, or set a smaller `max_size` and run `nvccache clean`"
_FULL = (errno.ENOSPC, errno.EDQUOT)
# A path exists, but is no file or directory of the cache.
_STRANGE = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENOTEMPTY, errno.EEXIST)
_NO_FILE = OSError(errno.EISDIR, "it is not a regular file")


def of_cache(settings: Config) -> Iterator[Finding]:
    """The cache directory, each part of it, and what its file system can do."""
    root = settings.dir
    if not root:
        yield Finding(BAD, "cache", f"no cache: {NO_CACHE}", ("every compile runs plain nvcc",))
    elif is_foreign(root):
        text = f"`{root}` holds files but is not an nvccache cache: it is not used"
        yield Finding(BAD, "cache", text, (ownership_of(root), _NAME_ANOTHER))
    elif settings.readonly:
        state = GOOD if os.path.isdir(root) else ODD
        yield Finding(state, "cache", f"`{root}` is only read: writing was not tried")
        yield from _readable(root)
    else:
        yield from _of_own(settings)
    for name in ("disable", "readonly", "recache"):
        if getattr(settings, name):
            yield Finding(ODD, "settings", f"`{name}` is on ({settings.origins[name]})")
    if settings.stats_dir:
        yield from _of_counts(settings)
    elif not settings.counts_calls:
        yield Finding(ODD, "counts", why_not_counted(settings))


def _of_counts(settings: Config) -> Iterator[Finding]:
    """Whether calls can be counted outside the cache."""
    root = Directory(settings.stats_dir)
    try:
        root.prepare()
    except OSError as error:
        text = f"calls cannot be counted in `{root.path}`: {_message(error)}"
        yield Finding(BAD, "counts", text, (ownership_of(root.path),), (changing(settings, "stats_dir"),))
        return
    yield from _journal(settings.stats_dir)


def is_foreign(root: str) -> bool:
    """Whether a directory is another program's: neither empty nor marked as an nvccache cache."""
    return Directory(root).problem(()) == "foreign_directory"


def _of_own(settings: Config) -> Iterator[Finding]:
    root = settings.dir
    try:
        directory.of(settings).prepare()
        os.listdir(root)
    except OSError as error:
        yield _unusable("cache", f"`{root}` cannot be used: {error.strerror}", error, root, root)
        return
    limit = f"at most {format_size(settings.max_size)}" if settings.max_size else "of any size"
    yield Finding(GOOD, "cache", f"`{root}`, {limit}")
    yield from _trust(root)
    troubles = [*_directories(root), *_locks(root), *([] if settings.stats_dir else _journal(root))]
    yield from _grouped(troubles) or [
        Finding(GOOD, "directories", "files can be created, renamed, locked and removed in each")
    ]
    yield from _readable(root)
    is_locking = not any(each.topic == "locks" for each in troubles)
    yield from [each for each in _file_system(root) if is_locking or each.topic != "locks"]
    free = shutil.disk_usage(root).free
    if free < min(_LEAST_FREE, settings.max_size or _LEAST_FREE):
        text = f"only {format_size(free)} free on its file system"
        yield Finding(BAD if free < _NEEDED_FREE else ODD, "cache", text, (_MAKE_ROOM,))


def _grouped(troubles: list[Finding]) -> list[Finding]:
    """One finding for each fix: a full disk, for example, fails every probe."""
    by_fix: dict[str, list[Finding]] = {}
    for trouble in troubles:
        by_fix.setdefault(trouble.details[-1], []).append(trouble)
    return [_and_others(*same) for same in by_fix.values()]


def _and_others(first: Finding, *others: Finding) -> Finding:
    more = f", nor can {format_count(len(others), 'other part')} of the cache be used" if others else ""
    return replace(first, text=first.text + more)


def _unusable(topic: str, text: str, error: OSError, path: str, root: str, state: str = BAD) -> Finding:
    """A part of the cache that cannot be used, its owner, and what to do about it."""
    return Finding(state, topic, text, (ownership_of(path), fix_for(error, path, root)))


def _trust(root: str) -> Iterator[Finding]:
    """Who decides what others get from this cache: everyone who can write to it."""
    status = os.stat(root)
    if status.st_uid not in (os.geteuid(), 0):
        yield Finding(ODD, "trust", f"the cache belongs to {user(status.st_uid)}, who decides what is in it")
    if status.st_mode & stat.S_IWOTH:
        text = "everyone on this machine can write to it, and so decide what others link into their programs"
        yield Finding(ODD, "trust", text)
    elif status.st_mode & stat.S_IWGRP:
        text = f"every member of {group(status.st_gid)} can write to it, and decides what others get"
        yield Finding(ODD, "trust", text)


def _directories(root: str) -> Iterator[Finding]:
    """Create and remove a probe in each existing directory."""
    top = Directory(root)
    is_staged = _has_scratch(top)
    for name in ("tmp", ".", "journal", "locks", "locks/running", "remote"):
        path = os.path.normpath(f"{root}/{name}")
        error = _try_directory(top, name, is_staged)
        if error:
            text = f"nothing can be stored in `{path}`: {_message(error)}"
            yield _unusable(name, text, error, path, root)
    for bucket in store.BUCKETS:
        shards = [f"{root}/{bucket}", *_shards(f"{root}/{bucket}")]
        tried = [(path, _try_directory(top, os.path.relpath(path, root), is_staged)) for path in shards]
        failed = [(path, error) for path, error in tried if error]
        if failed:
            path, error = failed[0]
            text = f"nothing can be stored in {len(failed)} of {len(shards)} directories: {_message(error)}"
            yield _unusable(bucket, text, error, path, root)
        yield from _not_files(root, bucket, shards[1:])


def _not_files(root: str, bucket: str, shards: list[str]) -> Iterator[Finding]:
    """Reports records and blobs that are no regular files: each would always be a miss."""
    found = [path for shard in shards for path, is_file in _entries(shard) if not is_file]
    if found:
        first = os.path.relpath(found[0], root)
        text = f"{len(found)} entries are not regular files, the first is `{first}`"
        yield _unusable(bucket, text, _NO_FILE, found[0], root)


def _has_scratch(top: Directory) -> bool:
    """Whether files can be created in `tmp`; if not, that is reported once, not for each directory."""
    return os.path.lexists(f"{top.path}/tmp") and _try_directory(top, "tmp", False) is None


def _message(error: OSError) -> str:
    return error.strerror or str(error)


def _try_directory(top: Directory, name: str, is_staged: bool) -> OSError | None:
    """Create a file in a directory of the cache as storing does; the error, or None, also if it is missing.

    Like storing, it follows no links. If `is_staged`, the probe is created in `tmp` first.
    """
    # If this is killed, `clean` removes files with such names.
    first, last = os.urandom(16).hex(), os.urandom(16).hex()
    folder = "" if name == "." else f"{name}/"
    try:
        if not stat.S_ISDIR(top.status(name).st_mode):
            return OSError(errno.ENOTDIR, "it is a link, or not a directory")
        try:
            if is_staged:
                top.write(folder + first, b"probe", 0o600)
            else:
                os.close(top.open(folder + first, os.O_WRONLY, make=True)[0])
            top.rename(folder + first, last)
            top.unlink(folder + last)
        finally:
            for left in (first, last):
                with contextlib.suppress(OSError):
                    top.unlink(folder + left)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _locks(root: str) -> Iterator[Finding]:
    """Take and release each existing lock."""
    for path, is_file in _entries(f"{root}/locks"):
        name = os.path.relpath(path, root)
        if not path.endswith(".lock"):
            continue
        if not is_file:
            yield _unusable("locks", f"`{name}` is not a regular file", _NO_FILE, path, root)
            continue
        try:
            with held(Directory(root), name, _LOCK_SECONDS):
                pass
        except TimeoutError:
            text = f"`{name}` has been held by another process for too long"
            yield Finding(ODD, "locks", text, (_holder(path),))
        except OSError as error:
            yield _unusable("locks", f"`{name}` cannot be locked: {error.strerror}", error, path, root)


def _holder(path: str) -> str:
    """The process that holds a lock, from /proc/locks."""
    inode = os.stat(path).st_ino
    with open("/proc/locks", encoding="ascii", errors="replace") as stream:
        for line in stream:
            columns = line.split()
            if "FLOCK" in columns and columns[-3].endswith(f":{inode}") and columns[-4].isdecimal():
                pid = columns[-4]
                shown = f"`ps -o pid,stat,args {pid}`"
                return f"process {pid} holds it: {shown}; if it is stopped, `kill -CONT {pid}`"
    return "its holder is unknown here: it may run on another machine or in another container"


def _journal(root: str) -> Iterator[Finding]:
    log = os.path.join(root, "journal", LOG)
    try:
        os.close(Directory(root).open(f"journal/{LOG}", os.O_WRONLY | os.O_APPEND)[0])
        return
    except FileNotFoundError:
        return
    except OSError as raised:
        error = raised
    if os.path.lexists(log) and not stat.S_ISREG(os.lstat(log).st_mode):
        error = _NO_FILE
    yield _unusable("journal", f"calls cannot be counted in `{log}`: {_message(error)}", error, log, root)


def _readable(root: str) -> Iterator[Finding]:
    """Whether this user can read what others have stored, by one file of each directory."""
    for bucket in store.BUCKETS:
        if bucket in _PRIVATE:
            continue
        samples = [entries[0][0] for path, _ in _entries(f"{root}/{bucket}") if (entries := _entries(path))]
        unreadable = [path for path in samples if not os.access(path, os.R_OK, effective_ids=True)]
        if unreadable:
            text = f"{len(unreadable)} of {len(samples)} files that were looked at cannot be read"
            yield _unusable(bucket, text, OSError(errno.EACCES, ""), unreadable[0], root, ODD)


def _file_system(root: str) -> Iterator[Finding]:
    top = Directory(root)
    name = f"{'tmp/' if _has_scratch(top) else ''}{os.urandom(16).hex()}"
    try:
        before = time.time()
        descriptor, _ = top.open(name, os.O_WRONLY, make=True)
        try:
            os.write(descriptor, b"probe")
            written = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        with held(top, name, 1.0):
            yield Finding(GOOD, "locks", "work")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, *_FULL):  # reported by the probes
            text = f"do not work here ({_message(error)}): keep the cache on another disk"
            yield Finding(BAD, "locks", text)
        return
    finally:
        with contextlib.suppress(OSError):
            top.unlink(name)
    skew = written.st_mtime - before
    if abs(skew) > _CLOCK_SLACK:
        yield Finding(BAD, "clock", f"files of the cache are dated {skew:+.1f} s off this machine's clock")
    if written.st_mtime_ns % 10**9 == 0:
        yield Finding(ODD, "dates", "the file system keeps coarse dates: fresh files are recorded later")


def _entries(directory: str) -> list[tuple[str, bool]]:
    """The entries of a directory that is not a link: the path of each, and whether it is a regular file."""
    if os.path.islink(directory):
        return []
    try:
        with os.scandir(directory) as entries:
            return sorted((entry.path, entry.is_file(follow_symlinks=False)) for entry in entries)
    except OSError:
        return []  # the probe has reported it


def _shards(bucket: str) -> list[str]:
    return [path for path, _ in _entries(bucket) if len(os.path.basename(path)) == 2]


def ownership_of(path: str) -> str:
    """The owner, the group and the mode of a path, links not followed."""
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"`{path}`: {error.strerror}"
    mode = f"{stat.S_IMODE(status.st_mode):03o}"
    return f"`{path}`: owner {user(status.st_uid)}, group {group(status.st_gid)}, mode {mode}"


def user(uid: int) -> str:
    """`name (uid)`, or only the number of an unknown user."""
    return _named(pwd.getpwuid, uid)


def group(gid: int) -> str:
    return _named(grp.getgrgid, gid)


def _named(entry_of: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return f"{entry_of(number)[0]} ({number})"
    except KeyError:
        return str(number)


def fix_for(error: OSError, path: str, root: str) -> str:
    """What to do so that this user can use `path`, which failed with `error`."""
    if error.errno in _FULL:
        return _MAKE_ROOM
    if error.errno == errno.EROFS and os.path.lexists(os.path.join(root, cachedir_tag.NAME)):
        return "the file system is read-only: `NVCCACHE_READONLY=1`, or another directory in `NVCCACHE_DIR`"
    if error.errno == errno.EROFS or not os.path.lexists(root):
        return "it cannot be created: set `NVCCACHE_DIR` to another directory"
    if error.errno in _STRANGE and path == root:
        return _NAME_ANOTHER
    if error.errno in _STRANGE:
        command = "rm -r" if os.path.isdir(path) and not os.path.islink(path) else "rm"
        return f"nvccache uses only what it created itself: `{command} {shlex.quote(path)}`"
    return _fix_for_modes(path, root)


def _fix_for_modes(path: str, root: str) -> str:
    me = os.geteuid()
    existing = path if os.path.lexists(path) else os.path.dirname(path)
    of_existing, of_root = os.lstat(existing), _nearest(root)
    quoted, everything = shlex.quote(existing), shlex.quote(root)
    if of_existing.st_uid == me:
        return f"`chmod -R u+rwX {everything}`"
    if of_root.st_mode & stat.S_IWOTH:
        return _share(everything, quoted, existing, "a+rwX", "000")
    if of_root.st_mode & stat.S_IWGRP:
        if of_root.st_gid not in (os.getegid(), *os.getgroups()):
            return f"join its group: `sudo usermod -aG {_name(group(of_root.st_gid))} {_name(user(me))}`"
        mode = "g+rwXs" if os.path.isdir(existing) else "g+rw"
        given = f"`sudo chgrp -R {_name(group(of_root.st_gid))} {everything}` and "
        return given + _share(everything, quoted, existing, mode, "002")
    if of_root.st_uid == me:
        return f"`sudo chown -R {me} {everything}`"
    return (
        f"it belongs to {user(of_root.st_uid)}: set `NVCCACHE_DIR` to a directory of yours, or share this one"
        " as docs/how-to/shared-cache.md describes"
    )


def _share(everything: str, quoted: str, existing: str, mode: str, mask: str) -> str:
    command = f"chmod {mode.replace('X', '')} {quoted}"
    if os.path.isdir(existing):
        command = f"find {everything} -type d -exec chmod {mode} {{}} +"
    return f"`sudo {command}`, and `NVCCACHE_UMASK={mask}` for all users"


def _nearest(path: str) -> os.stat_result:
    """The status of a directory or, if it is missing, of the nearest one above it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.stat(path)


def _name(shown: str) -> str:
    return shown.partition(" ")[0]
