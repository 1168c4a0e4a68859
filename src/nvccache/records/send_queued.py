"""The process that sends what calls have queued for remotes, and that nobody waits for.

    python -m nvccache.records.send_queued DIRECTORY

Started by remote/uploads.py; how long it goes on is told in remote/uploader.py.
"""

from __future__ import annotations

import contextlib
import os
import sys

from nvccache import config, remote_url
from nvccache.records.transfer import Transfer
from nvccache.remote import uploader
from nvccache.store import directory
from nvccache.store.directory import StoreError
from nvccache.store.store import Store

_NICE = 10


def main(arguments: list[str]) -> None:
    """Serve one cache directory, with the settings that the environment gives."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    settings = config.load({**os.environ, "NVCCACHE_DIR": arguments[0]})
    if settings.readonly or not settings.remote:
        return
    root = directory.of(settings)
    transfer = Transfer(Store(root, is_readonly=True))
    with contextlib.suppress(OSError, StoreError):
        uploader.serve(root, remote_url.parse(settings.remote), transfer, os.environ, settings.log)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    finally:
        os._exit(0)  # threads that wait for a server that hangs are not waited for
