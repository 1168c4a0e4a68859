"""moto's server as an S3 service: it knows no signatures and no policies. It can be installed anywhere."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import servers

BUCKET = "cache"
ENVIRON = {"AWS_ACCESS_KEY_ID": "OWNERKEY0000000", "AWS_SECRET_ACCESS_KEY": "secret-of-the-owner"}


@dataclass(frozen=True)
class S3:
    """A service that is up, with one bucket."""

    port: int

    def url(self, port: int = 0) -> str:
        """What a user sets; credentials are in the environment."""
        endpoint = f"http://{servers.HOST}:{port or self.port}"
        return f"s3://{BUCKET}/nv?endpoint={endpoint}&region=us-east-1"


@contextlib.contextmanager
def moto(directory: Path) -> Iterator[S3]:
    argv = servers.program("moto_server", "pip install 'moto[server,s3]'")
    directory.mkdir()
    port = servers.free_port()
    with servers.running([argv, "-H", servers.HOST, "-p", str(port)], directory, port):
        line = http.client.HTTPConnection(servers.HOST, port, timeout=30)
        line.request("PUT", f"/{BUCKET}")
        assert line.getresponse().status == 200
        line.close()
        yield S3(port)
