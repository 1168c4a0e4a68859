"""Why single stages ran: how their keys differ from those of the last compile of the object.

The components of a stage's key, without secrets, are compared with those in the object's record; if they are
equal, its recorded inputs with the present ones. Names no tool.
"""

from __future__ import annotations

from nvccache.explain import difference_text, object_record
from nvccache.explain.object_record import StageKeys
from nvccache.plan import model
from nvccache.plan.stages import shown_name
from nvccache.records import record
from nvccache.records.base_dir import Relocation
from nvccache.records.facts import CurrentState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.explain.object_record import Component, ObjectRecord
    from nvccache.plan.model import Stage
    from nvccache.run.call import Compile
    from nvccache.run.stage_run import StageRun

FIRST = "first compile of this stage"
NOT_CACHED = "its results are not cached"
LOST = "its result is no longer in the cache"
NOT_STORED = "its last result was not stored"
RECACHED = "NVCCACHE_RECACHE is set"
_MOST_CLAUSES = 3
_LINE_OF_PASS = "the command line of its preprocessor"
_TEXT = "the preprocessed text"
# Components that only say where files are, or are some of the inputs.
_PLACES = ("files", "directory", "dates")


class StageReasons:
    """Why the stages of one call ran, and the components of their keys for the next compile's record."""

    def __init__(self, call: Compile, looked_up: Sequence[StageRun], now: CurrentState) -> None:
        self._call = call
        self._looked_up = looked_up
        self._names = model.names_of(call.plan.stages)
        self._now = CurrentState(call.environ, call.store, now)
        self._clauses: dict[str, list[str]] = {}  # by the name of the stage

    def keys_of_stages(self, digest_key: str) -> list[StageKeys]:
        """The components of the keys of stages that were looked up, with digests under this key."""
        stages = []
        for one in self._looked_up:
            if one.is_cached:
                record_name = one.entry.name if one.entry else one.record_name
                name = self._names[id(one.stage)]
                stages.append(StageKeys(name, record_name, self._components(one, digest_key)))
        return stages

    def reasons(self, former: ObjectRecord | None, is_recaching: bool) -> list[tuple[str, str]]:
        """The name of each stage that ran, and why, a clause."""
        keys_before = {keys.name: keys for keys in former.stages} if former else {}
        for one in self._looked_up:
            assert one.event
            if one.event.is_hit:
                continue
            name = self._names[id(one.stage)]
            if not one.is_cached:
                clauses = [NOT_CACHED]
            elif is_recaching:
                clauses = [RECACHED]
            elif former is None or name not in keys_before:
                clauses = [FIRST]
            else:
                clauses = self._differences(one, former, keys_before[name])
            self._clauses[name] = clauses
            more = [f"and {len(clauses) - _MOST_CLAUSES} more"] if len(clauses) > _MOST_CLAUSES else []
            one.event.why = "; ".join([*clauses[:_MOST_CLAUSES], *more])
        ran = {self._names[id(one.stage)]: one.event.why for one in self._looked_up if one.event}
        return [(name, ran[name]) for name in self._clauses]

    def _components(self, one: StageRun, digest_key: str) -> list[Component]:
        """The components of a stage's key without secrets."""
        inputs = [self._called(path, one.stage) for path in self._call.read_by(one.stage)]
        program = one.stage.argv[0].rpartition("/")[2]
        return object_record.stored_form(one.components or (), digest_key, program, inputs)

    def _called(self, path: str, reader: Stage) -> str:
        """A name for an intermediate, from the stage that wrote it: `cicc's output`."""
        if path not in self._call.outputs:
            return path.rpartition("/")[2]
        producer, _ = self._call.outputs[path]
        if producer.is_preprocessor:
            return _TEXT
        architecture = "" if model.architecture_option(reader) else model.architecture_option(producer)
        return f"{shown_name(producer.kind, architecture)}'s output"

    def _differences(self, one: StageRun, former: ObjectRecord, before: StageKeys) -> list[str]:
        """The differences of the key; if all of them say no more than where files are, also of the inputs."""
        different = difference_text.differences(self._components(one, former.digest_key), before.components)
        clauses: list[str] = []
        for difference in different:
            text_clauses = self._clauses_of_passes(one.stage) if _TEXT in dict(difference.added) else []
            if text_clauses:
                difference.added = [part for part in difference.added if part[0] != _TEXT]
                difference.removed = [part for part in difference.removed if part[0] != _TEXT]
            if not text_clauses or difference.added or difference.removed:
                clauses += difference_text.clauses(difference, difference_text.LINE_OF_TOOL)
            clauses += text_clauses
        if all(difference.tag in _PLACES for difference in different):
            recorded = record.find_by_name(
                before.record_name, Relocation("", self._call.cwd), self._call.store
            )
            if recorded:
                environ = self._call.environ
                clauses += difference_text.input_clauses(recorded.input_record, self._now, environ)
            clauses = clauses or [LOST if before.record_name else NOT_STORED]
        return list(dict.fromkeys(clauses))

    def _clauses_of_passes(self, stage: Stage) -> list[str]:
        """Why those passes ran in this call whose text a stage reads."""
        writers = self._call.outputs
        names = [self._names[id(writers[path][0])] for path in self._call.read_by(stage) if path in writers]
        clauses = [clause for name in names for clause in self._clauses.get(name, [])]
        return [
            clause.replace(difference_text.LINE_OF_TOOL, _LINE_OF_PASS)
            for clause in clauses
            if clause not in (LOST, NOT_STORED)
        ]
