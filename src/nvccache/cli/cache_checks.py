"""The checks of `nvccache doctor` for the cache directory: can a compile store, lock and count there?

A probe is created in each part that exists, and removed. A foreign directory is left alone. A part that
cannot be used is reported with its owner and mode; docs/how-to/shared-cache.md says how caches are shared.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import shutil
import stat
import time
from collections.abc import Callable, Iterator

from nvccache.cli.output import BAD, GOOD, ODD, Finding
from nvccache.cli.settings import NO_CACHE, why_not_counted
from nvccache.cli.units import format_size
from nvccache.config import Config
from nvccache.store import directory, store
from nvccache.store.directory import Directory
from nvccache.store.event_line import LOG
from nvccache.store.locks import held

_LEAST_FREE = 1 << 30  # bytes
_NEEDED_FREE = 1 << 20  # for the results of one compile
_CLOCK_SLACK = 2.0  # seconds that a file server's clock may be off
_NAME_ANOTHER = "set `NVCCACHE_DIR` to an empty directory, or one that does not exist yet"
_MAKE_ROOM = "make room on its file system, or set a smaller `max_size` and run `nvccache clean`"


def of_cache(settings: Config) -> Iterator[Finding]:
    """The cache directory, each part of it, and what its file system can do."""
    root = settings.dir
    if not root:
        yield Finding(BAD, "cache", f"no cache: {NO_CACHE}", ("every compile runs plain nvcc",))
    elif Directory(root).problem(()) == "foreign_directory":
        text = f"`{root}` holds files but is not an nvccache cache: it is not used"
        yield Finding(BAD, "cache", text, (ownership_of(root), _NAME_ANOTHER))
    elif settings.readonly:
        state = GOOD if os.path.isdir(root) else ODD
        yield Finding(state, "cache", f"`{root}` is only read: writing was not tried")
    else:
        yield from _of_own(settings)
    for name in ("disable", "readonly", "recache"):
        if getattr(settings, name):
            yield Finding(ODD, "settings", f"`{name}` is on ({settings.origins[name]})")
    if not settings.counts_calls:
        yield Finding(ODD, "counts", why_not_counted(settings))


def _of_own(settings: Config) -> Iterator[Finding]:
    root = settings.dir
    try:
        top = directory.of(settings)
        top.prepare()
        os.listdir(root)
    except OSError as error:
        text = f"`{root}` cannot be used: {error.strerror}"
        yield Finding(BAD, "cache", text, (ownership_of(root), _NAME_ANOTHER))
        return
    limit = f"at most {format_size(settings.max_size)}" if settings.max_size else "of any size"
    yield Finding(GOOD, "cache", f"`{root}`, {limit}")
    yield from _trust(root)
    tried = ((name, _try_directory(top, name)) for name in (".", "tmp", "journal", "locks", *store.BUCKETS))
    failed = [(name, fault) for name, fault in tried if fault]
    for name, fault in failed[:1]:
        path = os.path.normpath(f"{root}/{name}")
        more = f", nor in {len(failed) - 1} other parts of the cache" if failed[1:] else ""
        text = f"nothing can be stored in `{path}`: {fault.strerror}{more}"
        is_full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = _MAKE_ROOM if is_full else f"see docs/how-to/shared-cache.md, or {_NAME_ANOTHER}"
        yield Finding(BAD, "directories", text, (ownership_of(path), f"to fix it: {advice}"))
    if not failed:
        yield Finding(GOOD, "directories", "files can be created, renamed and removed in each")
        yield from _file_system(top)
    free = shutil.disk_usage(root).free
    if free < min(_LEAST_FREE, settings.max_size or _LEAST_FREE):
        text = f"only {format_size(free)} free on its file system"
        yield Finding(BAD if free < _NEEDED_FREE else ODD, "cache", text, (_MAKE_ROOM,))


def _trust(root: str) -> Iterator[Finding]:
    """Who decides what others get from this cache: everyone who can write to it."""
    status = os.stat(root)
    if status.st_uid not in (os.geteuid(), 0):
        owner = _name(pwd.getpwuid, status.st_uid)
        yield Finding(ODD, "trust", f"the cache belongs to {owner}, who decides what is in it")
    if status.st_mode & stat.S_IWOTH:
        text = "everyone on this machine can write to it, and so decide what others link into their programs"
        yield Finding(ODD, "trust", text)
    elif status.st_mode & stat.S_IWGRP:
        members = f"every member of {_name(grp.getgrgid, status.st_gid)}"
        yield Finding(ODD, "trust", f"{members} can write to it, and decides what others get")


def _try_directory(top: Directory, name: str) -> OSError | None:
    """Create a file in a part of the cache as storing does; the error, or None, also if it is missing."""
    # If this is killed, `clean` removes files with such names.
    probe = os.path.normpath(f"{name}/{os.urandom(16).hex()}")
    try:
        if not stat.S_ISDIR(top.status(name).st_mode):
            return OSError(errno.ENOTDIR, "it is a link, or not a directory")
        if name == "journal":
            with contextlib.suppress(FileNotFoundError):
                os.close(top.open(f"journal/{LOG}", os.O_WRONLY | os.O_APPEND)[0])
        descriptor, _ = top.open(probe, os.O_WRONLY, make=True)
        try:
            os.write(descriptor, b"probe")
        finally:
            os.close(descriptor)
            top.unlink(probe)
    except FileNotFoundError:
        return None
    except OSError as error:
        return OSError(error.errno, error.strerror or str(error))
    return None


def _file_system(top: Directory) -> Iterator[Finding]:
    """Whether locks work, and whether its clock is ours."""
    name = os.urandom(16).hex()
    try:
        before = time.time()
        descriptor, status = top.open(name, os.O_WRONLY, make=True)
        os.close(descriptor)
        with held(top, name, 1.0):
            yield Finding(GOOD, "locks", "work")
    except OSError as error:
        yield Finding(BAD, "locks", f"do not work here ({error.strerror}): keep the cache on another disk")
        return
    finally:
        with contextlib.suppress(OSError):
            top.unlink(name)
    skew = status.st_mtime - before
    if abs(skew) > _CLOCK_SLACK:
        yield Finding(BAD, "clock", f"files of the cache are dated {skew:+.1f} s off this machine's clock")


def ownership_of(path: str) -> str:
    """The owner, the group and the mode of a path, links not followed."""
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"`{path}`: {error.strerror}"
    owner, group = _name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)
    return f"`{path}`: owner {owner}, group {group}, mode {stat.S_IMODE(status.st_mode):03o}"


def _name(entry_of: Callable[[int], tuple[object, ...]], number: int) -> str:
    """`name (uid)`, or only the number of an unknown user or group."""
    try:
        return f"{entry_of(number)[0]} ({number})"
    except KeyError:
        return str(number)
