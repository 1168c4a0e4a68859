"""Stages that make up a module id: with which words they run, and under which key their result is kept.

Stages that nvcc would have read an id are told it where it is known. One that runs before guesses, and makes
up the id itself (module_id.py). Whether it is nvcc's shows when that is known; if not, and it is in
what the stage made, the stage ran in vain. That is kept for the source, so that its stages wait the next
time, whatever its content is by then.

Three keys are tried, from the most widely shared:

    anywhere    most of what cicc makes does not hold the id
    placed      it holds the id, which is made of the source's path
    seeded      the id is made of the seed (module_id.py), which says what the products are called
"""

from __future__ import annotations

import os

from nvccache import module_id as ids
from nvccache.files import keys
from nvccache.module_id import ROLE
from nvccache.records.base_dir import Relocation
from nvccache.records.record import Front

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nvccache.execution.workspace import Workspace
    from nvccache.machine.process import Completed
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.store.store import Store


_INCLUDE_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # as -I and -isystem, to the preprocessor
ANYWHERE, PLACED, SEEDED = "anywhere", "placed", "seeded"


class Seeds:
    """What the module ids of one call are made of. `plan` is nvcc's own.

    `own_ids` are the files with an id that nvcc does not write. A seed holds what the passes say that
    `workspace` knows: no stage that generates an id is looked up before all are done that can run before it.
    """

    def __init__(
        self,
        plan: Plan,
        own_ids: Mapping[str, str],
        cwd: str,
        environ: Mapping[str, str],
        workspace: Workspace | None = None,
    ) -> None:
        self._workspace = workspace
        self._plan = plan
        self._own_ids = own_ids
        self._cwd = cwd
        self._environ = environ
        self._producers = {output.path: stage for stage in plan.stages for output in stage.outputs}

    def seed_of(self, stage: Stage) -> ids.Seed:
        """The same for all stages that make up one id."""
        stage = self._reference(stage)
        ends = self._ends_of(stage)
        unit = [other for other in self._plan.stages if ends & self._ends_of(other)]
        known = self._plan.steps[: self._plan.end_of_passes(self._number_of(stage))]
        products = [os.path.normpath(os.path.join(self._cwd, path)) for path in sorted(ends)]
        source = os.path.join(self._cwd, stage.name("source path"))
        options = [word for other in unit for word in (other.argv[0], *other.key_argv)]
        options += [f"{name}={self._environ[name]}" for name in _INCLUDE_PATHS if name in self._environ]
        passes = [out.path for one in unit if one.is_preprocessor and one in known for out in one.outputs]
        texts = [self._workspace.meaning_of(path) for path in passes] if self._workspace else []
        return ids.seed_of(source, products, options, texts)

    def _number_of(self, stage: Stage) -> int:
        """The place of a stage among nvcc's steps."""
        made = [self._producers[out.path] for out in stage.outputs if out.path in self._producers]
        return self._plan.steps.index(made[0] if made else stage)  # what is not understood has no outputs

    def _ends_of(self, stage: Stage) -> set[str]:
        """The products that a stage writes, or that what it writes ends up in."""
        ends = {output.destination for output in stage.outputs if output.destination}
        return ends.union(*(self._plan.destinations.get(output.path, ()) for output in stage.outputs))

    def argv_to_run(self, stage: Stage) -> list[str]:
        """The argv to run a stage with that generates an id."""
        if self.takes_seed(stage):
            return ids.with_seed(stage.argv, self.seed_of(stage))
        return list(stage.argv)

    def takes_seed(self, stage: Stage) -> bool:
        preprocessor = self._preprocessor_of(stage)
        version = ids.toolkit_version(preprocessor.argv) if preprocessor else 0
        return ids.takes_seed(version) and not ids.user_chose_seed(stage)

    def settle(
        self,
        stage: Stage,
        completed: Completed,
        kept: Sequence[Output],
        run: Callable[[Sequence[str]], Completed],
    ) -> tuple[Completed, bool]:
        """On toolkits that take no seed: `run` again if the id would never be the same twice.

        Also whether another run was seen to make the same.
        """
        output = stage.output(ROLE)
        if output not in kept:
            return completed, self._makes_the_same_again(stage, kept, run)
        if output and output.path in self._own_ids:
            return completed, False
        assert output is not None
        with open(output.path, "rb") as stream:
            replaced = ids.replace_process(stream.read(), self.seed_of(stage))
        if replaced is None:
            return completed, False
        with open(output.path, "wb") as stream:
            stream.write(replaced)
        return run(ids.without_generating(stage.argv)), False

    def _makes_the_same_again(
        self, stage: Stage, kept: Sequence[Output], run: Callable[[Sequence[str]], Completed]
    ) -> bool:
        """Whether code that is no text, with an id that no file tells, holds no process id.

        That is OptiX-IR before CUDA 13. Another process makes other code then; the first stays.
        """
        first = [_read(output) for output in kept]
        if self.takes_seed(stage) or ids.user_chose_seed(stage) or not _is_code(first):
            return False
        is_repeatable = run(stage.argv).status == 0 and [_read(output) for output in kept] == first
        for output, content in zip(kept, first, strict=True):
            with open(output.path, "wb") as stream:
                stream.write(content)
        return is_repeatable

    def _reference(self, stage: Stage) -> Stage:
        """The stage whose id nvcc would have this one read; itself if it makes it up for others."""
        output = stage.output(ROLE)
        original = self._own_ids.get(output.path, "") if output else ""
        return self._producers.get(original, stage)

    def _preprocessor_of(self, stage: Stage) -> Stage | None:
        producers = [self._producers.get(path) for path in stage.inputs]
        return next((stage for stage in producers if stage and stage.is_preprocessor), None)


class Seeding:
    """Under which keys the results of stages are kept that make up an id, and what they hold of it."""

    def __init__(self, seeds: Seeds, workspace: Workspace, cwd: str) -> None:
        self.seeds = seeds
        self._workspace = workspace
        self._nowhere = Relocation("", cwd)

    def fronts(self, key: str, stage: Stage) -> Iterator[Front]:
        """Where the result of a stage may be, by what is known of it; most make up no id."""
        yield Front(key, self._nowhere, ANYWHERE)
        if ids.generates(stage):
            place = (ids.source_path(stage.argv),)
            yield Front(
                keys.key_of("placed stage", [("front", (key,)), ("place", place)]), self._nowhere, PLACED
            )
            seed = (self.seeds.seed_of(stage).text,)
            yield Front(
                keys.key_of("seeded stage", [("front", (key,)), ("seed", seed)]), self._nowhere, SEEDED
            )

    def names_id(self, stage: Stage, kept: Sequence[Output]) -> bool:
        """Whether the id in a stage's own file is also in what it made. Code that is no text may hide it."""
        identifier = self._identifier(stage, kept)
        contents = [self._workspace.as_read(output.path) or b"" for output in kept if output.role != ROLE]
        return ids.is_named_in(identifier, contents)

    def _names_place(self, identifier: bytes, kept: Sequence[Output]) -> bool:
        """Whether a result is for a source of this path alone: what it is kept as still holds the id."""
        contents = [self._workspace.content_of(output.path) or b"" for output in kept if output.role != ROLE]
        return ids.is_named_in(identifier, contents)

    def _is_told(self, stage: Stage, identifier: bytes, messages: bytes) -> bool:
        """Whether messages name the id, or the path that it is made of."""
        directory = os.path.dirname(stage.name("source path"))
        names_path = len(directory) > 1 and os.fsencode(directory) in messages
        return bool(messages) and (names_path or ids.is_named_in(identifier, [messages]))

    def may_be_named(self, stage: Stage) -> bool:
        """Whether device code that a stage made may hold the id, which tells where the source is.

        An object may hide that, since it is compressed in there.
        """
        if stage.name("source path") == "" or not stage.tool.compiles_device_code:
            return False
        others = [output for output in stage.kept_outputs if output.role != ROLE]
        contents = [self._workspace.content_of(output.path) for output in others]
        return any(content is None or b"\0" in content or ids.may_be_any_in(content) for content in contents)

    def scope_of(
        self, stage: Stage, kept: Sequence[Output], messages: bytes, *, is_repeatable: bool
    ) -> str | None:
        """How widely a result just made may be shared; None if it must not be stored."""
        if not ids.generates(stage):
            return ANYWHERE
        if stage.output(ROLE) not in kept:
            return self._scope_by_products(stage, kept, is_repeatable)
        identifier = self._identifier(stage, kept)
        if not ids.is_understood(identifier):
            return None
        is_told = self._is_told(stage, identifier, messages)
        if stage.tool.compiles_device_code and not self.names_id(stage, kept) and not is_told:
            return ANYWHERE
        if ids.is_made_of_process(identifier):
            return None
        if ids.depends_on_seed(identifier, self.seeds.seed_of(stage)):
            return SEEDED
        is_placed = "source path" in stage.grammar.ignored
        return PLACED if is_placed and (is_told or self._names_place(identifier, kept)) else ANYWHERE

    def _identifier(self, stage: Stage, kept: Sequence[Output]) -> bytes:
        output = stage.output(ROLE)
        return (self._workspace.as_read(output.path) or b"") if output and output in kept else b""

    def _scope_by_products(self, stage: Stage, kept: Sequence[Output], is_repeatable: bool) -> str | None:
        """The scope where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = [self._workspace.content_of(output.path) or b"" for output in kept]
        if self.seeds.takes_seed(stage):
            rest = self.seeds.seed_of(stage).rest
            depends = _is_code(contents) or any(rest in content for content in contents)
            return SEEDED if depends else ANYWHERE
        if ids.user_chose_seed(stage):
            is_kept = True
        elif _is_code(contents):
            is_kept = is_repeatable
        else:
            is_kept = not any(ids.names_process(content) for content in contents)
        return ANYWHERE if is_kept else None


def _is_code(contents: Sequence[bytes]) -> bool:
    """Whether this is no text, in which an id may have another form."""
    return any(b"\0" in content for content in contents)


def _read(output: Output) -> bytes:
    with open(output.path, "rb") as stream:
        return stream.read()


_IN_VAIN = "in vain"
_AT_ONCE = 1 << 20  # bytes


class OwnIds:
    """The ids that stages of one call make up themselves, beside those that nvcc would have them read."""

    def __init__(self, plan: Plan, workspace: Workspace, seeding: Seeding, store: Store, cwd: str) -> None:
        self._plan = plan
        self._workspace = workspace
        self._seeding = seeding
        self._store = store
        self._cwd = cwd
        self._memos: dict[str, str] = {}

    def is_own(self, output: Output) -> bool:
        """Whether this is an id that nothing reads, and that a result need not have where it is not in it."""
        return output.role == ROLE and output.path in self._plan.own_ids

    def original_of(self, stage: Stage) -> str:
        """The file with the id that nvcc would have this stage read, or empty."""
        return self._files_of(stage)[1]

    def are_not_in(self, stage: Stage) -> bool:
        """Whether the id that a stage has made up is in nothing else that it made."""
        output = stage.output(ROLE)
        is_own = output is not None and self.is_own(output)
        return is_own and not self._seeding.names_id(stage, stage.kept_outputs)

    def is_unlike(self, stage: Stage) -> bool:
        """Whether a stage that made up the module id itself has another one, in what it made, than nvcc's."""
        own, original = self._files_of(stage)
        if not self._workspace.knows(own) or not self._workspace.knows(original):
            return False
        if self._workspace.digest_of(own) == self._workspace.digest_of(original):
            return False
        return not self.are_not_in(stage)

    def has_to_guess(self, stage: Stage) -> bool:
        """Whether a stage would make up an id now, since nvcc's is not known yet."""
        original = self.original_of(stage)
        return original != "" and not self._workspace.knows(original)

    def known_for(self, stage: Stage) -> tuple[str, ...]:
        """The file with the id that nvcc would have this stage read, if that is known."""
        original = self.original_of(stage)
        return (original,) if original and self._workspace.knows(original) else ()

    def tell(self, stage: Stage) -> bool:
        """Have the id lie where a stage would write it, which reads it then; whether it is known.

        Of a stage that was found and has to run again, it is the one with which it ran.
        """
        own, original = self._files_of(stage)
        known = next((path for path in (original, own) if path and self._workspace.knows(path)), "")
        content = self._workspace.as_read(known) if known else None
        if content is None:
            return False
        os.makedirs(os.path.dirname(own), exist_ok=True)
        with open(own, "wb") as stream:
            stream.write(content)
        return True

    def is_seen_to_be_unlike(self, stage: Stage) -> bool | None:
        """The same as `is_unlike` of a stage that still runs, by what it has written; None if not seen yet.

        cicc writes the id when it has read its text, together with all device code as text. That may name
        what its result will not, which is seen at the end.
        """
        own, original = self._files_of(stage)
        made, code = _read_file(own), stage.output("gpu")
        if not made or not code:
            return None
        if made == self._workspace.as_read(original):
            return False
        return _holds(code.path, ids.head_of(made))

    def note_in_vain(self, stage: Stage) -> None:
        self._store.add_memo(self._memo_key(stage), _IN_VAIN)
        self._memos.clear()

    def were_in_vain(self, stage: Stage) -> bool:
        """Whether a stage of the same source was seen to guess in vain."""
        key = self._memo_key(stage)
        if key not in self._memos:
            self._memos[key] = self._store.find_memo(key)
        return self._memos[key] == _IN_VAIN

    def _memo_key(self, stage: Stage) -> str:
        source = os.path.join(self._cwd, stage.name("source path") or stage.name("source name"))
        return keys.key_of("ids in vain", [("source", (os.path.normpath(source),))])

    def _files_of(self, stage: Stage) -> tuple[str, str]:
        """The file with the id that a stage makes up, and that with nvcc's; both empty for other stages."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output in stage.kept_outputs and output else ""
        return (output.path, original) if output and original else ("", "")


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _holds(path: str, text: bytes) -> bool:
    """Whether a file holds a text, however large it is."""
    before = b""
    try:
        with open(path, "rb") as stream:
            while part := stream.read(_AT_ONCE):
                if text in before + part:
                    return True
                before = part[-len(text) :]
    except OSError:
        pass
    return False
