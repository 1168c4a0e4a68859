"""Why a call was not a direct hit: what differs from the last compile of the same object (object_record.py).

The components of its key are compared, then its recorded inputs. For single stages, see stage_reason.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from nvccache import environment, outcomes
from nvccache.commandline import redaction, tokens
from nvccache.commandline.tokens import Argument
from nvccache.compile.call import Report
from nvccache.execution.staged_call import StagedCall
from nvccache.explain import difference_text, object_record, stage_reason
from nvccache.explain.difference_text import Component, Part
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import presence
from nvccache.records import direct, input_records, record
from nvccache.records.base_dir import Relocation
from nvccache.records.facts import Present
from nvccache.records.input_records import InputRecord
from nvccache.records.request import Request
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
_MOST_DETAILS = 50
# They name outputs or say how nvcc runs: no result depends on them.
_OF_OUTPUTS = frozenset(
    "-o --output-file -odir --output-directory -MF --dependency-output -MT -MQ --dependency-target-name -MP"
    " --generate-dependency-targets -t --threads -jobserver --jobserver".split()
)


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
        inputs = request.invocation.inputs
        self._source = os.path.normpath(os.path.join(self._cwd, inputs[0])) if inputs else ""
        self._now = Present(request.environ, cache)
        self.cause = self._find_cause()

    def end(self, report: Report, call: StagedCall) -> None:
        """Record the outcome, and why stages ran, for each object that the call makes.

        Causes that are also those of the first compiling stage come first.
        """
        if report.leave_to_nvcc or not self._objects:
            return
        reasons = stage_reason.StageReasons(call, report.looked_up, self._now)
        stage_reasons = reasons.reasons(self._base, self._is_recaching)[:_MOST_DETAILS]
        cause = self.cause
        if cause == [FIRST] and report.outcome == outcomes.STAGE_HIT:
            is_received = any(one.found and one.found.is_received for one in report.looked_up)
            cause = [_FROM_REMOTE if is_received else _BY_STAGES]
        first = reasons.of_first_compiled()
        if cause[-1] == _FAILED:
            cause = [*first, *cause]  # only the stages of the failed compile are known
        elif cause == [_LOST] and not stage_reason.UNKNOWN.issuperset(first):
            cause = list(first)  # the record is lost, but not those of stages
        cause = list(dict.fromkeys(cause))
        cause.sort(key=lambda clause: first.index(clause) if clause in first else len(first))
        report.cause = cause[0]
        digest_key = os.urandom(16).hex()
        made = ObjectRecord(
            cause=cause[0],
            outcome=report.outcome,
            digest_key=digest_key,
            record_name=report.record.name if report.record else "",
            scope=report.record.front.scope if report.record else "",
            reason_against_record=report.reason_against_record or self._why_not_stored(),
            source=self._source,
            source_digest=self._now.digest(self._source),
            ended=time.time(),
            details=cause[1 : _MOST_DETAILS + 1],
            components=self._components(digest_key, self._arguments(), self._variables()),
            stages=reasons.keys_of_stages(digest_key),
            stage_reasons=stage_reasons,
        )
        if made.has_failed and self._base:
            # The next miss is compared with the last compile that reached all stages.
            shown = {name: getattr(made, name) for name in object_record.SHOWN}
            made = replace(self._base, **shown)
        object_record.add(self._objects, made, self._cache)

    def _why_not_stored(self) -> str:
        fault = self._cache.fault
        return f"its results could not be stored: {outcomes.STORE_FAULTS[fault]}" if fault else ""

    def end_query(self, report: Report) -> None:
        report.cause = _FIRST_QUERY if self.cause[0] == FIRST else self.cause[0]
        if report.reason_against_record:
            report.cause = f"no record is kept: {report.reason_against_record}"

    def _find_cause(self) -> list[str]:
        if self._is_recaching:
            return ["NVCCACHE_RECACHE is set"]
        nothing = [_READONLY if self._cache.is_readonly else FIRST]
        if not self._objects:
            return self._of_query() or nothing
        base = self._base = object_record.find(self._objects[0], self._cache)
        return self._differences(base) if base else nothing

    def _differences(self, base: ObjectRecord) -> list[str]:
        """What differs from the last compile of this object."""
        found, recorded = self._of_call(base), self._recorded(base)
        if recorded:
            found += self._of_inputs(recorded)
        elif base.source == self._source and base.source_digest != self._now.digest(self._source):
            found.append(f"`{self._request.invocation.inputs[0]}` changed")
        if base.has_failed:
            return [*found, _FAILED]
        if base.reason_against_record:
            return [*found, f"no direct record is kept: {base.reason_against_record}"]
        if found:
            return found
        front = base.record_name.partition("/")[0]
        if any(front == one.key for one in direct.fronts_of(self._request, self._relocation)):
            return [_LOST]
        limits = ", ".join(f"`{limit}`" for limit in presence.tight_limits())
        return [f"its resource limits differ ({limits})" if limits else _OTHER_KEY]

    def _of_query(self) -> list[str]:
        """What differs from the newest answer to this query."""
        fronts = direct.fronts_of(self._request, self._relocation)
        newest = next((pair for front in fronts for pair in record.all_pairs(front, self._cache)), None)
        return (self._of_inputs(newest.input_record) or [_LOST]) if newest else []

    def _of_call(self, base: ObjectRecord) -> list[str]:
        """What differs in the call itself."""
        made = object_record.bounded(self._components(base.digest_key, self._arguments(), self._variables()))
        found: list[str] = []
        for difference in difference_text.differences(_that_matter(made), _that_matter(base.components)):
            if difference.is_hidden:
                found.append(f"the {difference.tag} changed")
            elif difference.tag == "arguments":
                found += difference_text.of_arguments(difference, "the command line")
            elif difference.tag == "environment":
                clauses = difference_text.of_variables(difference)
                # PWD changes together with the directory.
                is_same_directory = base.directory == self._cwd
                found += [text for text in clauses if is_same_directory or "`PWD`" not in text]
            elif difference.tag == "directory":
                found.append(f"the working directory changed from `{base.directory}`")
            elif difference.tag == "nvcc":
                found.append(f"nvcc is now `{self._request.nvcc}` instead of `{''.join(base.shown('nvcc'))}`")
            elif difference.tag == difference_text.BASE_DIRECTORY:
                found.append(difference_text.of_base_directory(difference))
        return found

    def _arguments(self) -> list[Part]:
        """Each option with its value, redacted and in full."""
        call = self._request.invocation
        arguments: Iterable[Argument] = call.arguments
        if not call.option_files:  # else their arguments are in an input record
            scanned = tokens.scan(list(self._request.arguments))
            assert not isinstance(scanned, tokens.UnknownOption), "such a call is left to nvcc"
            arguments = scanned
        return [(redaction.shown(argument), " ".join(argument.tokens)) for argument in arguments]

    def _variables(self) -> list[Part]:
        """Variables that an input record may lack; compilers read the working directory's name from PWD."""
        environ = self._request.environ
        return [(name, environ[name]) for name in (*environment.OF_ARGUMENTS, "PWD") if name in environ]

    def _components(
        self, digest_key: str, arguments: Iterable[Part], variables: Iterable[Part]
    ) -> list[Component]:
        """The components of the call's key, apart from files, without secrets."""
        base = self._relocation.base

        def digests(pairs: Iterable[Part]) -> list[Part]:
            return [(shown, object_record.digest(digest_key, text)) for shown, text in pairs]

        return [
            ("arguments", digests(arguments)),
            ("environment", digests(variables)),
            ("directory", [(self._cwd, "")]),
            ("nvcc", [(self._request.nvcc, "")]),
            (difference_text.BASE_DIRECTORY, [(base, "")] if base else []),
        ]

    def _of_inputs(self, recorded: InputRecord) -> list[str]:
        """The differences from an input record, as clauses."""
        environ = self._request.environ
        return [
            difference_text.of_input_record(difference, recorded, environ)
            for difference in input_records.differences(recorded, self._now)
        ]

    def _recorded(self, base: ObjectRecord) -> InputRecord | None:
        relocation = direct.relocation_of(base.scope, self._relocation)
        found = record.named(base.record_name, relocation, self._cache)
        return found.input_record if found else None


def _that_matter(components: Iterable[Component]) -> list[Component]:
    """Components without options that name outputs."""
    return [
        (tag, [part for part in parts if part[0].partition(" ")[0].partition("=")[0] not in _OF_OUTPUTS])
        for tag, parts in components
    ]
