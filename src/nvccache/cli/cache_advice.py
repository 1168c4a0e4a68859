"""What to do about a part of the cache directory that cannot be used: who owns it, its mode, and a command.

Knows how caches are shared (docs/how-to/shared-cache.md); what does not work is found out in cache_checks.py.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Something lies there that is no file or directory of the cache's own.
_STRANGE = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENOTEMPTY, errno.EEXIST)


def whose(path: str) -> str:
    """The owner, the group and the mode of what is there, itself and not what it leads to."""
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"`{path}`: {error.strerror}"
    mode = f"{stat.S_IMODE(status.st_mode):03o}"
    return f"`{path}`: owner {user(status.st_uid)}, group {group(status.st_gid)}, mode {mode}"


def user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)


def group(gid: int) -> str:
    try:
        return f"{grp.getgrgid(gid).gr_name} ({gid})"
    except KeyError:
        return str(gid)


def mend(error: OSError, path: str, root: str) -> str:
    """What to do so that this user can use `path`, of which the system said `error`."""
    if error.errno in _FULL:
        return "make room: `nvccache clean --older-than 7d`, or lower `NVCCACHE_MAX_SIZE`"
    if error.errno == errno.EROFS:
        return "the file system is read-only: `NVCCACHE_READONLY=1`, or another directory in `NVCCACHE_DIR`"
    if error.errno in _STRANGE and path == root:
        return "name an empty directory, or one that does not exist yet, in `NVCCACHE_DIR`"
    if error.errno in _STRANGE:
        command = "rm -r" if os.path.isdir(path) and not os.path.islink(path) else "rm"
        return f"nvccache uses nothing here but what it makes itself: `{command} {shlex.quote(path)}`"
    return _mend_modes(path, root)


def _mend_modes(path: str, root: str) -> str:
    me = os.geteuid()
    place = path if os.path.lexists(path) else os.path.dirname(path)
    of_place, of_root = os.lstat(place), _nearest(root)
    quoted, everything = shlex.quote(place), shlex.quote(root)
    if of_place.st_uid == me:
        return f"`chmod u+rwX {quoted}`"
    if of_root.st_mode & stat.S_IWOTH:
        return _share(everything, quoted, place, "a+rwX", "000")
    if of_root.st_mode & stat.S_IWGRP:
        if of_root.st_gid not in (os.getegid(), *os.getgroups()):
            return f"join its group: `sudo usermod -aG {_name(group(of_root.st_gid))} {_name(user(me))}`"
        given = f"`sudo chgrp -R {_name(group(of_root.st_gid))} {everything}` and "
        return given + _share(everything, quoted, place, "g+rwXs" if os.path.isdir(place) else "g+rw", "002")
    if of_root.st_uid == me:
        return f"`sudo chown -R {me} {everything}`"
    return (
        f"it is {user(of_root.st_uid)}'s own: name a directory of yours in `NVCCACHE_DIR`, or share this one"
        " as docs/how-to/shared-cache.md tells"
    )


def _share(everything: str, quoted: str, place: str, mode: str, mask: str) -> str:
    command = f"chmod {mode.replace('X', '')} {quoted}"
    if os.path.isdir(place):
        command = f"find {everything} -type d -exec chmod {mode} {{}} +"
    return f"`sudo {command}`, and `NVCCACHE_UMASK={mask}` for all users"


def _nearest(path: str) -> os.stat_result:
    """The status of a directory, or of the one above it in which it could not be made."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.stat(path)


def _name(shown: str) -> str:
    return shown.partition(" ")[0]
