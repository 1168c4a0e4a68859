"""How many stages in a row other machines took and did not give back, over all calls of this user here.

One such stage may be its own fault, or that of one worker. Where it is one after the other, the engine is of
no use, though it answers. The file has one byte for each.
"""

from __future__ import annotations

import contextlib
import os

from nvccache.files import untrusted

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | untrusted.FILE


class Losses:
    """Counts in a file beside the slots (machine/slots.py); without a directory for this process only."""

    def __init__(self, directory: str, identity: str) -> None:
        self._path = f"{directory}/executor-{identity}.lost" if directory else ""
        self._own = 0

    def add(self) -> int:
        """Count one more; how many there are in a row."""
        self._own += 1
        if not self._path:
            return self._own
        try:
            descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError:
            return self._own
        try:
            os.write(descriptor, b".")
            return os.fstat(descriptor).st_size
        except OSError:
            return self._own
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """One has come back."""
        self._own = 0
        if self._path:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
