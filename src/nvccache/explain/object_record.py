"""The record of an object: which call made it last, of what its keys were made, and why it was not answered.

One for each object (see sections.py for the form), read by its owner alone. Written by calls that no record
answered; direct hits leave it alone, and the journal tells of them. Values of macros and of variables may be
secrets: components hold digests of them, under a key of the record's own, which is enough to tell that
they differ.

    cause          a clause that follows "because"
    details        further differences, a clause each
    outcome        a word of outcomes.py
    digest_key     makes the digests of this record incomparable with all others
    record_name    what leads to the record of the call (record.Pair.name), or empty; `scope` see direct.py
    reason_against_record          why there is no direct record of it, a clause
    kept_here      why no other directory shares that, a clause of record_call.py
    checkout       see base_dir.py; `source` is the first that was compiled, with the digest of its content
    stages         of each: its name, and what leads to its record
    components     of each key: the name of its stage, or nothing for the call, a tag, and the parts, each as
                   it may be shown and with what tells it from others that look the same
    stage_reasons  of each stage that ran: its name, and why, a clause
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from nvccache.explain.difference_text import Component
from nvccache.files import keys
from nvccache.store import sections, store
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OF_CALL = ""  # in the place of a stage's name
_LARGEST_COMPONENT = 1 << 14  # characters; of a larger one, a digest is kept
_MOST_STAGES = 100  # whose components are kept


# In UTF-8 whatever the locale: what stands for a hidden value is in no other.
def _encode_text(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decode_text(section: bytes) -> str:
    return section.decode(errors="surrogateescape")


def _encode_texts(texts: Iterable[str]) -> bytes:
    return _encode_text("\0".join([*texts, ""]))


def _decode_texts(section: bytes) -> list[str]:
    """Raises ValueError."""
    *texts, rest = _decode_text(section).split("\0")
    if rest:
        raise ValueError("a text without an end")
    return texts


def _encode_pairs(pairs: list[tuple[str, str]]) -> bytes:
    return _encode_texts([text for pair in pairs for text in pair])


def _decode_pairs(section: bytes) -> list[tuple[str, ...]]:
    """Raises ValueError."""
    return sections.in_tuples(_decode_texts(section), 2)


def _encode_rows(rows: list[tuple[str, ...]]) -> bytes:
    return _encode_texts([text for row in rows for text in (str(len(row)), *row)])


def _decode_rows(section: bytes) -> list[tuple[str, ...]]:
    """Raises ValueError."""
    strings = iter(_decode_texts(section))
    rows = []
    for length in strings:
        if not length.isdecimal() or len(length) > 6:
            raise ValueError("a length is no number")
        row = tuple(string for _, string in zip(range(int(length)), strings, strict=False))
        if len(row) != int(length):
            raise ValueError("a row is cut short")
        rows.append(row)
    return rows


_TEXT = (_encode_text, _decode_text)
_PAIRS = (_encode_pairs, _decode_pairs)
_RECORD = sections.Schema(
    "object-7",
    ("cause", _TEXT),
    ("details", (_encode_texts, _decode_texts)),
    ("outcome", _TEXT),
    ("digest_key", _TEXT),
    ("record_name", _TEXT),
    ("scope", _TEXT),
    ("reason_against_record", _TEXT),
    ("kept_here", _TEXT),
    ("checkout", _TEXT),
    ("source", (_encode_texts, _decode_texts)),
    ("stages", _PAIRS),
    ("components", (_encode_rows, _decode_rows)),
    ("stage_reasons", _PAIRS),
)


class StageKeys:
    """What the key of a stage is made of, and what leads to its record."""

    __slots__ = ("components", "name", "record_name")

    def __init__(self, name: str, record_name: str, components: Sequence[Component]) -> None:
        self.name = name
        self.record_name = record_name
        self.components = components


class ObjectRecord:
    """What is known of the last compile of an object. `components` are those of the call."""

    __slots__ = (
        "cause",
        "checkout",
        "components",
        "details",
        "digest_key",
        "kept_here",
        "outcome",
        "reason_against_record",
        "record_name",
        "scope",
        "source",
        "stage_reasons",
        "stages",
    )

    cause: str
    details: list[str]
    outcome: str
    digest_key: str
    record_name: str
    scope: str
    reason_against_record: str
    kept_here: str
    checkout: str
    source: list[str]  # its path and digest
    components: list[Component]
    stages: list[StageKeys]
    stage_reasons: list[tuple[str, str]]

    def __init__(self) -> None:
        self.kept_here, self.checkout, self.source = "", "", ["", ""]


_PLAIN = tuple(name for name in _RECORD.names if name not in ("stages", "components"))


def digest(digest_key: str, text: str) -> str:
    """What tells that a text is another one; that of keys.py would lead back to a short text, by trying."""
    components = [("digest key", (_encode_text(digest_key),)), ("text", (_encode_text(text),))]
    return keys.key_of("hidden text", components)


def key_of(product: str) -> str:
    return keys.key_of("object", [("path", (os.path.normpath(product),))])


def add(products: Iterable[str], record: ObjectRecord, cache: Store) -> None:
    """Put a record under each object that a call makes."""
    rows = list(_rows(OF_CALL, record.components))
    for stage in record.stages[:_MOST_STAGES]:
        rows += _rows(stage.name, stage.components)
    values = {name: getattr(record, name) for name in _PLAIN}
    values["stages"] = [(stage.name, stage.record_name) for stage in record.stages[:_MOST_STAGES]]
    values["components"] = rows
    encoded = _RECORD.encode(values)
    for product in products:
        cache.add_record(store.OBJECT, key_of(product), encoded, lock=False)


def note_of_source(source: str, product: str, cache: Store) -> None:
    """Remember which object was made last of a source with this name, in whichever directory."""
    cache.add_memo(_key_of_name(source), product)


def find_of_source(source: str, cache: Store) -> tuple[str, ObjectRecord | None]:
    """The object that was made last of a source with this name, and what is known of it; or nothing."""
    product = cache.find_memo(_key_of_name(source))
    return product, find(product, cache) if product else None


def _key_of_name(source: str) -> str:
    return keys.key_of("object of source", [("name", (os.path.basename(source),))])


def find(product: str, cache: Store) -> ObjectRecord | None:
    """What is known of the last compile of an object; None if nothing is."""
    return read(key_of(product), cache)


def read(key: str, cache: Store) -> ObjectRecord | None:
    """As `find`, by the key of the product."""
    encoded = cache.find_record(store.OBJECT, key)
    if encoded is None:
        return None
    try:
        return _of_values(_RECORD.decode(encoded))
    except ValueError:
        cache.remove_damaged(store.OBJECT, key)
        return None


def _of_values(values: dict[str, Any]) -> ObjectRecord:
    """Raises ValueError."""
    record = ObjectRecord()
    for name in _PLAIN:
        setattr(record, name, values[name])
    if len(record.source) != 2:
        raise ValueError("a source without a digest")
    components: dict[str, list[Component]] = {}
    for row in values["components"]:
        if len(row) < 2:
            raise ValueError("a component without a tag")
        parts = [(shown, rest) for shown, rest in sections.in_tuples(list(row[2:]), 2)]
        components.setdefault(row[0], []).append((row[1], parts))
    record.components = components.get(OF_CALL, [])
    record.stages = [
        StageKeys(name, record_name, components.get(name, [])) for name, record_name in values["stages"]
    ]
    return record


def bounded(components: Iterable[Component]) -> list[Component]:
    """Components as they are kept and compared: of a large one no more than tells that it differs."""
    found: list[Component] = []
    for tag, parts in components:
        flat = [string for part in parts for string in part]
        is_large = sum(map(len, flat)) + len(flat) > _LARGEST_COMPONENT
        found.append((tag, [("", keys.key_of(tag, [("parts", tuple(flat))]))] if is_large else parts))
    return found


def _rows(owner: str, components: Iterable[Component]) -> Iterator[tuple[str, ...]]:
    for tag, parts in bounded(components):
        yield (owner, tag, *(string for part in parts for string in part))
