"""redis with TLS as a remote, by redis-py: opendal, which serves `redis://`, has no TLS for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from nvccache.remote.service import Service, ServiceError
from nvccache.remote_url import Remote

# By exception of redis-py, or its nearest base.
_WORDS = {"AuthenticationError": "bad_credentials", "NoPermissionError": "bad_credentials"}
_WORDS |= {"TimeoutError": "timeout", "ConnectionError": "unreachable"}
_WORDS |= {"OutOfMemoryError": "full", "ReadOnlyError": "denied"}


class RedisWithTls(Service):
    def __init__(self, remote: Remote, environ: Mapping[str, str], timeout: float) -> None:
        try:
            redis = importlib.import_module("redis")
        except ImportError:
            raise ServiceError("not_installed") from None
        self._prefix = remote.options["prefix"] + "/" if "prefix" in remote.options else ""
        self._seconds = remote.options.get("ttl")
        self._client = redis.Redis(
            remote.host.strip("[]"), remote.port, int(remote.path), protocol=2, retry=None,
            username=remote.user or None, password=remote.password or environ.get("REDISCLI_AUTH") or None,
            ssl=True, ssl_check_hostname=True, ssl_ca_certs=environ.get("SSL_CERT_FILE") or None,
            socket_timeout=timeout, socket_connect_timeout=timeout,
        )  # fmt: skip

    def get(self, name: str, most: int) -> bytes | None:
        content = _answer(lambda: self._client.getrange(self._prefix + name, 0, most))
        assert isinstance(content, bytes)
        return content if 0 < len(content) <= most else None  # what is absent is empty

    def put(self, name: str, content: bytes) -> None:
        _answer(lambda: self._client.set(self._prefix + name, content, ex=self._seconds))


def _answer(request: Callable[[], object]) -> object:
    try:
        return request()
    except Exception as error:
        words = (_WORDS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _WORDS)
        is_tls = "SSL" in str(error) or isinstance(error.__context__, FileNotFoundError)
        raise ServiceError("tls" if is_tls else next(words, "broken")) from None
