"""Signed requests of tests to an S3 service: for buckets, policies and objects."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import urllib.parse
from dataclasses import dataclass

_REGION = "us-east-1"


@dataclass(frozen=True)
class Keys:
    """An access key and its secret."""

    access: str
    secret: str


def request(
    port: int, keys: Keys, method: str, path: str, query: str = "", body: bytes = b""
) -> tuple[int, bytes]:
    """A signed request to this machine; its status and what it answered. Queries are of one parameter."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": digest, "x-amz-date": now}
    quoted = urllib.parse.quote(path)
    canonical = query if not query or "=" in query else f"{query}="
    signed = ";".join(sorted(headers))
    lines = [method, quoted, canonical, *(f"{name}:{headers[name]}" for name in sorted(headers))]
    canonical_request = "\n".join([*lines, "", signed, digest])
    scope = f"{now[:8]}/{_REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical_request.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in (now[:8], _REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={signed}, Signature={signature}"
    )
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        line.request(method, f"{quoted}?{query}" if query else quoted, body=body, headers=headers)
        reply = line.getresponse()
        return reply.status, reply.read()
    finally:
        line.close()
