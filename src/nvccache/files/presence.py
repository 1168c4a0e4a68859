"""What is there under a name, how it looks, what is in a directory, and who asks, with what means.

Part of the hot path.
"""

from __future__ import annotations

import os
import stat

from nvccache.files import keys, signatures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.files.signatures import Signature

# What can be found under a name; each stands before the name in an input record.
ABSENT, FOLDER, EXECUTABLE, PRESENT, UNREACHABLE = "-", "d", "x", "+", "!"
WHOLE_STATUS, STATUS_OF_LINK, ATTRIBUTES = "=", "@", "%"  # begin what `status_of` says
_LIMITS = "/proc/self/limits"
# What is enough for any compile, or what most shells have. A limit of more reaches no result.
ENOUGH = {
    "stack size": 8 << 20,
    "address space": 64 << 30,
    "data size": 64 << 30,
    "file size": 4 << 30,
    "open files": 256,
    "processes": 64,
    "cpu time": 3600,  # seconds
}


def state_of(path: str) -> str:
    """What is there under a name, links followed."""
    return look(path)[0]


def look(path: str) -> tuple[str, bool]:
    """What is there under a name, links followed, and whether the name is that of a link."""
    is_link = False
    try:
        mode = os.lstat(path).st_mode
        is_link = stat.S_ISLNK(mode)
        if is_link:
            mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, is_link
    except (OSError, ValueError):
        return UNREACHABLE, is_link
    if stat.S_ISDIR(mode):
        return FOLDER, is_link
    return EXECUTABLE if stat.S_ISREG(mode) and os.access(path, os.X_OK) else PRESENT, is_link


_LITTLE = 128 << 20  # bytes


def reader() -> str:
    """Who this process is, as far as it decides what may be read."""
    return ":".join(map(str, (os.geteuid(), os.getegid(), *sorted(os.getgroups()))))


def tight_limits() -> tuple[str, ...]:
    """The limits of this process by which a compile may fail that succeeds elsewhere; none, as a rule."""
    try:
        descriptor = os.open(_LIMITS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        lines = os.read(descriptor, 1 << 13).decode("ascii", "replace").split("\n")
    finally:
        os.close(descriptor)
    found = []
    for line in lines:
        name, soft = line[4:26].rstrip(), line[26:47].strip()  # behind `Max `
        if soft.isdecimal() and int(soft) < ENOUGH.get(name, 0):
            found.append(f"{name} {soft}")
    return tuple(found)


def has_little_memory() -> bool:
    """Whether this process may use so little that nvcc fails, and threads of ours may not start."""
    limits = [limit.rpartition(" ") for limit in tight_limits()]
    return any(name in ("data size", "address space") and int(size) < _LITTLE for name, _, size in limits)


def can_make_temporary_files(environ: Mapping[str, str]) -> bool:
    """Whether there is the directory in which nvcc makes its files; without it, it fails."""
    directory = environ.get("TMPDIR", "/tmp")
    return bool(directory) and os.access(f"{directory}/.", os.W_OK | os.X_OK)


def digest_of_listing(directory: str) -> str:
    """The digest of the names in a directory, each with what it is; empty if it cannot be listed.

    Links are not followed: where they lead is in no listing.
    """
    try:
        with os.scandir(directory) as entries:
            found = sorted(
                [
                    entry.name + ("/f" if entry.is_file(follow_symlinks=False) else _kind_of(entry))
                    for entry in entries
                ]
            )
        return keys.digest_bytes(os.fsencode("\0".join(found)))
    except (OSError, ValueError):
        return ""


def _kind_of(entry: os.DirEntry[str]) -> str:
    """What no regular file is; what the kernel says with the name, so that nothing is asked for it."""
    if entry.is_dir(follow_symlinks=False):
        return "/d"
    return "/l" if entry.is_symlink() else "/o"


def identities(paths: Iterable[str]) -> list[tuple[str, ...]]:
    """Each path with the first of them that is the same directory; one that is gone is none of the others.

    Which ones are the same counts, not what they are on this machine: compilers search a directory once.
    """
    first: dict[tuple[int, ...] | str, str] = {}
    found: list[tuple[str, ...]] = []
    for path in paths:
        shown = signatures.of(path)
        found.append((path, first.setdefault(shown[:2] if shown else path, path)))
    return found


def likenesses(copies: Iterable[tuple[str, str, Signature]]) -> list[tuple[str, ...]]:
    """What decides whether a compiler that heeds `#pragma once` takes copies of a file for one.

    Of path, digest and signature each: the path, the first of its copies that has the same date, for gcc, and
    the first that is the same file, for clang.
    """
    dated: dict[tuple[str, int], str] = {}
    same: dict[tuple[str, int, int], str] = {}
    return [
        (
            path,
            dated.setdefault((digest, shown[3] // 10**9), path),
            same.setdefault((digest, *shown[:2]), path),
        )
        for path, digest, shown in copies
    ]


def _attributes_of(path: str) -> str:
    """The digest of the extended attributes of a file; empty where there are none to be had."""
    try:
        found = [os.fsencode(name) + b"=" + os.getxattr(path, name) for name in sorted(os.listxattr(path))]
        return keys.digest_bytes(b"\0".join(found))
    except (OSError, ValueError):
        return ""


def date_and_size(path: str) -> str:
    """What a tool that asks for a file's date sees; empty when there is no such file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{path}:{int(status.st_mtime)}:{status.st_size}"


def status_of(path: str, how: str = WHOLE_STATUS) -> str:
    """All that a program sees that asks for a file's status, for that of a link itself, or for attributes.

    Empty when there is no such file.
    """
    if how == ATTRIBUTES:
        return how + _attributes_of(path)
    try:
        status = os.lstat(path) if how == STATUS_OF_LINK else os.stat(path)
    except (OSError, ValueError):
        return ""
    numbers = (status.st_dev, status.st_ino, status.st_mode, status.st_nlink, status.st_uid, status.st_gid)
    return how + " ".join(map(str, (*numbers, status.st_size, status.st_mtime_ns)))
