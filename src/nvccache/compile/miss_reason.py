"""Why a call was not answered from a record: what differs from the last compile of the same object.

The components of a call are compared with those in the object's record (object_record.py), then what it read
with what is there now. Why single stages ran says stage_reason.py.
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.commandline import redaction, tokens
from nvccache.compile import difference_text, object_record, stage_reason
from nvccache.compile.object_record import ObjectRecord
from nvccache.files import key_differences, presence
from nvccache.records import differences, direct, machine_facts, manifest
from nvccache.records.base_dir import Relocation
from nvccache.records.differences import Present

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.compile.record_call import Recorded
    from nvccache.compile.report import Report
    from nvccache.compile.request import Request
    from nvccache.execution.execution import Execution
    from nvccache.files.key_differences import Component, Part
    from nvccache.preprocessed.passes import Pass
    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

FIRST = "no earlier compile of it is recorded"
_LOST = "its result is no longer in the cache"
_MOST_DETAILS = 50


class Case:
    """A call as far as an explanation needs it."""

    def __init__(self, request: Request, products: Iterable[str], is_recaching: bool) -> None:
        self.request = request
        self.nvcc = request.nvcc
        self.arguments = _options(request.arguments)
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

    def components(self, digest_key: str) -> list[Component]:
        """What a call was known by, apart from files, in a form that may be kept and shown."""
        return [
            ("arguments", _digests(digest_key, self.arguments)),
            ("environment", _digests(digest_key, self.environment.items())),
            ("directory", [(self.cwd, "")]),
            ("nvcc", [(self.nvcc, "")]),
        ]


def _digests(digest_key: str, pairs: Iterable[tuple[str, str]]) -> list[Part]:
    return [(shown, object_record.digest(digest_key, text)) for shown, text in pairs]


def _options(argv: Iterable[str]) -> list[tuple[str, str]]:
    """The words of a command line, each option together with its value: as it may be shown, and all of it."""
    scanned = tokens.scan(list(argv))
    if isinstance(scanned, tokens.UnknownOption):  # which does not come here: nvcc is left to refuse it
        return [(redaction.HIDDEN, word) for word in argv]
    return [(redaction.shown(argument), " ".join(argument.tokens)) for argument in scanned]


def find_cause(case: Case, cache: Store, relocation: Relocation) -> list[str]:
    """Why there is no direct hit, the cause first; every line a clause."""
    if case.is_recaching:
        return ["NVCCACHE_RECACHE is set"]
    former = object_record.find(case.objects[0], cache) if case.objects else None
    if former is None:
        nearest = _nearest(case, cache, relocation)
        return _unlike(nearest, case, cache, _LOST) if nearest else [FIRST]
    found = _of_call(case, former)
    if former.reason_against_record:
        return [*found, f"no direct record is kept: {former.reason_against_record}"]
    recorded = _recorded(former, cache, relocation)
    if recorded is None:
        return [*found, _LOST]
    limits = ", ".join(f"`{limit}`" for limit in presence.tight_limits())
    otherwise = f"the limits of its caller are others ({limits})" if limits else _LOST
    return [*found, *_unlike(recorded, case, cache)] or [otherwise]


def _unlike(recorded: InputRecord, case: Case, cache: Store, otherwise: str = "") -> list[str]:
    """What is not as it was recorded, a clause each."""
    environ = case.request.environ

    def ask(topic: str, subject: str) -> str:
        return machine_facts.answer(topic, subject, environ, cache)

    unlike = differences.differences(recorded, case.now, False, ask)
    return [difference_text.of_input_record(difference, recorded, environ) for difference in unlike] or (
        [otherwise] if otherwise else []
    )


def _nearest(case: Case, cache: Store, relocation: Relocation) -> InputRecord | None:
    """The newest input record of the same call for another object, or in another checkout."""
    request = case.request
    for scope, kept in direct.scopes_of(relocation):
        key = direct.key_of(scope, request.nvcc, request.invocation, kept, request.environ)
        for found in manifest.kept_input_records(key, cache, kept):
            return found.input_record
    return None


def _recorded(former: ObjectRecord, cache: Store, relocation: Relocation) -> InputRecord | None:
    kept = direct.relocation_of(former.scope, relocation)
    found = manifest.kept(former.record_key, cache, kept) if former.record_key else None
    return found.input_record if found else None


def _only(components: Iterable[Component], tag: str) -> str:
    """The first part under a tag, or empty."""
    return next((parts[0][0] for known, parts in components if known == tag and parts), "")


def _of_call(case: Case, former: ObjectRecord) -> list[str]:
    now = object_record.bounded(case.components(former.digest_key))
    is_elsewhere = _only(former.components, "directory") != case.cwd
    found: list[str] = []
    for difference in key_differences.differences(now, former.components):
        if difference.is_hidden:
            found.append(f"the {difference.tag} changed")
        elif difference.tag == "arguments":
            found += difference_text.of_words(difference, "the command line")
        elif difference.tag == "environment":
            clauses = difference_text.of_variables(difference)
            # The name of the directory goes with it.
            found += [clause for clause in clauses if not is_elsewhere or "`PWD`" not in clause]
        elif difference.tag == "directory":
            found.append(f"the working directory changed from `{_only(former.components, 'directory')}`")
        elif difference.tag == "nvcc":
            found.append(f"nvcc is now `{case.nvcc}`, it was `{_only(former.components, 'nvcc')}`")
    return found


def note(
    case: Case,
    cause: list[str],
    recorded: Recorded,
    report: Report,
    cache: Store,
    execution: Execution,
    passes: Mapping[str, Pass],
) -> None:
    """Write down what became of a call and why its stages ran, under each object it makes.

    What has changed is told first by what the first stage says that had to compile.
    """
    if report.leave_to_nvcc or not case.objects:
        return
    former = object_record.find(case.objects[0], cache)
    reasons = stage_reason.StageReasons(execution, report.looked_up, case.now, passes)
    stage_reasons = reasons.reasons(former, case.is_recaching)[:_MOST_DETAILS]
    compiled = reasons.of_first_compiled()
    cause = sorted(cause, key=lambda clause: compiled.index(clause) if clause in compiled else len(compiled))
    record = ObjectRecord()
    record.cause, record.details = cause[0], cause[1 : _MOST_DETAILS + 1]
    record.outcome = report.outcome
    record.digest_key = digest_key = os.urandom(16).hex()
    record.record_key, record.scope = recorded.key, recorded.scope
    record.reason_against_record = recorded.reason_against_record
    record.stage_reasons = stage_reasons
    report.cause = cause[0]
    if former and report.status != 0:
        # What is known of the stages that it did not get to can only be compared under the same key.
        record.digest_key = digest_key = former.digest_key
        record.stages = reasons.keys_of_stages(digest_key, former)
    else:
        record.stages = reasons.keys_of_stages(digest_key)
    record.components = case.components(digest_key)
    object_record.add(case.objects, record, cache)
