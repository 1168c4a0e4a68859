"""S3 services: Ceph's RGW with signatures and policies as in the real one, and moto, a mock without.

RGW is where `NVCCACHE_TEST_RGW` says (docs/development/testing.md): Debian's packages, unpacked by
`tests/support/rgw_prefix.sh`, and run by their own loader, whatever release of Debian this is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import servers, sigv4

BUCKET = "cache"
OWNER = sigv4.Keys("OWNERKEY0000000", "secret-of-the-owner")
READER = sigv4.Keys("READERKEY000000", "secret-of-the-reader")
UNKNOWN = sigv4.Keys("NOBODYSKEY00000", "secret-of-the-owner")
_CONFIGURATION = """\
[global]
fsid = 2f5b1c0e-7f0e-4d6c-9c57-6f1a55f0a1d3
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = /dev/null
run_dir = {here}
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:{port}
rgw_backend_store = dbstore
rgw_config_store = dbstore
dbstore_config_uri = file:{here}/config.db
dbstore_db_dir = {here}/data
rgw_data = {here}/data
log_file = {here}/log
admin_socket = {here}/socket
"""


@dataclass(frozen=True)
class S3:
    """A service that is up, with one bucket."""

    port: int
    bucket: str = BUCKET

    def url(self, prefix: str = "nv", port: int = 0, more: str = "") -> str:
        """What a user sets; credentials are in the environment: see `environ`."""
        endpoint = f"http://{servers.HOST}:{port or self.port}"
        return f"s3://{self.bucket}/{prefix}?endpoint={endpoint}&region=us-east-1{more}"

    def environ(self, keys: sigv4.Keys = OWNER) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": keys.access, "AWS_SECRET_ACCESS_KEY": keys.secret}

    def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> bytes:
        """A request as the owner, which must succeed."""
        status, answer = sigv4.request(self.port, OWNER, method, path, query, body)
        assert status < 300, (method, path, status, answer)
        return answer

    def names(self) -> list[str]:
        """Of all objects in one listing."""
        listing = self.ask("GET", f"/{self.bucket}", "max-keys=1000").decode()
        return re.findall(r"<Key>([^<]+)</Key>", listing)

    def allow(self, principal: object, *actions: str) -> None:
        """Give these rights on the bucket, and no others, to all (`*`) or to a user of RGW."""
        resources = [f"arn:aws:s3:::{self.bucket}", f"arn:aws:s3:::{self.bucket}/*"]
        statement = {"Effect": "Allow", "Principal": principal, "Resource": resources, "Action": actions}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.ask("PUT", f"/{self.bucket}", "policy", json.dumps(policy).encode())


READER_PRINCIPAL = {"AWS": ["arn:aws:iam:::user/reader"]}
EVERYBODY = "*"


@contextlib.contextmanager
def rgw(directory: Path) -> Iterator[S3]:
    """Ceph RGW with an owner of the bucket and a second user who has no rights on it."""
    prefix = os.environ.get("NVCCACHE_TEST_RGW")
    if not prefix:
        pytest.skip("no Ceph RGW: NVCCACHE_TEST_RGW is not set (see docs/development/testing.md)")
    (directory / "data").mkdir(parents=True)
    port = servers.free_port()
    (directory / "ceph.conf").write_text(_CONFIGURATION.format(here=directory, port=port))
    with servers.running([*_words(Path(prefix), "radosgw", directory), "-f"], directory, port):
        for name, keys in (("owner", OWNER), ("reader", READER)):
            argv = [*_words(Path(prefix), "radosgw-admin", directory), "user", "create"]
            argv += [f"--uid={name}", f"--display-name={name}"]
            argv += [f"--access-key={keys.access}", f"--secret-key={keys.secret}"]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        service = S3(port)
        service.ask("PUT", f"/{BUCKET}")
        yield service


@contextlib.contextmanager
def moto(directory: Path) -> Iterator[S3]:
    """moto's server, which can be installed into an environment of its own."""
    argv = servers.program("moto_server", "pip install 'moto[server,s3]'")
    directory.mkdir()
    port = servers.free_port()
    with servers.running([argv, "-H", servers.HOST, "-p", str(port)], directory, port):
        service = S3(port)
        service.ask("PUT", f"/{BUCKET}")
        yield service


def _words(prefix: Path, name: str, directory: Path) -> list[str]:
    """A program of the prefix, started by the prefix's loader."""
    libraries = [prefix / "usr/lib/x86_64-linux-gnu", prefix / "usr/lib/x86_64-linux-gnu/ceph"]
    loader = prefix / "usr/lib64/ld-linux-x86-64.so.2"
    start = [loader, "--library-path", ":".join(map(str, libraries)), prefix / "usr/bin" / name]
    options = ["-c", directory / "ceph.conf", "--no-mon-config", "-n", "client.rgw"]
    return [str(word) for word in (*start, *options)]
