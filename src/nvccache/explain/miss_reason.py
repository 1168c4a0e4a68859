"""Why a call was not answered from a record: what differs from the last compile of the same object.

The components of a call are compared with those in the object's record (object_record.py), then what it read
with what is there now. Why single stages ran says stage_reason.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nvccache import environment, outcomes
from nvccache.commandline import redaction, tokens
from nvccache.commandline.tokens import Argument
from nvccache.compile import record_call
from nvccache.compile.call import Report
from nvccache.execution.staged_call import StagedCall
from nvccache.explain import difference_text, object_record, stage_reason
from nvccache.explain.difference_text import Component, Part
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys, presence
from nvccache.records import direct, input_records, record
from nvccache.records.base_dir import Relocation
from nvccache.records.facts import Present
from nvccache.records.input_records import InputRecord
from nvccache.records.request import Request
from nvccache.store.store import Store

FIRST = "no earlier compile of it is recorded"
_FIRST_QUERY = "no earlier answer to it is recorded"
_BY_STAGES = "all its stages were compiled before, for other objects"
_LOST = "its result is no longer in the cache"
_MOST_DETAILS = 50
_OF_OUTPUTS = ("-o", "--output-file", "-MF", "--dependency-output", "-MT", "-MQ", "--dependency-target")


class Explanation:
    """Of one call, which tells it when it begins, and at its end what became of it."""

    cause: list[str]  # why there is no direct hit, the cause first; every line a clause

    def __init__(self, *, is_recaching: bool) -> None:
        self._is_recaching = is_recaching

    def begin(self, request: Request, products: Iterable[str], cache: Store, relocation: Relocation) -> None:
        """Find out why it is not answered, while nothing of it is recorded."""
        self._request, self._cache, self._relocation = request, cache, relocation
        self._cwd = os.getcwd()
        self._objects = [os.path.join(self._cwd, product) for product in products]
        inputs = request.invocation.inputs
        self._source = os.path.normpath(os.path.join(self._cwd, inputs[0])) if inputs else ""
        self._now = Present(request.environ, cache)
        self._former = object_record.find(self._objects[0], cache) if self._objects else None
        self.cause = self._find_cause()

    def end(self, report: Report, call: StagedCall) -> None:
        """Write down what became of the call and why its stages ran, under each object it makes.

        Of the causes, those come first that the first stage names which had to compile.
        """
        if report.leave_to_nvcc or not self._objects:
            return
        former, checkout = self._former, self._relocation.checkout
        neighbour = None if former else self._neighbour()
        reasons = stage_reason.StageReasons(call, report.looked_up, self._now, checkout)
        compared = former or (neighbour[1] if neighbour else None)
        stage_reasons = reasons.reasons(compared, self._is_recaching)[:_MOST_DETAILS]
        cause = self.cause
        if cause == [FIRST] and report.outcome == outcomes.STAGE_HIT:
            cause = [_BY_STAGES]
        first = reasons.of_first_compiled()
        cause = sorted(cause, key=lambda clause: first.index(clause) if clause in first else len(first))
        report.cause = cause[0]
        # Of stages that a failed call did not get to, what is known can only be compared under its key.
        kept = former if report.status != 0 else None
        digest_key = kept.digest_key if kept else os.urandom(16).hex()
        made = ObjectRecord(
            cause=cause[0],
            outcome=report.outcome,
            digest_key=digest_key,
            record_name=report.record.name if report.record else "",
            scope=report.record.front.scope if report.record else "",
            reason_against_record=report.reason_against_record,
            kept_here=report.kept_here,
            checkout=checkout,
            source=self._source,
            source_digest=_digest_of(self._source),
            details=cause[1 : _MOST_DETAILS + 1],
            components=self._components(digest_key, self._arguments()),
            stages=reasons.keys_of_stages(digest_key, kept),
            stage_reasons=stage_reasons,
        )
        object_record.add(self._objects, made, self._cache)
        object_record.note_of_source(self._source, self._objects[0], self._cache)

    def end_query(self, report: Report) -> None:
        report.cause = _FIRST_QUERY if self.cause[0] == FIRST else self.cause[0]
        if report.reason_against_record:
            report.cause = f"no record is kept: {report.reason_against_record}"

    def _find_cause(self) -> list[str]:
        if self._is_recaching:
            return ["NVCCACHE_RECACHE is set"]
        former = self._former
        if former is None:
            nearest = self._nearest()
            if nearest:
                return self._unlike(nearest) or [_LOST]
            neighbour = self._neighbour()
            return self._of_neighbour(*neighbour) if neighbour else [FIRST]
        found = self._of_call(former)
        if former.reason_against_record:
            return [*found, f"no direct record is kept: {former.reason_against_record}"]
        recorded = self._recorded(former, self._relocation)
        if recorded is None:
            return [*found, _LOST]
        limits = ", ".join(f"`{limit}`" for limit in presence.tight_limits())
        otherwise = f"the limits of its caller are others ({limits})" if limits else _LOST
        return [*found, *self._unlike(recorded)] or [otherwise]

    def _of_call(self, former: ObjectRecord, is_neighbour: bool = False) -> list[str]:
        """What differs in the call itself.

        A neighbour may be in another checkout, and call its outputs what it likes.
        """
        arguments, before = self._arguments(), former.components
        if is_neighbour:
            here, there = self._relocation.checkout, former.checkout
            if here and there:
                arguments = [
                    (shown.replace(here, there), text.replace(here, there)) for shown, text in arguments
                ]
            arguments = _without_outputs(arguments)
            before = [(tag, _without_outputs(parts)) for tag, parts in before]
        now = object_record.bounded(self._components(former.digest_key, arguments))
        directory = _only(former.components, "directory")
        found: list[str] = []
        for difference in difference_text.differences(now, before):
            if difference.is_hidden:
                found.append(f"the {difference.tag} changed")
            elif difference.tag == "arguments":
                found += difference_text.of_words(difference, "the command line")
            elif difference.tag == "environment":
                clauses = difference_text.of_variables(difference)
                # The name of the directory goes with it.
                found += [text for text in clauses if directory == self._cwd or "`PWD`" not in text]
            elif difference.tag == "directory" and not is_neighbour:
                found.append(f"the working directory changed from `{directory}`")
            elif difference.tag == "nvcc":
                found.append(f"nvcc is now `{self._request.nvcc}`, it was `{_only(before, 'nvcc')}`")
        return found

    def _arguments(self) -> list[Part]:
        """Each option together with its value: as it may be shown, and all of it."""
        call = self._request.invocation
        arguments: Iterable[Argument] = call.arguments
        if not call.option_files:  # what these say is in no input record
            scanned = tokens.scan(list(self._request.arguments))
            assert not isinstance(scanned, tokens.UnknownOption), "nvcc is left to refuse it"
            arguments = scanned
        return [(redaction.shown(argument), " ".join(argument.tokens)) for argument in arguments]

    def _components(self, digest_key: str, arguments: Iterable[Part]) -> list[Component]:
        """What a call was known by, apart from files, in a form that may be kept and shown."""
        environ = self._request.environ
        # All others are in the input record; PWD is the name that compilers give the working directory.
        variables = [(name, environ[name]) for name in (*environment.OF_ARGUMENTS, "PWD") if name in environ]

        def digests(pairs: Iterable[Part]) -> list[Part]:
            return [(shown, object_record.digest(digest_key, text)) for shown, text in pairs]

        return [
            ("arguments", digests(arguments)),
            ("environment", digests(variables)),
            ("directory", [(self._cwd, "")]),
            ("nvcc", [(self._request.nvcc, "")]),
        ]

    def _unlike(self, recorded: InputRecord) -> list[str]:
        """What is not as it was recorded, a clause each."""
        environ = self._request.environ
        unlike = input_records.differences(recorded, self._now)
        return [difference_text.of_input_record(difference, recorded, environ) for difference in unlike]

    def _recorded(self, former: ObjectRecord, relocation: Relocation) -> InputRecord | None:
        kept = direct.relocation_of(former.scope, relocation)
        found = record.named(former.record_name, kept, self._cache)
        return found.input_record if found else None

    def _nearest(self) -> InputRecord | None:
        """The newest input record of the same call for another object, or in another checkout."""
        fronts = direct.fronts_of(self._request, self._relocation)
        kept = (pair.input_record for front in fronts for pair in record.kept(front, self._cache))
        return next(kept, None)

    def _neighbour(self) -> tuple[str, ObjectRecord] | None:
        """The object that was made last of the same source, or of its like in another checkout."""
        product, other = object_record.find_of_source(self._source, self._cache)
        if other is None or product in self._objects:
            return None
        here, there = self._relocation.checkout, other.checkout
        is_alike = _below(here, self._source) == _below(there, other.source)
        return (product, other) if is_alike or other.source_digest == _digest_of(self._source) else None

    def _of_neighbour(self, product: str, other: ObjectRecord) -> list[str]:
        """Why that object is not taken: other words or files, or else what of it tells where it was made."""
        found = self._of_call(other, is_neighbour=True) or self._of_files_beside(other)
        if found:
            return [f"unlike for `{product}` {found[0]}", *found[1:]]
        if not other.kept_here:
            return [f"what `{product}` was made of is not as it was"]
        return [f"`{product}` is from elsewhere, and {other.kept_here}", *self._advice(other)]

    def _of_files_beside(self, other: ObjectRecord) -> list[str]:
        """Which files in this checkout are not like those in the other one that the object was made of."""
        there = Relocation(os.path.dirname(other.checkout), _only(other.components, "directory"))
        found = self._recorded(other, there)
        if found is None or not there.checkout or not self._relocation.checkout:
            return []
        try:
            moved = input_records.decode(input_records.encode(found, there), self._relocation)
        except ValueError:
            return []
        now, files = self._now, zip(moved.files, moved.digests, strict=True)
        others = [path for path, digest in files if now.signature(path) and now.digest(path) != digest]
        return [f"`{path}` is another one" for path in others]

    def _advice(self, other: ObjectRecord) -> list[str]:
        """What to set so that the two share a result the next time; or nothing."""
        here, there = self._relocation.checkout, other.checkout
        if other.kept_here == record_call.HOLDS_ID and not self._relocation.base and here and there:
            base = os.path.commonpath([os.path.dirname(here), os.path.dirname(there)])
            return [f"with `NVCCACHE_BASE_DIR={base}` they can share it"] if len(base) > 1 else []
        if other.kept_here in (record_call.HOLDS_DIRECTORY, record_call.NAMED_IN_TEXT) and here:
            return [
                f"`-Xcompiler -ffile-prefix-map={here}=.` keeps paths out of what the host compiler makes"
            ]
        return []


def _without_outputs(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if not part[0].startswith(_OF_OUTPUTS)]


def _below(checkout: str, path: str) -> str:
    return path.removeprefix(f"{checkout}/") if checkout else path


def _only(components: Iterable[Component], tag: str) -> str:
    """The first part under a tag, or empty."""
    return next((parts[0][0] for known, parts in components if known == tag and parts), "")


def _digest_of(path: str) -> str:
    try:
        return keys.digest_file(path)
    except OSError:
        return ""
