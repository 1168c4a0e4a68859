"""Why a call was not answered from a record: what differs from the last compile of the same object.

The components of a call are compared with those in the object's record (object_record.py), then what it read
with what is there now. Why single stages ran says stage_reason.py.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable

from nvccache import environment, outcomes
from nvccache.commandline import redaction, tokens
from nvccache.commandline.tokens import Argument
from nvccache.compile import record_call
from nvccache.compile.call import Report, Request
from nvccache.execution.staged_call import StagedCall
from nvccache.explain import difference_text, object_record, stage_reason
from nvccache.explain.difference_text import Component, Part
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys, presence
from nvccache.records import direct, facts, input_records, record
from nvccache.records.base_dir import Relocation
from nvccache.records.facts import Present
from nvccache.records.input_records import InputRecord
from nvccache.store.store import Store

FIRST = "no earlier compile of it is recorded"
_FIRST_QUERY = "no earlier answer to it is recorded"
_BY_STAGES = "all its stages were compiled before, for other objects"
_LOST = "its result is no longer in the cache"
_MOST_DETAILS = 50
_OF_OUTPUTS = ("-o", "--output-file", "-MF", "--dependency-output", "-MT", "-MQ", "--dependency-target")


class Case:
    """A call as far as an explanation needs it."""

    def __init__(self, request: Request, products: Iterable[str], is_recaching: bool) -> None:
        self.request = request
        self.nvcc = request.nvcc
        # With what option files say, which no input record holds.
        typed = request.invocation.option_files
        self.arguments = _shown(request.invocation.arguments) if typed else _options(request.arguments)
        # All others are in the input record.
        self.environment = {
            name: request.environ[name] for name in environment.OF_ARGUMENTS if name in request.environ
        }
        self.cwd = os.getcwd()
        if "PWD" in request.environ:  # the name that compilers give the working directory
            self.environment["PWD"] = request.environ["PWD"]
        self.objects = [os.path.join(self.cwd, product) for product in products]
        self.is_recaching = is_recaching
        self.now = Present(request.environ)
        inputs = request.invocation.inputs
        self.is_as_elsewhere = False
        self.source = os.path.normpath(os.path.join(self.cwd, inputs[0])) if inputs else ""

    def as_in(self, other: ObjectRecord, checkout: str) -> Case:
        """The call as it would be in the checkout of another object, whatever it calls its outputs."""
        made = copy.copy(self)
        there = other.checkout
        if checkout and there:
            made.arguments = [
                (shown.replace(checkout, there), text.replace(checkout, there))
                for shown, text in self.arguments
            ]
        made.arguments = [pair for pair in made.arguments if not _names_output(pair[0])]
        made.is_as_elsewhere = True
        return made

    def comparable(self, components: list[Component]) -> list[Component]:
        """Those of another object's call that are to be compared."""
        if not self.is_as_elsewhere:
            return components
        return [(tag, [part for part in parts if not _names_output(part[0])]) for tag, parts in components]

    def components(self, digest_key: str) -> list[Component]:
        """What a call was known by, apart from files, in a form that may be kept and shown."""
        return [
            ("arguments", _digests(digest_key, self.arguments)),
            ("environment", _digests(digest_key, self.environment.items())),
            ("directory", [(self.cwd, "")]),
            ("nvcc", [(self.nvcc, "")]),
        ]


def _names_output(word: str) -> bool:
    return word.startswith(_OF_OUTPUTS)


def _digests(digest_key: str, pairs: Iterable[tuple[str, str]]) -> list[Part]:
    return [(shown, object_record.digest(digest_key, text)) for shown, text in pairs]


def _options(argv: Iterable[str]) -> list[tuple[str, str]]:
    """The words of a command line, each option together with its value: as it may be shown, and all of it."""
    scanned = tokens.scan(list(argv))
    if isinstance(scanned, tokens.UnknownOption):  # which does not come here: nvcc is left to refuse it
        return [(redaction.HIDDEN, word) for word in argv]
    return _shown(scanned)


def _shown(arguments: Iterable[Argument]) -> list[tuple[str, str]]:
    return [(redaction.shown(argument), " ".join(argument.tokens)) for argument in arguments]


def find_cause(case: Case, cache: Store, relocation: Relocation) -> list[str]:
    """Why there is no direct hit, the cause first; every line a clause."""
    if case.is_recaching:
        return ["NVCCACHE_RECACHE is set"]
    former = object_record.find(case.objects[0], cache) if case.objects else None
    if former is None:
        nearest = _nearest(case, cache, relocation)
        if nearest:
            return _unlike(nearest, case, cache, _LOST)
        neighbour = _neighbour(case, cache, relocation)
        return _of_neighbour(case, *neighbour, cache, relocation) if neighbour else [FIRST]
    found = _of_call(case, former)
    if former.reason_against_record:
        return [*found, f"no direct record is kept: {former.reason_against_record}"]
    recorded = _recorded(former, cache, relocation)
    if recorded is None:
        return [*found, _LOST]
    limits = ", ".join(f"`{limit}`" for limit in presence.tight_limits())
    otherwise = f"the limits of its caller are others ({limits})" if limits else _LOST
    return [*found, *_unlike(recorded, case, cache)] or [otherwise]


def of_query(cause: list[str], report: Report) -> str:
    """Why a query was not answered from a record, a clause."""
    if cause[0] == FIRST:
        cause = [_FIRST_QUERY]
    if report.reason_against_record:
        cause = [f"no record is kept: {report.reason_against_record}"]
    return cause[0]


def _unlike(recorded: InputRecord, case: Case, cache: Store, otherwise: str = "") -> list[str]:
    """What is not as it was recorded, a clause each."""
    environ = case.request.environ

    def ask(topic: str, subject: str) -> str:
        return facts.answer(topic, subject, environ, cache)

    unlike = input_records.differences(recorded, case.now, False, ask)
    return [difference_text.of_input_record(difference, recorded, environ) for difference in unlike] or (
        [otherwise] if otherwise else []
    )


def _nearest(case: Case, cache: Store, relocation: Relocation) -> InputRecord | None:
    """The newest input record of the same call for another object, or in another checkout."""
    request = case.request
    fronts = direct.fronts_of(request.nvcc, request.invocation, request.environ, relocation, request.terminal)
    return next((pair.input_record for front in fronts for pair in record.kept(front, cache)), None)


def _neighbour(case: Case, cache: Store, relocation: Relocation) -> tuple[str, ObjectRecord] | None:
    """The object that was made last of the same source, or of its like in another checkout."""
    product, other = object_record.find_of_source(case.source, cache)
    if other is None or product in case.objects:
        return None
    path, digest = other.source
    is_alike = _way(case.source, relocation.checkout) == _way(path, other.checkout)
    return (product, other) if is_alike or digest == _digest_of(case.source) else None


def _way(path: str, checkout: str) -> str:
    return path.removeprefix(f"{checkout}/") if checkout else path


def _of_neighbour(
    case: Case, product: str, other: ObjectRecord, cache: Store, relocation: Relocation
) -> list[str]:
    """Why that object is not taken: other words or files, or else what of it tells where it was made."""
    found = _of_call(case.as_in(other, relocation.checkout), other)
    found += _of_files_beside(case, other, cache, relocation) if not found else []
    if found:
        return [f"unlike for `{product}` {found[0]}", *found[1:]]
    if not other.kept_here:
        return [f"what `{product}` was made of is not as it was"]
    return [f"`{product}` is from elsewhere, and {other.kept_here}", *_advice(other, relocation)]


def _of_files_beside(case: Case, other: ObjectRecord, cache: Store, relocation: Relocation) -> list[str]:
    """Which of the files in this checkout are not like those in the other one that the object was made of."""
    there = Relocation(os.path.dirname(other.checkout), _only(other.components, "directory"))
    kept = direct.relocation_of(other.scope, there)
    found = record.named(other.record_name, kept, cache)
    if found is None or not there.checkout or not relocation.checkout:
        return []
    try:
        moved = input_records.decode(input_records.encode(found.input_record, there), relocation)
    except ValueError:
        return []
    now, files = case.now, zip(moved.files, moved.digests, strict=True)
    others = [path for path, digest in files if now.signature(path) and now.digest(path) != digest]
    return [f"`{path}` is another one" for path in others]


def _advice(other: ObjectRecord, relocation: Relocation) -> list[str]:
    """What to set so that the two share a result the next time; or nothing."""
    here, there = relocation.checkout, other.checkout
    if other.kept_here == record_call.HOLDS_ID and not relocation.base and here and there:
        base = os.path.commonpath([os.path.dirname(here), os.path.dirname(there)])
        return [f"with `NVCCACHE_BASE_DIR={base}` they can share it"] if len(base) > 1 else []
    if other.kept_here in (record_call.HOLDS_DIRECTORY, record_call.NAMED_IN_TEXT) and here:
        return [f"`-Xcompiler -ffile-prefix-map={here}=.` keeps paths out of what the host compiler makes"]
    return []


def _recorded(former: ObjectRecord, cache: Store, relocation: Relocation) -> InputRecord | None:
    kept = direct.relocation_of(former.scope, relocation)
    found = record.named(former.record_name, kept, cache)
    return found.input_record if found else None


def _only(components: Iterable[Component], tag: str) -> str:
    """The first part under a tag, or empty."""
    return next((parts[0][0] for known, parts in components if known == tag and parts), "")


def _of_call(case: Case, former: ObjectRecord) -> list[str]:
    now = object_record.bounded(case.components(former.digest_key))
    before = case.comparable(former.components)
    is_elsewhere = _only(former.components, "directory") != case.cwd
    found: list[str] = []
    for difference in difference_text.differences(now, before):
        if difference.is_hidden:
            found.append(f"the {difference.tag} changed")
        elif difference.tag == "arguments":
            found += difference_text.of_words(difference, "the command line")
        elif difference.tag == "environment":
            clauses = difference_text.of_variables(difference)
            # The name of the directory goes with it.
            found += [clause for clause in clauses if not is_elsewhere or "`PWD`" not in clause]
        elif difference.tag == "directory" and not case.is_as_elsewhere:
            found.append(f"the working directory changed from `{_only(former.components, 'directory')}`")
        elif difference.tag == "nvcc":
            found.append(f"nvcc is now `{case.nvcc}`, it was `{_only(former.components, 'nvcc')}`")
    return found


def note(
    case: Case,
    cause: list[str],
    report: Report,
    cache: Store,
    call: StagedCall,
    relocation: Relocation,
) -> None:
    """Write down what became of a call and why its stages ran, under each object it makes.

    What has changed is told first by what the first stage says that had to compile.
    """
    if report.leave_to_nvcc or not case.objects:
        return
    former = object_record.find(case.objects[0], cache)
    neighbour = None if former else _neighbour(case, cache, relocation)
    reasons = stage_reason.StageReasons(call, report.looked_up, case.now, relocation.checkout)
    compared = former or (neighbour[1] if neighbour else None)
    stage_reasons = reasons.reasons(compared, case.is_recaching)[:_MOST_DETAILS]
    if cause == [FIRST] and report.outcome == outcomes.STAGE_HIT:
        cause = [_BY_STAGES]
    compiled = reasons.of_first_compiled()
    cause = sorted(cause, key=lambda clause: compiled.index(clause) if clause in compiled else len(compiled))
    made = ObjectRecord()
    made.cause, made.details = cause[0], cause[1 : _MOST_DETAILS + 1]
    made.outcome = report.outcome
    made.digest_key = digest_key = os.urandom(16).hex()
    made.record_name, made.scope = report.record_name, report.scope
    made.reason_against_record = report.reason_against_record
    made.kept_here, made.checkout = report.kept_here, relocation.checkout
    made.source = [case.source, _digest_of(case.source)]
    made.stage_reasons = stage_reasons
    report.cause = cause[0]
    if former and report.status != 0:
        # What is known of the stages that it did not get to can only be compared under the same key.
        made.digest_key = digest_key = former.digest_key
        made.stages = reasons.keys_of_stages(digest_key, former)
    else:
        made.stages = reasons.keys_of_stages(digest_key)
    made.components = case.components(digest_key)
    object_record.add(case.objects, made, cache)
    object_record.note_of_source(case.source, case.objects[0], cache)


def _digest_of(path: str) -> str:
    try:
        return keys.digest_file(path)
    except OSError:
        return ""


class Explanation:
    """Of one call, told by who carries it out."""

    def __init__(self, *, is_recaching: bool) -> None:
        self._is_recaching = is_recaching

    def begin(self, request: Request, products: Iterable[str], cache: Store, relocation: Relocation) -> None:
        """Find out why it is not answered, while nothing of it is recorded."""
        self._cache, self._relocation = cache, relocation
        self._case = Case(request, products, self._is_recaching)
        self._cause = find_cause(self._case, cache, relocation)

    def end(self, report: Report, call: StagedCall) -> None:
        note(self._case, self._cause, report, self._cache, call, self._relocation)

    def end_query(self, report: Report) -> None:
        report.cause = of_query(self._cause, report)
