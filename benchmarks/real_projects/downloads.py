"""Files of a package index, each known by the SHA-256 of its content.

The indexes are those of `pip config list`. Files are not fetched with `pip download`, since it runs the
setup.py of a source distribution, which in many CUDA projects needs torch and a GPU. Index pages are read as
HTML, which every index supports.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
import ssl
import subprocess
import sys
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

_DEFAULT_OF_PIP = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_SECONDS = 60
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"#]+)')


class UnavailableError(Exception):
    """Something is missing, wrong or has failed; the message is one sentence for the user."""


@dataclass(frozen=True)
class File:
    """A file of a project on an index."""

    project: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Indexes:
    """The addresses of package indexes, and certificates to trust."""

    addresses: tuple[str, ...]
    certificates: str | None = None


def configured() -> Indexes:
    """The indexes that pip uses, from its files and variables."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(pip, check=True, capture_output=True, text=True).stdout
    values: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        values.setdefault(name.rpartition(".")[2], ast.literal_eval(value))
    default = values.get("index-url") or subprocess.check_output(
        [sys.executable, "-c", _DEFAULT_OF_PIP], text=True
    )
    addresses = (default.strip(), *values.get("extra-index-url", "").split())
    return Indexes(addresses, values.get("cert"))


def fetch(file: File, cache: Path, indexes: Indexes) -> Path:
    """The file in the cache directory, downloaded if missing; raises UnavailableError."""
    path = cache / file.name
    why = "no index that pip is configured with has it"
    for index in () if path.exists() else indexes.addresses:
        page = f"{index.rstrip('/')}/{file.project}/"
        try:
            with _open(page, indexes) as stream:
                links = _LINK.findall(stream.read().decode(errors="replace"))
            named = [link for link in links if urllib.parse.unquote(link.rpartition("/")[2]) == file.name]
            if named:
                print(f"  fetching {file.name}", flush=True)
                part = path.with_name(f"{path.name}.part")
                with _open(urllib.parse.urljoin(page, named[0]), indexes) as stream, open(part, "wb") as out:
                    shutil.copyfileobj(stream, out)
                part.replace(path)
                break
        except OSError as error:
            why = f"{page} does not answer ({getattr(error, 'reason', error)})"
    if not path.exists():
        raise UnavailableError(f"`{file.name}` is not available: {why}")
    with open(path, "rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != file.sha256:
        raise UnavailableError(f"the SHA-256 of `{path}` is {digest.hexdigest()}, not {file.sha256}")
    return path


def _open(address: str, indexes: Indexes):  # type: ignore[no-untyped-def]  # what urlopen returns has no name
    context = ssl.create_default_context(cafile=indexes.certificates)
    request = urllib.request.Request(address, headers={"Accept": "text/html"})
    return urllib.request.urlopen(request, timeout=_SECONDS, context=context)
