"""Why a call was not a direct hit: what differs from an earlier compile of the same object.

Of the last few (object_record.py) that is meant whose object is there, or else the one that differs least,
with the same command line if there is one: direct hits leave no record, so the last one need not be what the
user built last. First the components of its key are compared, then its recorded inputs. For single stages,
see stage_reason.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

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
from nvccache.values import dataclass

FIRST = "no earlier compile is recorded"
ADVICE = "to share it: "  # before a detail that names a setting
_FIRST_QUERY = "no earlier answer is recorded"
_READONLY = "NVCCACHE_READONLY is set, so nothing is recorded"
_BY_STAGES = "all its stages were compiled before, for other objects"
_FROM_REMOTE = "a remote has the results of its stages"
_COMPARED = "compared with an earlier compile of its source, "
_LOST = "its result is no longer in the cache"
_FAILED = "its last compile failed"
_OTHER_KEY = "a part of its key that is not recorded changed"
_MOST_DETAILS = 50
_LARGEST_OBJECT = 64 << 20  # bytes that are worth reading to find the compile that made it
_DEVICE_LINES = ("generate-line-info", "device-debug")
# They name outputs or say how nvcc runs: no result depends on them.
_OF_OUTPUTS = frozenset(
    "-o --output-file -odir --output-directory -MF --dependency-output -MT -MQ --dependency-target-name -MP"
    " --generate-dependency-targets -t --threads -jobserver --jobserver".split()
)


@dataclass(slots=True)
class _Comparison:
    """How a call differs from an earlier compile."""

    base: ObjectRecord
    product: str  # the object that it made
    differences: list[str]  # clauses
    has_inputs: bool  # whether its inputs are still recorded, and so compared

    @property
    def rank(self) -> tuple[bool, int]:
        """The lower, the nearer."""
        return not (self.has_inputs or self.base.reason_against_record), len(self.differences)


class Explanation:
    """The explanation of one call."""

    cause: list[str]  # why there is no direct hit, clauses, the most important first

    def __init__(self, *, is_recaching: bool) -> None:
        self._is_recaching = is_recaching
        self._base: ObjectRecord | None = None  # the earlier compile that this one is compared with

    def begin(self, request: Request, products: Iterable[str], cache: Store, relocation: Relocation) -> None:
        """Find the cause, before the call is recorded."""
        self._request, self._cache, self._relocation = request, cache, relocation
        self._cwd = os.getcwd()
        self._objects = [os.path.join(self._cwd, product) for product in products]
        inputs = request.invocation.inputs
        self._source = os.path.normpath(os.path.join(self._cwd, inputs[0])) if inputs else ""
        self._place = object_record.below(relocation.checkout, self._source)
        self._now = Present(request.environ, cache)
        self._object_before = self._digest_of_object() if self._objects else ""
        self._command = keys.key_of("command", [("arguments", tuple(request.arguments))])
        self.cause = self._find_cause()

    def end(self, report: Report, call: StagedCall) -> None:
        """Record the outcome, and why stages ran, for each object that the call makes.

        Causes that are also those of the first compiling stage come first.
        """
        if report.leave_to_nvcc or not self._objects:
            return
        reasons = stage_reason.StageReasons(call, report.looked_up, self._now, self._relocation)
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
            command=self._command,
            digest_key=digest_key,
            record_name=report.record.name if report.record else "",
            scope=report.record.front.scope if report.record else "",
            reason_against_record=report.reason_against_record or self._why_not_stored(),
            reason_not_shared=report.reason_not_shared,
            checkout=self._relocation.checkout,
            source=self._source,
            source_digest=self._now.digest(self._source),
            object_digest=self._digest_of_object(),
            ended=time.time(),
            details=cause[1 : _MOST_DETAILS + 1],
            components=self._components(digest_key, self._arguments(), self._variables()),
            stages=reasons.keys_of_stages(digest_key),
            stage_reasons=stage_reasons,
        )
        object_record.add(self._objects, made, self._cache)
        if not made.has_failed:
            object_record.note_of_source(made, self._objects[0], self._cache)

    def _digest_of_object(self) -> str:
        """The digest of the first object as it is now; empty if there is none, or a very large one."""
        try:
            return keys.digest_file(self._objects[0], _LARGEST_OBJECT)
        except (OSError, ValueError):
            return ""

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
        found = (object_record.bases(product, self._cache, self._command) for product in self._objects[:1])
        bases = [base for each in found for base in each]
        # A direct hit leaves no record, but the object that is there tells which compile it repeated.
        bases = [base for base in bases if base.object_digest == self._object_before != ""] or bases
        # Of compiles whose inputs were not recorded, only the newest says why this call misses.
        nearest = _nearest(self._compared(base) for base in bases if base is bases[0] or base.record_name)
        if nearest:
            self._base = nearest.base
            return self._of_own(nearest)
        of_source = min(self._differences_of_command(has_source=True), key=len, default=None)
        neighbour = _nearest(self._neighbours())
        if neighbour:
            self._base = neighbour.base
        if of_source is not None and not (neighbour and 0 < len(neighbour.differences) <= len(of_source)):
            return of_source or [_LOST]
        if neighbour:
            return self._of_neighbour(neighbour)
        return [_READONLY if self._cache.is_readonly else FIRST]

    def _compared(self, base: ObjectRecord) -> _Comparison:
        """With an earlier compile of this object."""
        found, recorded = self._of_call(base), self._recorded(base, self._relocation)
        if recorded:
            found += self._of_inputs(recorded)
        elif base.source == self._source and base.source_digest != self._now.digest(self._source):
            found.append(f"`{self._request.invocation.inputs[0]}` changed")
        return _Comparison(base, self._objects[0], found, recorded is not None)

    def _of_own(self, nearest: _Comparison) -> list[str]:
        base, found = nearest.base, nearest.differences
        if base.has_failed:
            return [*found, _FAILED]
        if base.reason_against_record:
            return [*found, f"no direct record is kept: {base.reason_against_record}"]
        front = base.record_name.partition("/")[0]
        is_same_key = any(front == one.key for one in direct.fronts_of(self._request, self._relocation))
        if is_same_key and not nearest.has_inputs:
            return found or [_LOST]
        if found:
            return found
        limits = ", ".join(f"`{limit}`" for limit in presence.tight_limits())
        otherwise = f"its resource limits differ ({limits})" if limits else _OTHER_KEY
        return [_LOST if is_same_key else otherwise]

    def _of_call(self, base: ObjectRecord, is_neighbour: bool = False) -> list[str]:
        """What differs in the call itself; a neighbour may have another checkout and other output names."""
        arguments, variables = self._arguments(), self._variables()
        directory, here, there = base.directory, self._relocation.checkout, base.checkout
        if not is_neighbour or not here or not there:
            here = there = "/"
        # What is shown is of this checkout; digests can only be compared with those of the other.
        arguments, variables = (
            [(shown, text.replace(here, there)) for shown, text in parts] for parts in (arguments, variables)
        )
        moved = [
            (tag, [(shown.replace(there, here), text) for shown, text in parts])
            for tag, parts in base.components
        ]
        made = object_record.bounded(self._components(base.digest_key, arguments, variables))
        source = base.source.replace(there, here) if is_neighbour else ""
        before = _that_matter(moved, directory.replace(there, here), source)
        now = _that_matter(made, self._cwd, self._source if is_neighbour else "")
        found: list[str] = []
        for difference in difference_text.differences(now, before):
            if difference.is_hidden:
                found.append(f"the {difference.tag} changed")
            elif difference.tag == "arguments":
                found += difference_text.of_arguments(difference, "the command line")
            elif difference.tag == "environment":
                clauses = difference_text.of_variables(difference)
                # PWD changes together with the directory.
                found += [text for text in clauses if directory == self._cwd or "`PWD`" not in text]
            elif difference.tag == "directory" and not is_neighbour:
                found.append(f"the working directory changed from `{directory}`")
            elif difference.tag == "nvcc":
                found.append(f"nvcc is now `{self._request.nvcc}` instead of `{''.join(base.shown('nvcc'))}`")
            elif difference.tag == difference_text.BASE_DIRECTORY and not is_neighbour:
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

    def _of_inputs(self, recorded: InputRecord, without: str = "") -> list[str]:
        """The differences from an input record, as clauses; but for those of one file, an absolute path."""
        environ = self._request.environ
        return [
            difference_text.of_input_record(difference, recorded, environ)
            for difference in input_records.differences(recorded, self._now)
            if os.path.join(self._cwd, difference.path) != without
        ]

    def _recorded(self, base: ObjectRecord, relocation: Relocation) -> InputRecord | None:
        found = record.named(base.record_name, direct.relocation_of(base.scope, relocation), self._cache)
        return found.input_record if found else None

    def _differences_of_command(self, *, has_source: bool = False) -> list[list[str]]:
        """The differences from each record of the same command, in any directory, the newest first.

        If `has_source`, only from those of this source as it is now: other projects use the same commands.
        """
        fronts = direct.fronts_of(self._request, self._relocation)
        kept = (pair.input_record for front in fronts for pair in record.all_pairs(front, self._cache))
        if has_source:
            kept = (read for read in kept if self._now.digest(self._source) in read.digests)
        return list(map(self._of_inputs, kept))

    def _neighbours(self) -> Iterator[_Comparison]:
        """The compiles of other objects from this source, or from its counterpart in another checkout."""
        digest = self._now.digest(self._source)
        of_command = min(self._differences_of_command(), key=len, default=[])
        for product in object_record.made_from(self._place, digest, self._cache):
            # Of each object the nearest call alone is compared by its inputs, which may be many.
            calls = [
                (self._of_call(base, is_neighbour=True), base)
                for base in object_record.bases(product, self._cache)
                if product not in self._objects
                and (base.source_digest == digest or base.place == self._place)
            ]
            if not calls:
                continue
            found, base = min(calls, key=lambda call: len(call[0]))
            recorded = self._recorded_here(base)
            if digest == base.source_digest != "" or self._is_counterpart(base, recorded):
                of_files = [] if found else of_command
                if recorded and not of_files:
                    of_files = self._of_files(base, recorded)
                yield _Comparison(base, product, [*found, *of_files], bool(of_files or recorded))

    def _is_counterpart(self, other: ObjectRecord, recorded: InputRecord | None) -> bool:
        """Whether a compile was of this source with other content, here or in another checkout.

        Unrelated projects also have a `main.cu`, so there one of the files it read must be the same as here.
        """
        here, there = self._relocation.checkout, other.checkout
        if other.source == self._source:
            return True
        if not here or not there or self._place != other.place:
            return False
        files = input_records.files_here(recorded, self._now) if recorded else []
        absolute = ((os.path.normpath(os.path.join(self._cwd, path)), is_same) for path, is_same in files)
        return any(is_same and object_record.below(here, path) != path for path, is_same in absolute)

    def _of_neighbour(self, nearest: _Comparison) -> list[str]:
        """Why that object was not reused: other arguments or files, or else its path matters.

        The first clause does not name it: objects with the same cause are counted together.
        """
        other, found = nearest.base, nearest.differences
        made = f"its source was compiled earlier as `{nearest.product}`"
        if found:
            return [f"{_COMPARED}{found[0]}", *found[1:], made]
        if self._place != other.place:
            return [
                "its source was compiled only under another name",
                f"that name was `{other.source}`",
                made,
            ]
        if other.reason_against_record:
            return [f"an earlier compile of its source was not recorded: {other.reason_against_record}", made]
        directory = other.directory
        if not other.reason_not_shared and directory != self._cwd:
            return [f"{_COMPARED}the working directory changed from `{directory}`", made]
        if not other.reason_not_shared:
            return ["files that an earlier compile of its source read have changed since", made]
        why = f"the result from another directory cannot be used: {other.reason_not_shared}"
        return [why, *self._advice(other), made]

    def _of_files(self, other: ObjectRecord, recorded: InputRecord) -> list[str]:
        if other.directory == self._cwd:
            return self._of_inputs(recorded, without=other.source if other.source != self._source else "")
        files = input_records.files_here(recorded, self._now)
        return [f"`{path}` differs" for path, is_same in files if not is_same]

    def _recorded_here(self, other: ObjectRecord) -> InputRecord | None:
        """The inputs of a compile in another directory, with this checkout's paths for those of its own."""
        if other.directory == self._cwd:
            return self._recorded(other, self._relocation)
        there = other.relocation
        found = self._recorded(other, there)
        return input_records.as_here(found, there, self._relocation) if found else None

    def _advice(self, other: ObjectRecord) -> list[str]:
        """A setting with which the two would share a result; or nothing."""
        here, there = self._relocation.checkout, other.checkout
        if (
            other.reason_not_shared == record_call.ID_HAS_PATHS
            and not self._relocation.base
            and here
            and there
        ):
            base = os.path.commonpath([os.path.dirname(here), os.path.dirname(there)])
            return [f"{ADVICE}`NVCCACHE_BASE_DIR={base}`"] if len(base) > 1 else []
        # cicc writes paths into the device code's line information, where no option replaces them.
        has_device_lines = any(each.name in _DEVICE_LINES for each in self._request.invocation.arguments)
        named = (record_call.NAMED_IN_TEXT, *(() if has_device_lines else (record_call.NAMED_IN_DEBUG_INFO,)))
        if other.reason_not_shared in named and here:
            # Between build directories of one checkout, only their own names differ.
            return [f"{ADVICE}`-Xcompiler -ffile-prefix-map={self._cwd if here == there else here}=.`"]
        return []


def _that_matter(components: Iterable[Component], directory: str, source: str) -> list[Component]:
    """Components without options that name outputs, and without the source."""
    return [
        (
            tag,
            [
                part
                for part in parts
                if part[0].partition(" ")[0].partition("=")[0] not in _OF_OUTPUTS
                and os.path.normpath(os.path.join(directory, part[0])) != source
            ],
        )
        for tag, parts in components
    ]


def _nearest(comparisons: Iterable[_Comparison]) -> _Comparison | None:
    """The one with the fewest differences, of those with inputs if there is one; of equals the first."""
    return min(comparisons, key=lambda each: each.rank, default=None)
