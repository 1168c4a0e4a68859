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
from nvccache.commandline import redaction
from nvccache.files import keys
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.keys import KeyComponent

Part = tuple[str, str]  # what may be shown of a part, and what distinguishes it from parts that look the same
Component = tuple[str, list[Part]]  # a tag, and the parts under it
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
    record_name: str = ""  # of the record of the call (record.Entry.name), or empty
    scope: str = ""  # of that record, see direct.py
    reason_against_record: str = ""  # why there is no direct record of it, a clause
    ended: float = 0.0  # seconds since the epoch
    details: list[str] = field(default_factory=list)  # further differences, a clause each
    components: list[Component] = field(default_factory=list)  # of the key of the call
    stages: list[StageKeys] = field(default_factory=list)
    # The name of each stage that ran, and why, a clause.
    stage_reasons: list[tuple[str, str]] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        return self.outcome == outcomes.FAILED


def stored_form(
    components: Iterable[KeyComponent], digest_key: str, program: str = "", inputs: Sequence[str] = ()
) -> list[Component]:
    """The components of a key as they are compared and kept: for each part what may be shown, and a digest.

    Those of a stage come with the names of its program and its inputs.
    """

    def digest(text: str) -> str:
        """Without a key of its own, a short text could be guessed."""
        hidden = (("digest key", (digest_key,)), ("text", (text.encode(errors="surrogateescape"),)))
        return keys.key_of("hidden text", hidden)

    stored: dict[str, list[Part]] = {}
    for tag, raw in components:
        texts = [part if isinstance(part, str) else part.hex() for part in raw]
        parts: list[Part]
        if tag in ("argument", "arguments"):
            is_of_call = tag == "argument"
            pairs = [redaction.redacted_argument(texts)] if is_of_call else redaction.redacted_command(texts)
            parts = [(visible, "" if visible == whole else digest(whole)) for visible, whole in pairs]
        elif tag == "tool":
            parts = [
                (program, texts[0]),
                *((each, "") if each[:1] == "/" else ("", each) for each in texts[1:]),
            ]
        elif tag == "inputs":
            parts = list(zip(inputs, texts, strict=False))
        elif tag in ("files", "libraries"):
            parts = [(path, content) for path, content in sections.in_tuples(texts, 2)]
        elif tag == "dates":
            parts = [(each.rsplit(":", 2)[0], each) for each in texts]
        elif tag == "base directory":
            parts = [("NVCCACHE_BASE_DIR", digest(each)) for each in texts]
        elif tag in ("directory", "nvcc"):
            parts = [(each, "") for each in texts]
        else:
            parts = [("", digest(each)) for each in texts]
        stored.setdefault("arguments" if tag == "argument" else tag, []).extend(parts)
    return list(stored.items())


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
    encoded = cache.find_record(store.OBJECT, key_of(product))
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
