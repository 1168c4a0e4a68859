"""The record of an object: which call made it last, the components of its keys, and why it was no direct hit.

One for the last compile of each object, and beside it those of the last few that succeeded, with which a miss
is compared (miss_reason.py). Readable only by their owner. Written by all calls but direct hits, which are
only in the event log. Values of macros and variables may be secrets:
components hold keyed digests of them, with a key for each record, which are enough to see that a value
changed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from nvccache import outcomes
from nvccache.explain.difference_text import Component
from nvccache.files import keys
from nvccache.records.base_dir import Relocation
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

_OF_CALL = ""  # instead of a stage's name
_LARGEST_COMPONENT = 1 << 14  # characters; larger ones are reduced to a digest
_MOST_STAGES = 100  # whose components are kept
_MOST_OF_LINE = (
    6  # records of one command line kept beside the last: a miss compares each with the present inputs
)
_MOST_EARLIER = 40  # in all
_MOST_PRODUCTS = 3  # of one source that are remembered


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
    command: str = ""  # a digest of the command line
    digest_key: str = ""  # makes the digests of this record incomparable with all others
    record_name: str = ""  # of the record of the call (record.Pair.name), or empty
    scope: str = ""  # of that record, see direct.py
    reason_against_record: str = ""  # why there is no direct record of it, a clause
    reason_not_shared: str = ""  # why other checkouts cannot use the record, a clause of record_call.py
    checkout: str = ""  # see base_dir.py
    source: str = ""  # the first that was compiled
    source_digest: str = ""
    object_digest: str = ""  # of the first object that it made
    ended: float = 0.0  # seconds since the epoch
    details: list[str] = field(default_factory=list)  # further differences, a clause each
    components: list[Component] = field(default_factory=list)  # of the key of the call
    stages: list[StageKeys] = field(default_factory=list)
    # The name of each stage that ran, and why, a clause.
    stage_reasons: list[tuple[str, str]] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)  # the identities of records kept beside it, newest first

    @property
    def identity(self) -> str:
        """Equal for compiles that can stand for each other: of one command line, with equal inputs."""
        return _of_line(self.command) + keys.key_of("inputs", [("record", (self.record_name,))])

    @property
    def directory(self) -> str:
        return "".join(self.shown("directory"))

    @property
    def place(self) -> str:
        """The source's path below its checkout."""
        return below(self.checkout, self.source)

    @property
    def relocation(self) -> Relocation:
        """Where it ran, for the paths in its input record."""
        return Relocation(os.path.dirname(self.checkout), self.directory)

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
    "cause outcome command digest_key record_name scope reason_against_record reason_not_shared checkout"
    " source source_digest object_digest ended"
).split()
_RECORD = sections.Schema(
    "object-10",
    ("texts", _ROWS),  # one row, as `details`
    ("details", _ROWS),
    ("components", _ROWS),  # name of a stage or _OF_CALL; tag; two strings for each part
    ("stages", _ROWS),  # name, record_name
    ("stage_reasons", _ROWS),
    ("earlier", _ROWS),  # one row
)


def digest(digest_key: str, text: str) -> str:
    """A digest that shows that a text changed. Without a key of its own, a short text could be guessed."""
    texts = (("digest key", digest_key), ("text", text))
    components = [(tag, (part.encode(errors="surrogateescape"),)) for tag, part in texts]
    return keys.key_of("hidden text", components)


def key_of(product: str, identity: str = "") -> str:
    """The key of the last record of an object, or of the one that is kept beside it under an identity."""
    kept_as = [("identity", (identity,))] if identity else []
    return keys.key_of("object", [("path", (os.path.normpath(product),)), *kept_as])


def keys_of(product: str, record: ObjectRecord) -> tuple[str, str]:
    """The keys under which a record of an object can be."""
    return key_of(product), key_of(product, record.identity)


def add(products: Iterable[str], record: ObjectRecord, cache: Store) -> None:
    """Store the record of the last compile of each object; that of the compile before is kept beside it."""
    for product in products:
        last = find(product, cache)
        earlier = last.earlier if last else []
        if last and not last.has_failed:
            cache.add_record(store.OBJECT, key_of(product, last.identity), _encode(last), lock=False)
            earlier = [last.identity, *earlier]
        replaced = "" if record.has_failed else record.identity
        same_line = [each for each in earlier if each.startswith(_of_line(record.command))]
        dropped = {replaced, *same_line[_MOST_OF_LINE:]}
        record.earlier = [each for each in dict.fromkeys(earlier) if each not in dropped][:_MOST_EARLIER]
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
        "earlier": [record.earlier],
    }
    return _RECORD.encode(values)


def note_of_source(record: ObjectRecord, product: str, cache: Store) -> None:
    """Remember the objects that were last made from a source, by its place and by its content."""
    for key in _keys_of_source(record.place, record.source_digest):
        products = dict.fromkeys([product, *cache.find_memo(key).split("\0")])
        cache.add_memo(key, "\0".join(list(filter(None, products))[:_MOST_PRODUCTS]))


def made_from(place: str, source_digest: str, cache: Store) -> list[str]:
    """The objects that were last made from a source of this place, in any checkout, and of this content."""
    found = [cache.find_memo(key).split("\0") for key in _keys_of_source(place, source_digest)]
    return list(dict.fromkeys(product for products in found for product in products if product))


def _keys_of_source(place: str, source_digest: str) -> list[str]:
    known = (("path", place), ("content", source_digest))
    return [keys.key_of("object of source", [(tag, (text,))]) for tag, text in known if text]


def below(checkout: str, path: str) -> str:
    """A path as it is below a checkout; whole if it is elsewhere."""
    return path.removeprefix(f"{checkout}/") if checkout else path


def find(product: str, cache: Store) -> ObjectRecord | None:
    """The record of the last compile of an object."""
    return read(key_of(product), cache)


def bases(product: str, cache: Store, command: str = "") -> Iterator[ObjectRecord]:
    """The records to compare a compile of an object with, newest first: of the last that succeeded.

    If any of them has this command line, those. If none succeeded, the last one, which says what changed in
    the stages that it reached.
    """
    last = find(product, cache)
    if last is None:
        return
    named = [*([] if last.has_failed else [last.identity]), *last.earlier]
    same_line = [each for each in named if command and each.startswith(_of_line(command))]
    for identity in (same_line or named)[: _MOST_OF_LINE + 1]:
        kept = last if identity == last.identity else read(key_of(product, identity), cache)
        if kept:
            yield kept
    if not named:
        yield last


def _of_line(command: str) -> str:
    """How the identities of compiles with this command line begin."""
    return f"{command}/"


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
    (texts,), (details,), (earlier,) = values["texts"], values["details"], values["earlier"]
    record = ObjectRecord(details=details, earlier=earlier)
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
