"""Says hello to a redis by hand, before opendal is asked to.

opendal keeps trying a redis that is not there, or that refuses the password, for as long as it is let: the
right word would never be heard. One round trip in a network that is near.
"""

from __future__ import annotations

import socket

from nvccache.remote import service_error
from nvccache.remote.service_error import ServiceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 4096  # bytes of an answer


def greet(host: str, port: int, options: Mapping[str, str], timeout: float) -> None:
    """Raise ServiceError unless a redis answers and accepts user and password of opendal's options."""
    words = [options[name] for name in ("username", "password") if name in options]
    said = _command("AUTH", *words) if "password" in options else b""
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(said + _command("PING"))
            answer = connection.recv(_MOST)
    except TimeoutError:
        raise ServiceError("timeout") from None
    except OSError:
        raise ServiceError("unreachable") from None
    if not answer:
        raise ServiceError("unreachable")
    first = answer.partition(b"\r\n")[0].decode(errors="replace")
    if first.startswith("-"):
        fault = service_error.of(first[1:])
        # PING itself may be forbidden to a user who may do all that is needed.
        if fault.word != "bad_credentials" or not first.startswith("-NOPERM"):
            raise fault
    elif not first.startswith("+"):
        raise ServiceError("broken", "it is no redis")


def _command(*words: str) -> bytes:
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded])
