"""Why a call was not a direct hit: how it differs from the last compile of its object (object_record.py).

First the components of the two keys are compared, then the inputs. difference_text.py makes the clauses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nvccache import outcomes
from nvccache.explain import object_record
from nvccache.explain.object_record import Component, ObjectRecord
from nvccache.records import direct, record
from nvccache.records.facts import CurrentState
from nvccache.records.levels import Request
from nvccache.run.call import Report
from nvccache.store.store import Store

FIRST = "no earlier compile is recorded"
_READONLY = "NVCCACHE_READONLY is set, so nothing is recorded"
_COMPILED_ELSEWHERE = "all stages were compiled before, for another object or in another directory"
_LOST = "the earlier result is no longer in the cache"
_OTHER_KEY = "the cache key changed, but it is not recorded which part of the key"
_MOST_OF_INPUTS = 10


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
        object_record.add(self._objects, new_record, self._cache)

    def _find_causes(self) -> list[str]:
        """How the key differs, then which inputs changed, at most _MOST_OF_INPUTS of them."""
        if self._is_recaching:
            return ["NVCCACHE_RECACHE is set"]
        request, cache = self._request, self._cache
        base = object_record.find(self._objects[0], cache) if self._objects else None
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
        lookup_keys = direct.make_lookup_keys(request)
        return [_LOST if any(key == each.key for each in lookup_keys) else _OTHER_KEY]

    def _components(self, digest_key: str) -> list[Component]:
        """The components of the key under which the call is recorded for this directory, without secrets."""
        components = direct.components_of(self._request, direct.SAME_DIRECTORY)
        return object_record.stored_form(components, digest_key)


def _against(reason: str) -> str:
    return f"the call was not recorded as a whole: {reason}"
