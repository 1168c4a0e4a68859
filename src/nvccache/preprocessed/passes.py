"""What the text of a preprocessor pass tells: which files it names, what it says, and of which checkout.

Facts about a pass are kept in its result (record.py), since the text itself is not: most passes that hit are
read by nobody.
"""

from __future__ import annotations

import json
import os
import re

from nvccache.preprocessed import line_readers, normalized_text
from nvccache.preprocessed.line_markers import are_absolute, listed_files, without_markers
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN_NAME = re.compile(rb"[ !#-\[\]-~]+")  # it stands in markers as it is


@dataclass(frozen=True, slots=True)
class Pass:
    """Facts about one pass.

    `listed` is what a dependency file lists, see line_markers.py; `free_of` is the checkout, or else the
    working directory, if the text does not contain or ask for its path, or empty; `meaning` is the digest of
    what it says apart from lines, or empty (normalized_text.py), and `files` are short digests of what each
    file of the user says, by its name; `is_absolute` if each name in its markers is an absolute path.
    """

    listed: tuple[tuple[bytes, bool], ...]
    free_of: str
    meaning: str = ""
    files: tuple[tuple[bytes, str], ...] = ()
    is_absolute: bool = False

    def is_free_of(self, directory: str) -> bool:
        """Whether the text says nothing of where this directory is, as far as that is known."""
        return self.free_of != "" and f"{directory}/".startswith(f"{self.free_of}/")

    def encoded(self) -> bytes:
        """The form in which a result keeps them."""
        rows = [[_text(name), is_system] for name, is_system in self.listed]
        files = [[_text(name), digest] for name, digest in self.files]
        return json.dumps([rows, self.free_of, self.meaning, files, self.is_absolute]).encode()


def of_text(preprocessed: bytes, places: Iterable[str]) -> Pass:
    """The facts about a pass from what it wrote; `places` are the call's checkout and a directory in it."""
    said = normalized_text.said_in(preprocessed)
    free = (place for place in places if place and not _may_use(place, preprocessed, said.asking))
    listed = tuple(listed_files(preprocessed))
    return Pass(listed, next(free, ""), said.digest, said.files, are_absolute(preprocessed))


def _may_use(directory: str, text: bytes, asking: frozenset[bytes] | None) -> bool:
    """Whether what is made of a text may depend on the path of a directory.

    The names of files, which stand in the markers, can be asked for. `asking` are the user's that may ask for
    lines, by which they would ask for their names; a system header may do so in its functions.
    """
    needle = os.fsencode(directory)
    is_plain = _PLAIN_NAME.fullmatch(needle) is not None
    if is_plain and needle not in text:
        return False
    if needle in without_markers(text):
        return True
    if not line_readers.are_in(text):
        return False
    if not is_plain or asking is None or any(needle in name for name in asking):
        return True
    of_system = rb'\n# \d+ "[^"\n]*' + re.escape(needle) + rb'[^"\n]*" [12] 3'
    return re.search(of_system, text) is not None


def decoded(facts: bytes) -> Pass:
    """The inverse of `Pass.encoded`; raises ValueError."""
    try:
        rows, free_of, meaning, files, is_absolute = json.loads(facts)
        listed = tuple((_bytes(name), bool(is_system)) for name, is_system in rows)
        said = tuple((_bytes(name), str(digest)) for name, digest in files)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return Pass(listed, str(free_of), str(meaning), said, is_absolute is True)


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _bytes(name: object) -> bytes:
    return str(name).encode("latin-1")
