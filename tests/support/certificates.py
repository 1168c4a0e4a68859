"""A private certificate authority and what it has signed, made by the `openssl` program."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support import servers

_LONG_AGO, _DAY_AFTER = "20200101000000Z", "20200102000000Z"
_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True)
class Authority:
    """Its certificate, which clients trust or not, and where its own files lie."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.crt"

    def sign(self, name: str, is_expired: bool = False) -> tuple[Path, Path]:
        """A certificate for this machine, and its key."""
        key, request, made = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.directory / "extensions"
        extensions.write_text(f"{_NAMES}\nextendedKeyUsage=serverAuth\n")
        _openssl("req", *_NEW_KEY, key, "-out", request, "-subj", "/CN=localhost")
        if is_expired:
            self._sign_for_the_past(request, made, extensions)
        else:
            signer = [
                "-CA",
                self.certificate,
                "-CAkey",
                self.directory / "ca.key",
                "-CAcreateserial",
                "-days",
                "3",
            ]
            _openssl("x509", "-req", "-in", request, *signer, "-out", made, "-extfile", extensions)
        return made, key

    def _sign_for_the_past(self, request: Path, made: Path, extensions: Path) -> None:
        """By `openssl ca`, since only openssl 3.4 and later takes dates elsewhere."""
        (self.directory / "index").write_text("")
        settings = self.directory / "ca.cnf"
        settings.write_text(
            "[ca]\ndefault_ca = d\n[d]\n"
            f"database = {self.directory}/index\nnew_certs_dir = {self.directory}\nrand_serial = yes\n"
            "policy = p\ndefault_md = sha256\n[p]\ncommonName = supplied\n"
        )
        signer = ["-cert", self.certificate, "-keyfile", self.directory / "ca.key"]
        signer += ["-startdate", _LONG_AGO, "-enddate", _DAY_AFTER, "-extfile", extensions]
        _openssl("ca", "-batch", "-notext", "-config", settings, *signer, "-in", request, "-out", made)


_NEW_KEY = ("-new", "-newkey", "rsa:2048", "-nodes", "-keyout")


def authority(directory: Path) -> Authority:
    """A new one; skips the test without openssl."""
    directory.mkdir()
    made = Authority(directory)
    own = ["-x509", "-days", "3", "-subj", "/CN=tests", "-out", made.certificate]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl("req", *_NEW_KEY, directory / "ca.key", *own, *usage)
    return made


def _openssl(*words: str | Path) -> None:
    argv = [servers.program("openssl", "apt install openssl"), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
