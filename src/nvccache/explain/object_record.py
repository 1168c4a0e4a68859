"""The record of an object: which call made it last, the components of its keys, and why it was no direct hit.

One for each object, of its last compile that was no direct hit (those are only in the event log, and know no
stages); a miss is compared with it (miss_reason.py). Readable only by its owner. Values of macros and
variables may be secrets: components hold keyed digests of them, with a key for each record, which are enough
to see that a value changed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from nvccache import outcomes
from nvccache.explain.difference_text import Component
from nvccache.files import keys
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

_OF_CALL = ""  # instead of a stage's name
_LARGEST_COMPONENT = 1 << 14  # characters; larger ones are reduced to a digest
SHOWN = ("cause", "outcome", "details", "stage_reasons", "ended")  # fields for the user, not for comparing
_MOST_STAGES = 100  # whose components are kept


@dataclass(slots=True)
class StageKeys:
    """The components of a stage's key, and the name of its record."""

    name: str
    record_name: str
    components: Sequence[Component]


@dataclass(slots=True)
class ObjectRecord:
    """What is known of a compile of an object."""

    cause: str = ""  # a clause that follows "because"
    outcome: str = ""  # one of outcomes.py
    digest_key: str = ""  # makes the digests of this record incomparable with all others
    record_name: str = ""  # of the record of the call (record.Pair.name), or empty
    scope: str = ""  # of that record, see direct.py
    reason_against_record: str = ""  # why there is no direct record of it, a clause
    source: str = ""  # the first that was compiled
    source_digest: str = ""
    ended: float = 0.0  # seconds since the epoch
    details: list[str] = field(default_factory=list)  # further differences, a clause each
    components: list[Component] = field(default_factory=list)  # of the key of the call
    stages: list[StageKeys] = field(default_factory=list)
    # The name of each stage that ran, and why, a clause.
    stage_reasons: list[tuple[str, str]] = field(default_factory=list)

    @property
    def directory(self) -> str:
        return "".join(self.shown("directory"))

    def shown(self, tag: str) -> list[str]:
        """The parts of a component of its key that may be shown; of large ones only digests are kept."""
        return [part[0] for found, parts in self.components if found == tag for part in parts]

    @property
    def has_failed(self) -> bool:
        return self.outcome == outcomes.FAILED


def _encode_rows(rows: Iterable[Sequence[str]]) -> bytes:
    texts = [text for row in rows for text in (str(len(row)), *row)]
    # UTF-8 in any locale: other encodings lack the character for a hidden value.
    return "\0".join([*texts, ""]).encode(errors="surrogateescape")


def _decode_rows(section: bytes) -> list[list[str]]:
    """Raises ValueError."""
    *texts, rest = section.decode(errors="surrogateescape").split("\0")
    if rest:
        raise ValueError("a text without an end")
    rows, strings = [], iter(texts)
    for length in strings:
        if not length.isdecimal() or len(length) > 6:
            raise ValueError("a length is no number")
        row = list(itertools.islice(strings, int(length)))
        if len(row) != int(length):
            raise ValueError("a row is cut short")
        rows.append(row)
    return rows


_ROWS = (_encode_rows, _decode_rows)
_TEXTS = (
    "cause outcome digest_key record_name scope reason_against_record source source_digest ended"
).split()
_RECORD = sections.Schema(
    "object-11",
    ("texts", _ROWS),  # one row, as `details`
    ("details", _ROWS),
    ("components", _ROWS),  # name of a stage or _OF_CALL; tag; two strings for each part
    ("stages", _ROWS),  # name, record_name
    ("stage_reasons", _ROWS),
)


def digest(digest_key: str, text: str) -> str:
    """A digest that shows that a text changed. Without a key of its own, a short text could be guessed."""
    texts = (("digest key", digest_key), ("text", text))
    components = [(tag, (part.encode(errors="surrogateescape"),)) for tag, part in texts]
    return keys.key_of("hidden text", components)


def key_of(product: str) -> str:
    """The key of the record of an object."""
    return keys.key_of("object", [("path", (os.path.normpath(product),))])


def add(products: Iterable[str], record: ObjectRecord, cache: Store) -> None:
    """Store the record of the last compile of each object."""
    for product in products:
        cache.add_record(store.OBJECT, key_of(product), _encode(record), lock=False)


def _encode(record: ObjectRecord) -> bytes:
    stages = record.stages[:_MOST_STAGES]
    components = list(_rows(_OF_CALL, record.components))
    for stage in stages:
        components += _rows(stage.name, stage.components)
    values = {
        "texts": [[str(getattr(record, name)) for name in _TEXTS]],
        "details": [record.details],
        "components": components,
        "stages": [(stage.name, stage.record_name) for stage in stages],
        "stage_reasons": record.stage_reasons,
    }
    return _RECORD.encode(values)


def find(product: str, cache: Store) -> ObjectRecord | None:
    """The record of the last compile of an object."""
    return read(key_of(product), cache)


def read(key: str, cache: Store) -> ObjectRecord | None:
    """Like `find`, by the key of the product."""
    encoded = cache.find_record(store.OBJECT, key)
    if encoded is None:
        return None
    try:
        return _of_values(_RECORD.decode(encoded))
    except ValueError:
        cache.remove_damaged(store.OBJECT, key)
        return None


def _of_values(values: dict[str, list[list[str]]]) -> ObjectRecord:
    """Raises ValueError, also from unpacking a row that is too short."""
    (texts,), (details,) = values["texts"], values["details"]
    record = ObjectRecord(details=details)
    for name, text in zip(_TEXTS, texts, strict=True):
        setattr(record, name, text)
    record.ended = float(record.ended)
    components: dict[str, list[Component]] = {}
    for owner, tag, *flat in values["components"]:
        parts = [(shown, rest) for shown, rest in sections.in_tuples(flat, 2)]
        components.setdefault(owner, []).append((tag, parts))
    record.components = components.get(_OF_CALL, [])
    record.stages = [StageKeys(name, kept, components.get(name, [])) for name, kept in values["stages"]]
    record.stage_reasons = [(name, why) for name, why in values["stage_reasons"]]
    return record


def bounded(components: Iterable[Component]) -> list[Component]:
    """Components in the form that is stored and compared: large ones are reduced to a digest."""
    found: list[Component] = []
    for tag, parts in components:
        flat = [string for part in parts for string in part]
        is_large = sum(map(len, flat)) + len(flat) > _LARGEST_COMPONENT
        found.append((tag, [("", keys.key_of(tag, [("parts", tuple(flat))]))] if is_large else parts))
    return found


def _rows(owner: str, components: Iterable[Component]) -> Iterator[tuple[str, ...]]:
    for tag, parts in bounded(components):
        yield (owner, tag, *(string for part in parts for string in part))
