"""nginx as a WebDAV server (Debian: nginx and libnginx-mod-http-dav-ext): one half to write, one to read.

/rw/    a name and a password, may do everything
/auth/  the same files for a name and a password, nothing but GET
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import servers

USER, PASSWORD = "builder", "s3cret-of-dav"
_MODULE = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so"
_CONFIGURATION = """\
load_module {module};
{user}
daemon off;
master_process off;
pid {here}/nginx.pid;
error_log {here}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log {here}/access.log;
    client_body_temp_path {here}/body;
    proxy_temp_path {here}/t1; fastcgi_temp_path {here}/t2;
    uwsgi_temp_path {here}/t3; scgi_temp_path {here}/t4;
    client_max_body_size 1g;
    server {{
        listen 127.0.0.1:{port};
        location /rw/ {{
            auth_basic "cache"; auth_basic_user_file {here}/htpasswd;
            alias {here}/files/;
            dav_methods PUT DELETE MKCOL COPY MOVE;
            dav_ext_methods PROPFIND OPTIONS;
            create_full_put_path on;
        }}
        location /auth/ {{
            auth_basic "cache"; auth_basic_user_file {here}/htpasswd;
            alias {here}/files/;
            limit_except GET {{ deny all; }}
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Nginx:
    """A server that is up, and where its files lie."""

    port: int
    files: Path

    def url(self, half: str = "rw", password: str = PASSWORD) -> str:
        return f"http://{USER}:{password}@{servers.HOST}:{self.port}/{half}/cache"


@contextlib.contextmanager
def nginx(directory: Path) -> Iterator[Nginx]:
    argv = [servers.program("nginx", "apt install nginx libnginx-mod-http-dav-ext")]
    if not os.path.exists(_MODULE):
        pytest.skip("nginx lacks its module dav-ext (apt install libnginx-mod-http-dav-ext)")
    (directory / "files").mkdir(parents=True)
    port = servers.free_port()
    hashed = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    (directory / "htpasswd").write_text(f"{USER}:{{SHA}}{hashed}\n")
    text = _CONFIGURATION.format(
        module=_MODULE, user="user root;" if os.geteuid() == 0 else "", here=directory, port=port
    )
    (directory / "nginx.conf").write_text(text)
    with servers.running([*argv, "-c", directory / "nginx.conf"], directory, port):
        yield Nginx(port, directory / "files")
