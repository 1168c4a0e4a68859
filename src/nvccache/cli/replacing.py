"""Files that a user has named: written at once, never in the place of what is no file, never waited for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile

import click

from nvccache.cli.output import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO


def replace_file(path: str, content: str) -> None:
    """Replace a file by another one at once, so that a full disk leaves what was there.

    A device, a pipe, or what a link leads to is written to; `-` is standard output.
    """
    data = content.encode("utf-8", "backslashreplace")
    try:
        if path == "-" or not _is_replaceable(path):
            with click.open_file(path, "wb") if path == "-" else _opened(path) as stream:
                stream.write(data)
            return
        descriptor, new = tempfile.mkstemp(prefix=".nvccache-", dir=os.path.dirname(path) or ".")
        try:
            with open(descriptor, "wb") as stream:
                stream.write(data)
            umask = os.umask(0o077)
            os.umask(umask)
            os.chmod(new, 0o666 & ~umask)
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)
            raise
    except OSError as error:
        what = "nobody reads this pipe" if error.errno == errno.ENXIO else error.strerror or error
        raise Failure(f"cannot write `{path}`: {what}") from None
    except RuntimeError:  # click's, of a stream that is closed
        raise Failure("standard output is closed") from None


def _opened(path: str) -> IO[bytes]:
    """What is there, to be written to. A pipe that nobody reads would be waited for, perhaps for ever."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


def opened_regular(path: str) -> IO[bytes]:
    """A file to be read; raises OSError, also for a pipe, which would be waited for, perhaps for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file")
    return open(descriptor, "rb")


def _is_replaceable(path: str) -> bool:
    """Not what is a device, a pipe or a link: what it leads to is written to."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True
