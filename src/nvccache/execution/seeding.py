"""Stages that make up a module id: with which argv they run, and under which key their result is kept.

Stages that nvcc would have read an id are given it where it is known. One that runs before guesses, and makes
up the id itself (module_id.py). Whether it is nvcc's shows when that is known; if not, and it is in
what the stage made, the stage ran in vain. That is kept for the source, so that its stages wait the next
time, whatever its content is by then.

Up to three keys are tried, from the most widely shared:

    anywhere    most of what cicc makes does not hold the id
    placed      it holds the id, which is made of the source's path
    seeded      the id is made of the seed (module_id.py), which says what the products are called
    relative    the same of a seed that all checkouts below the base directory have
"""

from __future__ import annotations

import os

from nvccache import module_id as ids
from nvccache.execution.context import SHARED
from nvccache.files import keys
from nvccache.module_id import ROLE
from nvccache.records.base_dir import Relocation
from nvccache.records.record import Front

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nvccache.execution.context import Context
    from nvccache.execution.workspace import Workspace
    from nvccache.machine.process import Completed
    from nvccache.plan.model import Output, Plan, Stage


_INCLUDE_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # as -I and -isystem, to the preprocessor
ANYWHERE, PLACED, SEEDED, RELATIVE = "anywhere", "placed", "seeded", "relative"
_IN_VAIN = "in vain"
_AT_ONCE = 1 << 20  # bytes


def seed_of(context: Context, stage: Stage, workspace: Workspace | None = None) -> ids.Seed:
    """What the module id is made of, for a stage of nvcc's own plan that makes one up.

    It holds what the passes say that `workspace` knows: no stage that generates an id is looked up before all
    are done that can run before it.
    """
    plan = context.plan
    ends = _ends_of(plan, stage)
    unit = [other for other in plan.stages if ends & _ends_of(plan, other)]
    known = plan.steps[: plan.end_of_passes(_number_of(plan, stage))]
    products = [os.path.normpath(os.path.join(context.cwd, path)) for path in sorted(ends)]
    source = os.path.join(context.cwd, stage.name("source path"))
    options = [word for other in unit for word in (other.argv[0], *other.key_argv)]
    options += [f"{name}={context.environ[name]}" for name in _INCLUDE_PATHS if name in context.environ]
    passes = [out.path for one in unit if one.is_preprocessor and one in known for out in one.outputs]
    texts = [workspace.meaning_of(path) for path in passes] if workspace else []
    if context.ids_choice == SHARED:
        relocation = Relocation(context.base, context.cwd)
        source, products = os.path.relpath(source, context.cwd), []
        options = list(map(relocation.encode_within, options))
    return ids.seed_of(source, products, options, texts)


def _number_of(plan: Plan, stage: Stage) -> int:
    """The place among nvcc's steps of a stage, which may write more than nvcc has it write."""
    written = {output.path for output in stage.outputs}
    same = [other for other in plan.stages if any(output.path in written for output in other.outputs)]
    return plan.steps.index(same[0] if same else stage)  # what is not understood has no outputs


def _ends_of(plan: Plan, stage: Stage) -> set[str]:
    """The products that a stage writes, or that what it writes ends up in."""
    ends = {output.destination for output in stage.outputs if output.destination}
    return ends.union(*(plan.destinations.get(output.path, ()) for output in stage.outputs))


class ModuleIds:
    """The ids of one attempt at a call: nvcc's, and those that the stages of `plan` make up in addition.

    First what the tools are given, then under which keys results are kept and what they hold of an id, and
    last the ids that stages make up which nvcc would have them read.
    """

    def __init__(self, context: Context, plan: Plan, workspace: Workspace) -> None:
        self._context = context
        self._plan = plan
        self._workspace = workspace
        self._producers = {output.path: stage for stage in context.plan.stages for output in stage.outputs}
        self._memos: dict[str, str] = {}
        self._seeded = RELATIVE if context.ids_choice == SHARED else SEEDED

    def seed_of(self, stage: Stage) -> ids.Seed:
        """The same for all stages that make up one id."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output else ""
        return seed_of(self._context, self._producers.get(original, stage), self._workspace)

    def takes_seed(self, stage: Stage) -> bool:
        producers = [self._producers.get(path) for path in stage.inputs]
        argv = next((one.argv for one in producers if one and one.is_preprocessor), ())
        return ids.takes_seed(ids.toolkit_version(argv)) and not ids.user_chose_seed(stage)

    def argv_to_run(self, stage: Stage) -> list[str]:
        """The argv to run a stage with that generates an id."""
        if self.takes_seed(stage):
            return ids.with_seed(stage.argv, self.seed_of(stage))
        return list(stage.argv)

    def settle(
        self,
        stage: Stage,
        completed: Completed,
        kept: Sequence[Output],
        run: Callable[[Sequence[str]], Completed],
    ) -> tuple[Completed, bool]:
        """On toolkits that take no seed: `run` again if the id would never be the same twice.

        Also whether another run was observed to make the same.
        """
        output = stage.output(ROLE)
        if output not in kept:
            return completed, self._makes_the_same_again(stage, kept, run)
        assert output is not None
        if output.path in self._plan.own_ids:
            return completed, False
        replaced = ids.replace_process_id(_read(output.path), self.seed_of(stage))
        if replaced is None:
            return completed, False
        _write(output.path, replaced)
        return run(ids.without_generating(stage.argv)), False

    def _makes_the_same_again(
        self, stage: Stage, kept: Sequence[Output], run: Callable[[Sequence[str]], Completed]
    ) -> bool:
        """Whether code that is no text, with an id that no file tells, holds no process id.

        That is OptiX-IR before CUDA 13. Another process makes other code then; the first stays.
        """
        first = [_read(output.path) for output in kept]
        if self.takes_seed(stage) or ids.user_chose_seed(stage) or not _is_code(first):
            return False
        is_repeatable = run(stage.argv).status == 0 and [_read(output.path) for output in kept] == first
        for output, content in zip(kept, first, strict=True):
            _write(output.path, content)
        return is_repeatable

    def fronts(self, key: str, stage: Stage) -> Iterator[Front]:
        """Where the result of a stage may be, by what is known of it; most make up no id."""
        nowhere = Relocation("", self._context.cwd)
        yield Front(key, nowhere, ANYWHERE)
        if ids.generates(stage):
            place = (ids.source_path(stage.argv),)
            yield Front(keys.key_of("placed stage", [("front", (key,)), ("place", place)]), nowhere, PLACED)
            seed = (self.seed_of(stage).text,)
            yield Front(
                keys.key_of("seeded stage", [("front", (key,)), ("seed", seed)]), nowhere, self._seeded
            )

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
        is_in_messages = self._is_in_messages(stage, identifier, messages)
        if stage.tool.compiles_device_code and not self._names_id(stage) and not is_in_messages:
            return ANYWHERE
        if ids.has_process_id(identifier):
            return None
        if ids.depends_on_seed(identifier, self.seed_of(stage)):
            return self._seeded
        # What a result is kept as may still hold the id: it is for a source of this path alone then.
        is_in_it = is_in_messages or ids.may_occur_in(identifier, self._contents(kept))
        return PLACED if "source path" in stage.grammar.ignored and is_in_it else ANYWHERE

    def _scope_by_products(self, stage: Stage, kept: Sequence[Output], is_repeatable: bool) -> str | None:
        """The scope where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = self._contents(kept)
        if self.takes_seed(stage):
            rest = self.seed_of(stage).rest
            depends = _is_code(contents) or any(rest in content for content in contents)
            return self._seeded if depends else ANYWHERE
        if ids.user_chose_seed(stage):
            is_kept = True
        elif _is_code(contents):
            is_kept = is_repeatable
        else:
            is_kept = not any(map(ids.contains_process_id, contents))
        return ANYWHERE if is_kept else None

    def may_be_named(self, stage: Stage) -> bool:
        """Whether device code that a stage made may hold the id, which tells where the source is.

        An object may hide that, since it is compressed in there.
        """
        if stage.name("source path") == "" or not stage.tool.compiles_device_code:
            return False
        # What the store has lost may hold anything, as code may.
        contents = self._contents(stage.kept_outputs, lost=b"\0")
        return any(b"\0" in content or ids.may_contain_id(content) for content in contents)

    def _names_id(self, stage: Stage) -> bool:
        """Whether the id in a stage's own file is also in what it made. Code that is no text may hide it."""
        kept = stage.kept_outputs
        others = [self._workspace.as_read(output.path) or b"" for output in kept if output.role != ROLE]
        return ids.may_occur_in(self._identifier(stage, kept), others)

    def _is_in_messages(self, stage: Stage, identifier: bytes, messages: bytes) -> bool:
        """Whether messages name the id, or the path that it is made of."""
        directory = os.path.dirname(stage.name("source path"))
        names_path = len(directory) > 1 and os.fsencode(directory) in messages
        return bool(messages) and (names_path or ids.may_occur_in(identifier, [messages]))

    def _identifier(self, stage: Stage, kept: Sequence[Output]) -> bytes:
        output = stage.output(ROLE)
        return (self._workspace.as_read(output.path) or b"") if output and output in kept else b""

    def _contents(self, kept: Sequence[Output], lost: bytes = b"") -> list[bytes]:
        """The kept outputs of a stage, except its id."""
        contents = [self._workspace.content_of(output.path) for output in kept if output.role != ROLE]
        return [lost if content is None else content for content in contents]

    def is_own(self, output: Output) -> bool:
        """Whether this is an id that nothing reads, and that a result need not have where it is not in it."""
        return output.role == ROLE and output.path in self._plan.own_ids

    def original_of(self, stage: Stage) -> str:
        """The file with the id that nvcc would have this stage read, or empty."""
        return self._files_of(stage)[1]

    def are_not_in(self, stage: Stage) -> bool:
        """Whether the id that a stage has made up is in nothing else that it made."""
        output = stage.output(ROLE)
        return output is not None and self.is_own(output) and not self._names_id(stage)

    def has_wrong_id(self, stage: Stage) -> bool:
        """Whether the outputs of a stage hold a module id that it made up and that differs from nvcc's."""
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

    def provide(self, stage: Stage) -> bool:
        """Have the id lie where a stage would write it, which reads it then; whether it is known.

        Of a stage that was found and has to run again, it is the one with which it ran.
        """
        own, original = self._files_of(stage)
        known = next((path for path in (original, own) if path and self._workspace.knows(path)), "")
        content = self._workspace.as_read(known) if known else None
        if content is None:
            return False
        os.makedirs(os.path.dirname(own), exist_ok=True)
        _write(own, content)
        return True

    def writes_wrong_id(self, stage: Stage) -> bool | None:
        """The same of a stage that still runs, by its output so far; None while that is not known.

        cicc writes the id when it has read its text, together with all device code as text. That text may
        name an id that the result will not hold; only the end of the stage shows it.
        """
        own, original = self._files_of(stage)
        code = stage.output("gpu")
        try:
            made = _read(own)
        except OSError:
            return None
        if not made or not code:
            return None
        if made == self._workspace.as_read(original):
            return False
        return _holds(code.path, ids.head_of(made))

    def note_in_vain(self, stage: Stage) -> None:
        self._context.store.add_memo(self._memo_key(stage), _IN_VAIN)
        self._memos.clear()

    def were_in_vain(self, stage: Stage) -> bool:
        """Whether a stage of the same source was observed to guess in vain."""
        key = self._memo_key(stage)
        if key not in self._memos:
            self._memos[key] = self._context.store.find_memo(key)
        return self._memos[key] == _IN_VAIN

    def _memo_key(self, stage: Stage) -> str:
        name = stage.name("source path") or stage.name("source name")
        source = os.path.normpath(os.path.join(self._context.cwd, name))
        return keys.key_of("ids in vain", [("source", (source,))])

    def _files_of(self, stage: Stage) -> tuple[str, str]:
        """The file with the id that a stage makes up, and that with nvcc's; both empty for other stages."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output in stage.kept_outputs and output else ""
        return (output.path, original) if output and original else ("", "")


def _is_code(contents: Sequence[bytes]) -> bool:
    """Whether this is no text, in which an id may have another form."""
    return any(b"\0" in content for content in contents)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(content)


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
