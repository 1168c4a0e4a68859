"""GitHub's cache of Actions, version 2, as much of it as opendal uses, in the test's own process.

A name is looked up or reserved by a POST of a protobuf message, which is answered with the signed URL of the
content, to GET or PUT it. Entries are never replaced, and are there once their upload was declared complete.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from hashlib import sha256

from support import fault_server

TOKEN = "s3cret-of-the-runner"
_SERVICE = "/twirp/github.actions.results.api.v1.CacheService/"


class ActionsCache(fault_server.Store):
    """Its `files` are the contents, and `complete` the URLs of those that can be looked up."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.complete: set[str] = set()

    def environ(self, token: str = TOKEN) -> dict[str, str]:
        """The variables of a runner."""
        return {
            "ACTIONS_CACHE_SERVICE_V2": "true",
            "ACTIONS_RESULTS_URL": self.url(""),
            "ACTIONS_RUNTIME_TOKEN": token,
        }


class _Handler(fault_server.Handler):
    server: ActionsCache

    def do_POST(self) -> None:  # noqa: N802
        message = _strings(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(f"POST {self.path}")
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.answer(401)
            return
        path = f"/container/{sha256(message[2].encode()).hexdigest()}"
        method = self.path.removeprefix(_SERVICE)
        is_known = path in self.server.complete
        if method == "FinalizeCacheEntryUpload":
            self.server.complete.add(path)
        if is_known == (method == "GetCacheEntryDownloadURL"):
            url = f"{self.server.url('')[:-1]}{path}?signature=s3cret".encode()
            self.answer(200, b"\x08\x01\x12" + _number(len(url)) + url)  # ok, and the signed URL
        else:
            self.answer(200)  # not ok


def _number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _number(value >> 7)


def _strings(message: bytes) -> dict[int, str]:
    """The fields of a protobuf message that are strings, shorter than 16 KiB; numbers are skipped."""
    fields: dict[int, str] = {}
    content = iter(message)

    def number() -> int:
        byte = next(content)
        return byte if byte < 128 else byte - 128 + (number() << 7)

    for tag in content:
        size = number()
        if tag & 7 == 2:
            fields[tag >> 3] = bytes(next(content) for _ in range(size)).decode()
    return fields


@contextlib.contextmanager
def actions_cache() -> Iterator[ActionsCache]:
    """An empty one that is up."""
    cache = ActionsCache()
    with fault_server.serving(cache):
        yield cache
