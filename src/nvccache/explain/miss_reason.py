"""Why a call was not a direct hit: how it differs from the last compile of its object.

First the components of the two keys are compared, then the inputs. difference_text.py makes the clauses.

Each object has one record, of its last successful compile that was not a direct hit, with the components of
its key. Only the user who made the record can read it. Values of macros may be secrets, so the record has
only digests of them, with a random key for each record. The digests are enough to see that a value changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nvccache import log, outcomes
from nvccache.commandline import tokens
from nvccache.files import keys
from nvccache.records import call_key, record
from nvccache.records.direct_hit import Request
from nvccache.records.facts import CurrentState
from nvccache.store import sections, store
from nvccache.store.store import Store
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.files.keys import KeyComponent
    from nvccache.run.report import Report

FIRST = "no earlier compile is recorded"
_READONLY = "NVCCACHE_READONLY is set, so nothing is recorded"
_COMPILED_ELSEWHERE = "all stages were compiled before, for another object or in another directory"
_LOST = "the earlier result is no longer in the cache"
_OTHER_KEY = "the cache key changed, but it is not recorded which part of the key"
_MOST_OF_INPUTS = 10
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


def key_of_object(product: str) -> str:
    """The key of the record of an object."""
    return keys.key_of("object", [("path", (os.path.normpath(product),))])


def add_record(products: Iterable[str], record: ObjectRecord, cache: Store) -> None:
    """Store the record of the last compile of each object."""
    texts = (record.digest_key, record.record_name, record.reason_against_record)
    components = [(tag, *(text for part in parts for text in part)) for tag, parts in record.components]
    encoded = sections.pack(_KIND, [*map(os.fsencode, texts), *(sections.join(list(c)) for c in components)])
    for product in products:
        cache.add_record(store.OBJECT, key_of_object(product), encoded)


def find_record(product: str, cache: Store) -> ObjectRecord | None:
    """The record of the last compile of an object."""
    encoded = cache.find_record(store.OBJECT, key_of_object(product))
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


class Explanation:
    """Finds why one call is not a direct hit, and stores what to compare its next compile with."""

    causes: list[str]  # clauses that say why there is no direct hit, the most important first

    def __init__(self, *, is_recaching: bool) -> None:
        self._is_recaching = is_recaching

    def begin(self, request: Request, products: Iterable[str], cache: Store) -> None:
        """Find the causes; called before the new record replaces the last one."""
        self._request, self._cache = request, cache
        self._objects = [os.path.abspath(product) for product in products]
        self.causes = self._find_causes()

    def end(self, report: Report) -> None:
        """Put the causes into the report, and store what the next compile of each object is compared with."""
        causes = report.causes = list(self.causes)
        if report.outcome == outcomes.FAILED or report.leave_to_nvcc:
            return
        if causes == [FIRST] and report.outcome == outcomes.STAGE_HIT:
            causes[:] = [_COMPILED_ELSEWHERE]
        against, fault = report.reason_against_record, self._cache.fault
        if fault and not against:
            against = f"the results could not be stored: {outcomes.STORE_FAULTS[fault]}"
        if against and not any(against in cause for cause in causes):
            causes.append(_against(against))
        digest_key = os.urandom(16).hex()
        new_record = ObjectRecord(
            digest_key=digest_key,
            record_name=report.record.name if report.record else "",
            reason_against_record=against,
            components=self._components(digest_key),
        )
        add_record(self._objects, new_record, self._cache)

    def _find_causes(self) -> list[str]:
        """How the key differs, then which inputs changed, at most _MOST_OF_INPUTS of them."""
        if self._is_recaching:
            return ["NVCCACHE_RECACHE is set"]
        request, cache = self._request, self._cache
        base = find_record(self._objects[0], cache) if self._objects else None
        if not base:
            return [_READONLY if cache.is_readonly else FIRST]
        from nvccache.explain import difference_text

        causes = difference_text.key_clauses(self._components(base.digest_key), base.components)
        if recorded := record.find_by_name(base.record_name, cache):
            now = CurrentState(request.environ, request.now)
            clauses = difference_text.input_clauses(recorded.input_record, now, request.environ)
            causes += clauses[:_MOST_OF_INPUTS]
        if base.reason_against_record:
            causes.append(_against(base.reason_against_record))
        if causes:
            return causes
        key = base.record_name.partition("/")[0]
        lookup_keys = call_key.make_lookup_keys(request)
        return [_LOST if any(key == each.key for each in lookup_keys) else _OTHER_KEY]

    def _components(self, digest_key: str) -> list[Component]:
        """The components of the key under which the call is recorded for this directory, without secrets."""
        components = call_key.components_of(self._request, call_key.SAME_DIRECTORY)
        return stored_form(components, digest_key)


def _against(reason: str) -> str:
    return f"the call was not recorded as a whole: {reason}"
