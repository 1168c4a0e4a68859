"""Why a call was not a direct hit: what differs from the last compile of the same object (object_record.py).

The components of its key are compared, then its recorded inputs. For single stages, see stage_reason.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from nvccache import outcomes
from nvccache.explain import difference_text, object_record, stage_reason
from nvccache.explain.object_record import Component, ObjectRecord
from nvccache.records import direct, record
from nvccache.records.base_dir import Relocation
from nvccache.records.facts import CurrentState
from nvccache.records.request import Request
from nvccache.run.call import Compile
from nvccache.run.report import Report
from nvccache.store.store import Store
from nvccache.values import replace

FIRST = "no earlier compile is recorded"
_FIRST_QUERY = "no earlier answer is recorded"
_READONLY = "NVCCACHE_READONLY is set, so nothing is recorded"
_BY_STAGES = "all its stages were compiled before, for other objects"
_FROM_REMOTE = "a remote has the results of its stages"
_LOST = "its result is no longer in the cache"
_FAILED = "its last compile failed"
_OTHER_KEY = "a part of its key that is not recorded changed"
_MOST_OF_INPUTS = 10


class Explanation:
    """The explanation of one call."""

    cause: list[str]  # why there is no direct hit, clauses, the most important first

    def __init__(self, *, is_recaching: bool) -> None:
        self._is_recaching = is_recaching
        self._base: ObjectRecord | None = None  # the compile that this one is compared with

    def begin(self, request: Request, products: Iterable[str], cache: Store, relocation: Relocation) -> None:
        """Find the cause, before the call is recorded."""
        self._request, self._cache, self._relocation = request, cache, relocation
        self._cwd = os.getcwd()
        self._objects = [os.path.join(self._cwd, product) for product in products]
        self._now = CurrentState(request.environ, cache, request.now)
        self.cause = self._find_cause()

    def end(self, report: Report, call: Compile) -> None:
        """Record the outcome, and why stages ran, for each object that the call makes."""
        if report.leave_to_nvcc or not self._objects:
            return
        reasons = stage_reason.StageReasons(call, report.looked_up, self._now)
        stage_reasons = reasons.reasons(self._base, self._is_recaching)
        cause = self.cause
        if cause == [FIRST] and report.outcome == outcomes.STAGE_HIT:
            is_received = any(one.entry and one.entry.is_received for one in report.looked_up)
            cause = [_FROM_REMOTE if is_received else _BY_STAGES]
        report.cause = cause[0]
        digest_key = os.urandom(16).hex()
        new_record = ObjectRecord(
            cause=cause[0],
            outcome=report.outcome,
            digest_key=digest_key,
            record_name=report.record.name if report.record else "",
            scope=report.record.lookup_key.scope if report.record else "",
            reason_against_record=report.reason_against_record or self._why_not_stored(),
            ended=time.time(),
            details=cause[1:],
            components=self._components(digest_key),
            stages=reasons.keys_of_stages(digest_key),
            stage_reasons=stage_reasons,
        )
        if new_record.has_failed and self._base:
            # The next miss is compared with the last compile that reached all stages.
            new_record = replace(
                self._base,
                cause=new_record.cause,
                outcome=new_record.outcome,
                details=new_record.details,
                stage_reasons=stage_reasons,
                ended=new_record.ended,
            )
        object_record.add(self._objects, new_record, self._cache)

    def end_query(self, report: Report) -> None:
        report.cause = _FIRST_QUERY if self.cause[0] == FIRST else self.cause[0]
        if report.reason_against_record:
            report.cause = f"no record is kept: {report.reason_against_record}"

    def _why_not_stored(self) -> str:
        fault = self._cache.fault
        return f"its results could not be stored: {outcomes.STORE_FAULTS[fault]}" if fault else ""

    def _find_cause(self) -> list[str]:
        """The differences of the key, then those of the first inputs."""
        if self._is_recaching:
            return ["NVCCACHE_RECACHE is set"]
        request, unknown = self._request, [_READONLY if self._cache.is_readonly else FIRST]
        lookup_keys = direct.make_lookup_keys(request, self._relocation)
        if not self._objects:
            newest = next(
                (
                    entry
                    for lookup_key in lookup_keys
                    for entry in record.all_entries(lookup_key, self._cache)
                ),
                None,
            )
            return self._input_clauses(newest) or [_LOST] if newest else unknown
        base = self._base = object_record.find(self._objects[0], self._cache)
        if not base:
            return unknown
        causes = [
            clause
            for difference in difference_text.differences(self._components(base.digest_key), base.components)
            for clause in difference_text.clauses(difference, "the command line")
        ]
        relocation = direct.relocation_of(base.scope, self._relocation)
        if recorded := record.find_by_name(base.record_name, relocation, self._cache):
            causes += self._input_clauses(recorded)
        if base.reason_against_record and not base.has_failed:
            causes.append(f"no direct record is kept: {base.reason_against_record}")
        if causes:
            return causes
        if base.has_failed:
            return [_FAILED]
        key = base.record_name.partition("/")[0]
        return [_LOST if any(key == each.key for each in lookup_keys) else _OTHER_KEY]

    def _input_clauses(self, recorded: record.Entry) -> list[str]:
        clauses = difference_text.input_clauses(recorded.input_record, self._now, self._request.environ)
        return clauses[:_MOST_OF_INPUTS]

    def _components(self, digest_key: str) -> list[Component]:
        """The components of the call's key in this directory, without secrets."""
        request, here = self._request, self._relocation.in_place()
        scope = direct.SAME_DIRECTORY
        components = direct.components_of(scope, request.nvcc, request.invocation, here, request.environ)
        return object_record.stored_form(components, digest_key)
