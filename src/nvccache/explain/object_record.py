"""Stores the components of the key of each object's last compile, to compare the next compile with them.

Each object has one record, of its last successful compile that was not a direct hit. Only the user who made
the record can read it. Values of macros may be secrets, so the record has only digests of them, with a random
key for each record. The digests are enough to see that a value changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nvccache import log
from nvccache.commandline import tokens
from nvccache.files import keys
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.keys import KeyComponent

_KIND = "object-1"
Part = tuple[str, str]  # the visible text, and a digest if some of the text is hidden
Component = tuple[str, list[Part]]  # a tag, and the parts under it


@dataclass(slots=True)
class ObjectRecord:
    """The last compile of an object."""

    digest_key: str = ""  # random, so that digests of two records cannot be compared
    record_name: str = ""  # the name of the call's entry (record.Entry.name), or empty
    reason_against_record: str = ""  # a clause that says why the call was not recorded as a whole
    components: list[Component] = field(default_factory=list)  # the components of the call's key


def stored_form(components: Iterable[KeyComponent], digest_key: str) -> list[Component]:
    """The components of a call's key in the form in which they are stored and compared."""

    def digest(text: str) -> str:
        """A digest with the record's key, without which a short text could be guessed from its digest."""
        hidden = (("digest key", (digest_key,)), ("text", (text.encode(errors="surrogateescape"),)))
        return keys.key_of("hidden text", hidden)

    stored: dict[str, list[Part]] = {}
    for tag, raw in components:
        texts = [part if isinstance(part, str) else part.hex() for part in raw]
        if tag == "argument":
            whole = tokens.spelled(*texts) if len(texts) > 1 else texts[0]
            visible = log.hide(whole)
            parts = [(visible, "" if visible == whole else digest(whole))]
        elif tag in ("directory", "nvcc"):
            parts = [(each, "") for each in texts]
        else:
            parts = [("", digest(each)) for each in texts]
        stored.setdefault(tag, []).extend(parts)
    return list(stored.items())


def key_of(product: str) -> str:
    """The key of the record of an object."""
    return keys.key_of("object", [("path", (os.path.normpath(product),))])


def add(products: Iterable[str], record: ObjectRecord, cache: Store) -> None:
    """Store the record of the last compile of each object."""
    texts = (record.digest_key, record.record_name, record.reason_against_record)
    components = [(tag, *(text for part in parts for text in part)) for tag, parts in record.components]
    encoded = sections.pack(_KIND, [*map(os.fsencode, texts), *(sections.join(list(c)) for c in components)])
    for product in products:
        cache.add_record(store.OBJECT, key_of(product), encoded)


def find(product: str, cache: Store) -> ObjectRecord | None:
    """The record of the last compile of an object."""
    encoded = cache.find_record(store.OBJECT, key_of(product))
    if encoded is None:
        return None
    try:
        digest_key, name, reason, *rest = sections.unpack(_KIND, encoded)
        components = [_component(*sections.split(each)) for each in rest]
    except (ValueError, TypeError):
        return None
    return ObjectRecord(os.fsdecode(digest_key), os.fsdecode(name), os.fsdecode(reason), components)


def _component(tag: str, *texts: str) -> Component:
    return tag, list(zip(texts[::2], texts[1::2], strict=True))
