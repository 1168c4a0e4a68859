"""Files of a package index, each known by the SHA-256 of its content.

The indexes are those of `pip config list`. Files are not fetched with `pip download`, since it runs the
setup.py of a source distribution, which in many CUDA projects needs torch and a GPU. Index pages are read as
HTML, which every index supports.
"""

from __future__ import annotations

import ast
import hashlib
import html.parser
import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .faults import UnavailableError

_DEFAULT_OF_PIP = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_SECONDS = 60
_READ_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class File:
    """A file of a project on an index. `others` are alternative names and hashes."""

    project: str
    name: str
    sha256: str
    others: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Name -> SHA-256."""
        return {self.name: self.sha256, **dict(self.others)}


@dataclass(frozen=True)
class Indexes:
    """pip's sources: directories and pages of links, indexes, and certificates to trust."""

    links: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    certificates: str | None = None


@dataclass
class _Links(html.parser.HTMLParser):
    """The links of a page: the names of their files -> their addresses."""

    base: str
    found: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "a" and address:
            whole = urllib.parse.urljoin(self.base, address).partition("#")[0]
            self.found[urllib.parse.unquote(whole.rpartition("/")[2])] = whole


def configured() -> Indexes:
    """The indexes of the user's pip; raises UnavailableError if there is no pip."""
    outputs = []
    for argv in (("-m", "pip", "config", "list"), ("-c", _DEFAULT_OF_PIP)):
        done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"`{sys.executable} -m pip` does not say which index to use")
        outputs.append(done.stdout)
    return parsed(outputs[0], outputs[1].strip())


def parsed(listing: str, default: str) -> Indexes:
    """Parse the output of `pip config list`; `default` is pip's own index.

    Environment variables override files, as in pip.
    """
    values: dict[str, str] = {}
    for line in sorted(listing.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        values[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    indexes = () if values.get("no-index", "").lower() in ("1", "true", "yes") else (
        values.get("index-url", default),
        *values.get("extra-index-url", "").split(),
    )  # fmt: skip
    return Indexes(tuple(values.get("find-links", "").split()), indexes, values.get("cert"))


def fetch(file: File, cache: Path, indexes: Indexes) -> Path:
    """The file in the cache directory, downloaded if missing; raises UnavailableError."""
    for name, sha256 in file.names.items():
        if (cache / name).exists():
            _check(cache / name, sha256)
            return cache / name
    refused = ""
    for found, page in _pages(file.project, indexes):
        if not found:
            refused = refused or page
        for name, sha256 in file.names.items():
            if name in found:
                print(f"  fetching {name}", flush=True)
                return _download(found[name], cache / name, sha256, indexes)
    why = refused or "no index that pip is configured with has it"
    raise UnavailableError(f"`{file.name}` is not available: {why}")


def _pages(project: str, indexes: Indexes) -> Iterator[tuple[dict[str, str], str]]:
    """The links of each source, or why there are none."""
    for place in indexes.links:
        if os.path.isdir(place):
            yield {entry: Path(place, entry).resolve().as_uri() for entry in os.listdir(place)}, place
        else:
            yield _links_of(place, indexes)
    for index in indexes.indexes:
        yield _links_of(f"{index.rstrip('/')}/{project}/", indexes)


def _links_of(address: str, indexes: Indexes) -> tuple[dict[str, str], str]:
    try:
        with _opened(address, indexes) as stream:
            text = stream.read().decode(errors="replace")
    except OSError as error:
        return {}, f"{address} does not answer ({_reason(error)})"
    page = _Links(address)
    page.feed(text)
    return page.found, address


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason)


def _opened(address: str, indexes: Indexes):  # type: ignore[no-untyped-def]  # what urlopen returns has no name
    if address.startswith("file:"):
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
        return open(path / "index.html" if path.is_dir() else path, "rb")
    context = ssl.create_default_context(cafile=indexes.certificates)
    request = urllib.request.Request(address, headers={"Accept": "text/html"})
    return urllib.request.urlopen(request, timeout=_SECONDS, context=context)


def _download(address: str, to: Path, sha256: str, indexes: Indexes) -> Path:
    part = to.with_name(f"{to.name}.part")
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _opened(address, indexes) as stream, open(part, "wb") as out:
            shutil.copyfileobj(stream, out, _READ_AT_ONCE)
    except urllib.error.URLError as error:
        raise UnavailableError(f"`{to.name}` is not available: {_reason(error)}") from None
    _check(part, sha256)
    return part.replace(to)


def _check(path: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(_READ_AT_ONCE):
            digest.update(block)
    if digest.hexdigest() != sha256:
        raise UnavailableError(
            f"`{path}` is another file than was asked for: its SHA-256 is {digest.hexdigest()}, not {sha256}"
        )
