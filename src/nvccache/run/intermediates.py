"""The scratch directory of one call: which intermediates are known by digest, and which are on disk.

A stage that hits adds only digests here. A file is written when a stage that reads it has to run. Digests
and stored blobs are of the canonical content, with placeholders for the name of the stub file and the module
id that it defines; files for tools have the real ones.
"""

from __future__ import annotations

import os

from nvccache import module_id, passes
from nvccache.files import keys
from nvccache.plan.model import Output
from nvccache.plan.stages.tool import STUB_PLACEHOLDER
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvccache.passes import Pass
    from nvccache.store.store import Store

_PLACEHOLDER = STUB_PLACEHOLDER.encode()
_ON_DISK_ONLY = frozenset({"ii"})  # too large to be worth keeping in memory or in the store


class Intermediates:
    """The intermediate files of a call: their digests, contents and facts."""

    def __init__(
        self,
        store: Store,
        included: dict[str, tuple[str, ...]],
        id_in: Callable[[str], bytes] = lambda path: b"",
    ) -> None:
        self._id_in = id_in  # the module id that a file may define, or nothing
        self._store = store
        self._included = included
        self._digests: dict[str, str] = {}
        self.passes: dict[str, Pass] = {}  # the facts about preprocessed text
        self._contents: dict[str, bytes] = {}  # canonical, of files made in this call
        self._on_disk: set[str] = set()
        self._adopted: set[str] = set()

    def digest_of(self, path: str) -> str:
        return self._digests[path]

    def has_digest(self, path: str) -> bool:
        return path in self._digests

    def meaning_of(self, path: str) -> str:
        """The digest of a text without its lines, or if unknown, of the whole file; empty if not made."""
        meaning = self.passes[path].meaning if path in self.passes else ""
        return meaning or self._digests.get(path, "")

    def are_absolute(self, paths: Iterable[str]) -> bool:
        """Whether some of these files are preprocessed text, and it names others by absolute paths only."""
        texts = [self.passes[path] for path in paths if path in self.passes]
        return bool(texts) and all(text.is_absolute for text in texts)

    def expect(self, path: str, digest: str) -> None:
        """Note the digest of a file that a stage with a hit would have written."""
        self._digests[path] = digest

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files that are about to be made again from something else."""
        for path in paths:
            self._digests.pop(path, None)
            self._contents.pop(path, None)
            self.passes.pop(path, None)
            self._on_disk.discard(path)

    def read_written(self, output: Output) -> bytes:
        """Read a file that a stage wrote, and return its canonical content; raises OSError."""
        with open(output.path, "rb") as stream:
            content = stream.read()
        if output.role == "stub":
            content = content.replace(self._stub_name(output), _PLACEHOLDER)
        identifier = self._id_in(output.path)
        content = module_id.without_id(content, identifier) if identifier else content
        if output.role == "cudafe1.cpp":
            self._on_disk.discard(output.path)  # contains the placeholder; rewritten before a stage reads it
        else:
            self._on_disk.add(output.path)
        if output.role not in _ON_DISK_ONLY:
            self._contents[output.path] = content
        # Stages that depend on the working directory have it in their keys.
        text = passes.without_directory(content) if output.role == "ii" else content
        self._digests[output.path] = keys.digest_bytes(text)
        return content

    def adopt(self, path: str, content: bytes) -> None:
        """Note a file that an opaque command has written or changed."""
        self._digests[path] = keys.digest_bytes(content)
        self._contents.pop(path, None)
        if path in self.passes:  # the files it lists are still right
            self.passes[path] = replace(self.passes[path], meaning="", is_absolute=False)
        self._adopted.add(path)
        self._on_disk.add(path)

    def content_of(self, path: str) -> bytes | None:
        """The canonical content of a known file, or None if the store has lost it."""
        if path in self._contents:
            return self._contents[path]
        if path in self._adopted:
            with open(path, "rb") as stream:
                return stream.read()
        return self._store.read_blob(self._digests[path])

    def can_make(self, path: str) -> bool:
        """Whether a known file is on disk, or can be written without running its stage again."""
        if path in self._on_disk or path in self._contents or not self.has_digest(path):
            return True
        return self._store.has_blob(self._digests[path])

    def materialise(self, path: str, output: Output) -> bool:
        """Write a file for a tool to read, unless it is there; False if the store has lost its content."""
        if path in self._on_disk:
            return True
        content = self.content_of(path)
        if content is None:
            return False
        identifier = self._id_in(path)
        content = module_id.with_id(content, identifier) if identifier else content
        name = self._stub_name(output)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content.replace(_PLACEHOLDER, name) if name else content)
        self._on_disk.add(path)
        return True

    def _stub_name(self, output: Output) -> bytes:
        """What the placeholder stands for in this output; empty if it has none.

        cudafe++'s C++ file includes the stub by its base name; the stub's own line markers contain its path
        as on cicc's command line.
        """
        if output.role == "stub":
            return os.fsencode(output.path)
        if output.role == "cudafe1.cpp" and self._included.get(output.path):
            return os.fsencode(os.path.basename(self._included[output.path][0]))
        return b""
