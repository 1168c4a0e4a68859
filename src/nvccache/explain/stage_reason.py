"""Why single stages ran: how their keys differ from those of the last compile of the object.

The components of a stage's key, without secrets, are compared with those in the object's record; if they are
equal, its recorded inputs with the present ones. Names no tool.
"""

from __future__ import annotations

import os

from nvccache.commandline import redaction
from nvccache.execution import find_stage
from nvccache.explain import difference_text, object_record
from nvccache.explain.object_record import StageKeys
from nvccache.plan import model
from nvccache.records import input_records, record
from nvccache.records.base_dir import Relocation
from nvccache.store import sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nvccache.compile.tasks import Task
    from nvccache.execution.staged_call import StagedCall
    from nvccache.explain.difference_text import Component, ComponentDifference, Part
    from nvccache.explain.object_record import ObjectRecord
    from nvccache.files.keys import KeyComponent
    from nvccache.plan.model import Stage
    from nvccache.records.facts import Present

FIRST = "first compile of this stage"
NOT_CACHED = "its results are not cached"
LOST = "its result is no longer in the cache"
NOT_STORED = "its last result was not stored"
RECACHED = "NVCCACHE_RECACHE is set"
_MISSING = (LOST, NOT_STORED)
UNKNOWN = frozenset((FIRST, NOT_CACHED, RECACHED, *_MISSING))  # clauses that name no difference
_MOST_CLAUSES = 3
_LINE_OF_PASS = "the command line of its preprocessor"
_TEXT = "the preprocessed text"
_TEXTS = "said"  # an extra tag of a pass: the digest of each user file's contribution to its text
_OF_PLACES = (
    "files",
    "directory",
    "dates",
)  # components that only say where files are, or are some of the inputs
_FILES = {"files": "", "libraries": "the library "}
_OTHERS = {
    "sources": "its source is in another place",
    "names": "its intermediate files have other names",
    "wrapper": "the host compiler's wrapper runs another command",
}


class StageReasons:
    """Why the stages of one call ran, and the components of their keys for the next compile's record."""

    def __init__(self, call: StagedCall, looked_up: Sequence[Task], now: Present) -> None:
        self._call = call
        self._looked_up = looked_up
        self._names = model.names_of(call.plan.stages)
        self._now = now.in_environment(call.environ)
        self._clauses: dict[str, list[str]] = {}  # by the name of the stage
        self._paths: dict[str, str] = {}  # by clause: the file that has changed
        self._former: dict[str, StageKeys] = {}

    def keys_of_stages(self, digest_key: str) -> list[StageKeys]:
        """The components of the keys of stages that were looked up, with digests under this key."""
        return [self._keys_of(one, digest_key) for one in self._looked_up if _is_cached(one)]

    def reasons(self, former: ObjectRecord | None, is_recaching: bool) -> list[tuple[str, str]]:
        """The name of each stage that ran, and why, a clause."""
        self._former = known = {keys.name: keys for keys in former.stages} if former else {}
        self._clauses = clauses = {}
        for one in self._looked_up:
            if _has_run(one):
                name = self._names[id(one.stage)]
                if not _is_cached(one):
                    clauses[name] = [NOT_CACHED]
                elif is_recaching:
                    clauses[name] = [RECACHED]
                elif former is None or name not in known:
                    clauses[name] = [FIRST]
                else:
                    clauses[name] = self._differences(one, former, known[name])
        sentences = {name: _sentence(found) for name, found in clauses.items()}
        for one in self._looked_up:
            assert one.event
            one.event.why = sentences.get(self._names[id(one.stage)], "")
        return list(sentences.items())

    def of_first_compiled(self) -> list[str]:
        """Why the first stage that is no preprocessor ran, in nvcc's order; call `reasons` first."""
        ran = [one.stage for one in self._looked_up if _has_run(one) and not one.stage.is_preprocessor]
        return self._clauses.get(self._names[id(ran[0])], []) if ran else []

    def _keys_of(self, one: Task, digest_key: str) -> StageKeys:
        assert one.action
        fronts = find_stage.fronts(self._call, one.stage, one.action)
        newest = (pair for front in fronts for pair in record.all_pairs(front, self._call.store))
        found = one.found or next(newest, None)
        described = self._described(one.stage, one.action.components, digest_key)
        if one.stage.is_preprocessor and (files := self._files_of_text(one.stage)):
            described.append((_TEXTS, list(files.items())))
        return StageKeys(self._names[id(one.stage)], found.name if found else "", described)

    def _files_of_text(self, producer: Stage) -> dict[str, str]:
        """Digests of what each user file contributes to the text of a pass."""
        known = self._call.workspace.passes.get(producer.outputs[0].path)
        return {os.fsdecode(name): digest for name, digest in known.files} if known else {}

    def _described(
        self, stage: Stage, components: Iterable[KeyComponent], digest_key: str
    ) -> list[Component]:
        """The components without secrets."""
        found: list[Component] = []
        for tag, raw in components:
            parts = [part if isinstance(part, str) else part.hex() for part in raw]
            described: list[Part] = [("", object_record.digest(digest_key, part)) for part in parts]
            if tag == "tool":
                program = stage.argv[0].rpartition("/")[2]
                described = [
                    (part, "") if part[:1] == "/" else other
                    for part, other in zip(parts, described, strict=True)
                ]
                described[0] = (program, parts[0])
            elif tag == "arguments":
                described = [
                    (shown, "" if shown == whole else object_record.digest(digest_key, whole))
                    for shown, whole in redaction.of_tool(parts)
                ]
            elif tag == "inputs":
                read = self._call.read_by(stage)
                described = [
                    (self._called(path, stage), part) for path, part in zip(read, parts, strict=False)
                ]
            elif tag in ("files", "libraries"):
                described = [(path, digest) for path, digest in sections.in_tuples(parts, 2)]
            elif tag in ("directory", "dates"):
                described = [(part, "") for part in parts]
            found.append((tag, described))
        return found

    def _called(self, path: str, reader: Stage) -> str:
        """A name for an intermediate, from the stage that made it: `cicc's output`."""
        if path not in self._call.outputs:
            return path.rpartition("/")[2]
        producer, _ = self._call.outputs[path]
        if producer.is_preprocessor:
            return _TEXT
        architecture = "" if model.architecture_option(reader) else model.architecture_option(producer)
        return f"{model.tool_name(producer)}'s output" + (f" for {architecture}" if architecture else "")

    def _differences(self, one: Task, former: ObjectRecord, before: StageKeys) -> list[str]:
        now = object_record.bounded(self._keys_of(one, former.digest_key).components)
        different = difference_text.differences(now, before.components)
        different = [difference for difference in different if difference.tag != _TEXTS]
        found = [clause for difference in different for clause in self._of_component(difference, one.stage)]
        if all(difference.tag in _OF_PLACES for difference in different):
            # Other inputs may have changed, too.
            read = self._of_input_record(before)
            found += [clause for clause in read if clause not in _MISSING or not found]
        return list(dict.fromkeys(found))

    def _of_component(self, difference: ComponentDifference, stage: Stage) -> list[str]:
        tag = difference.tag
        if tag == "tool":
            return [_of_tool(difference)]
        if tag == difference_text.BASE_DIRECTORY:
            return [difference_text.of_base_directory(difference)]
        if difference.is_hidden:
            return [_OTHERS.get(tag, f"its {tag} changed")]
        if tag == "arguments":
            return difference_text.of_arguments(difference, difference_text.LINE_OF_TOOL)
        if not difference.added and not difference.removed:
            return [f"the order of its {tag} changed"]
        if tag == "inputs":
            return self._of_inputs(difference, stage)
        if tag in _FILES:
            clauses = difference_text.of_files(difference, _FILES[tag])
            paths = dict.fromkeys(path for path, _ in (*difference.added, *difference.removed))
            self._paths |= zip(clauses, paths, strict=True)
            return clauses
        if tag == "dates":
            dated, before = (
                {shown.rsplit(":", 2)[0] for shown, _ in parts}
                for parts in (difference.added, difference.removed)
            )
            return [f"the date of `{name}` changed" for name in sorted(dated & before)]
        if tag == "directory":  # without the one of before, an option makes it matter
            both_known = difference.added and difference.removed
            return [f"the working directory changed from `{difference.removed[0][0]}`"] if both_known else []
        return [_OTHERS.get(tag, f"its {tag} changed")]

    def _of_inputs(self, difference: ComponentDifference, stage: Stage) -> list[str]:
        """How its inputs changed; for text from a pass that ran, why that ran."""
        before = {name for name, _ in difference.removed}
        found = []
        for name, _ in difference.added:
            if name == _TEXT and (clauses := self._of_passes(stage)):
                found += clauses
            elif name in before:
                found.append(f"{name} changed")
            else:
                found.append(f"it now reads {name}")
        return found or [f"it no longer reads {name}" for name in before]

    def _of_passes(self, stage: Stage) -> list[str]:
        """Why those passes ran in this call whose text a stage reads.

        Files that changed the text come first; files that did not, such as one with a new comment, come last.
        """
        writers = self._call.outputs
        read = [writers[path][0] for path in self._call.read_by(stage) if path in writers]
        ran = [producer for producer in read if self._clauses.get(self._names[id(producer)])]
        found = []
        for producer in ran:
            clauses = [
                clause for clause in self._clauses[self._names[id(producer)]] if clause not in _MISSING
            ]
            changed = self._changed_contributions(producer)
            found += sorted(clauses, key=lambda clause: -changed.get(self._path_of(clause), 0.5))
        return [clause.replace(difference_text.LINE_OF_TOOL, _LINE_OF_PASS) for clause in found]

    def _changed_contributions(self, producer: Stage) -> dict[str, bool]:
        """For each file that contributes to the text of a pass, whether its contribution changed."""
        former = self._former.get(self._names[id(producer)])
        before = (
            dict(next((parts for tag, parts in former.components if tag == _TEXTS), ())) if former else {}
        )
        now = self._files_of_text(producer)
        if not now or not before:
            return {}
        return {self._path(name): now.get(name) != before.get(name) for name in {*now, *before}}

    def _path_of(self, clause: str) -> str:
        return self._path(self._paths[clause]) if clause in self._paths else ""

    def _path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self._call.cwd, name))

    def _of_input_record(self, before: StageKeys) -> list[str]:
        """What changed in its input record, as clauses."""
        environ, cache = self._call.environ, self._call.store
        found = record.named(before.record_name, Relocation("", self._call.cwd), cache)
        if found is None:
            return [LOST if before.record_name else NOT_STORED]
        read = found.input_record
        paths = {
            difference_text.of_input_record(difference, read, environ): difference.path
            for difference in input_records.differences(read, self._now)
        }
        self._paths |= paths
        return list(paths) or [LOST]


def _is_cached(task: Task) -> bool:
    return task.action is not None and task.action.is_cached


def _has_run(task: Task) -> bool:
    return task.event is not None and not task.event.is_hit


def _of_tool(difference: ComponentDifference) -> str:
    new, old = ([shown for shown, _ in parts if shown] for parts in (difference.added, difference.removed))
    if not new:
        return "the processor, or a library that its program loads, changed"
    if new[0] in old:
        return f"the program `{new[0]}` changed"
    return f"its program is `{new[0]}`" + (f" instead of `{old[0]}`" if old else "")


def _sentence(clauses: Sequence[str]) -> str:
    more = len(clauses) - _MOST_CLAUSES
    return "; ".join([*clauses[:_MOST_CLAUSES], *([f"and {more} more"] if more > 0 else [])])
