"""Which requests a client has sent on one connection, read from its bytes: of HTTP/1.1 or of redis."""

from __future__ import annotations

import re

_HEAD = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class RequestReader:
    """Takes the bytes as they come; what is neither HTTP nor redis, such as TLS, counts as no request."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._rest = b""
        self._skip = 0  # bytes of a body still to come
        self._is_lost = False

    def feed(self, content: bytes) -> None:
        if self._is_lost:
            return
        self._rest += content
        while self._rest and not self._is_lost:
            if self._skip:
                taken = min(self._skip, len(self._rest))
                self._rest, self._skip = self._rest[taken:], self._skip - taken
            elif not self._take_one():
                return

    def _take_one(self) -> bool:
        """Take one request, or one chunk of a body, off the front; whether it was all there."""
        if self._rest.startswith(b"*"):
            return self._take_command()
        if re.match(rb"[0-9a-fA-F]+(?:;[^\r]*)?\r\n", self._rest) and self.requests:
            return self._take_chunk()
        head, found, rest = self._rest.partition(b"\r\n\r\n")
        if not found:
            self._is_lost = not re.match(rb"[A-Z]", self._rest)
            return False
        request = _HEAD.match(head + b"\r\n")
        if not request:
            self._is_lost = True
            return False
        self.requests.append(f"{request[1].decode()} {request[2].decode()}")
        length = _LENGTH.search(head)
        self._rest, self._skip = rest, int(length[1]) if length else 0
        return True

    def _take_chunk(self) -> bool:
        line, _, rest = self._rest.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        self._rest, self._skip = rest, size + 2
        return True

    def _take_command(self) -> bool:
        """Redis: an array of strings, whose first is the command and whose second the key."""
        head, found, rest = self._rest.partition(b"\r\n")
        if not found:
            return False
        words: list[bytes] = []
        for _ in range(int(head[1:])):
            size, found, rest = rest.partition(b"\r\n")
            length = int(size[1:]) if found else 0
            if not found or len(rest) < length + 2:
                return False
            words.append(rest[:length])
            rest = rest[length + 2 :]
        self._rest = rest
        self.requests.append(b" ".join(words[:2]).decode(errors="replace"))
        return True
