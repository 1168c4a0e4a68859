"""The record of an object: the components of the keys of its last compile, and why that was no direct hit.

One for each object, of its last compile that was no direct hit (those are only in the event log, and know no
stages); a miss is compared with it (miss_reason.py). Readable only by its owner. Values of macros and
variables may be secrets: components hold keyed digests of them, with a key for each record, which are enough
to see that a value changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence

from nvccache import outcomes
from nvccache.explain.difference_text import Component
from nvccache.files import keys
from nvccache.store import store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

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
        """The parts of a component of its key that may be shown."""
        return [text for found, parts in self.components if found == tag for text, _ in parts]

    @property
    def has_failed(self) -> bool:
        return self.outcome == outcomes.FAILED


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
    stages = [(stage.name, stage.record_name, stage.components) for stage in record.stages[:_MOST_STAGES]]
    values = {name: getattr(record, name) for name in ObjectRecord.__slots__}
    encoded = json.dumps(values | {"stages": stages}).encode()
    for product in products:
        cache.add_record(store.OBJECT, key_of(product), encoded, lock=False)


def find(product: str, cache: Store) -> ObjectRecord | None:
    """The record of the last compile of an object."""
    return read(key_of(product), cache)


def read(key: str, cache: Store) -> ObjectRecord | None:
    """Like `find`, by the key of the product."""
    encoded = cache.find_record(store.OBJECT, key)
    if encoded is None:
        return None
    try:
        values = json.loads(encoded)
        stages = [StageKeys(name, kept, _components(rows)) for name, kept, rows in values["stages"]]
        components = _components(values["components"])
        reasons = [(name, why) for name, why in values["stage_reasons"]]
        whole = {"stages": stages, "components": components, "stage_reasons": reasons}
        return ObjectRecord(**(values | whole))
    except (ValueError, TypeError, KeyError):
        return None


def _components(rows: Iterable[Sequence[Sequence[Sequence[str]]]]) -> list[Component]:
    """Tuples instead of JSON's lists, which could not be counted."""
    return [(str(tag), [(shown, rest) for shown, rest in parts]) for tag, parts in rows]
