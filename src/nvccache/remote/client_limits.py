"""What opendal takes of this process: how many threads it may start, and whether there is room for it.

Its runtime starts one thread for each core of the machine, unless told otherwise, in every one of a build's
processes. Where it gets no thread or no descriptor it panics, which writes to standard error whatever its
caller makes of the exception: so it is not asked there at all.
"""

from __future__ import annotations

import os
import threading

from nvccache.remote.service_error import OwnLimitError

_VARIABLE = "TOKIO_WORKER_THREADS"
_WORKERS = "2"
_THREADS = 4  # its workers, one that looks up names, and one that somebody else starts meanwhile
_DESCRIPTORS = 16  # 6 of the runtime, and connections


def prepare() -> None:
    """To be called before opendal is imported; raises ServiceError where it would panic."""
    _ask_for_descriptors()
    _ask_for_threads()
    if _VARIABLE not in os.environ:
        # Not in os.environ, which is what the tools of a compile are given.
        os.putenv(_VARIABLE, _WORKERS)


def _ask_for_descriptors() -> None:
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        raise OwnLimitError("unreachable", f"this process: {error.strerror}") from None
    if used + _DESCRIPTORS > most:
        raise OwnLimitError("unreachable", f"this process may open {most} files")


def _ask_for_threads() -> None:
    """Start as many as it will: how many the user may have besides is known by trying only."""
    end = threading.Event()
    try:
        for _ in range(_THREADS):
            threading.Thread(target=end.wait, daemon=True).start()
    except RuntimeError:
        raise OwnLimitError("unreachable", "this process may start no further thread") from None
    finally:
        end.set()
