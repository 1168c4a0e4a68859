"""Stages that generate a module id: the argv they run with, and the keys of their results.

nvcc lets several stages read one id from a file. Where that is known, they get it. A stage that runs earlier
guesses: it generates the id itself (module_id.py), which is compared with nvcc's later. If they differ, and
the stage's output contains the id, its run is wasted. That is remembered for the source, whatever its
content, so that its stages wait for the id next time.

Up to three keys are tried, from the most widely shared:

    anywhere    the result does not contain the id; true of most results of cicc
    placed      it contains the id, which is made from the source's path
    seeded      the id is made from the seed (module_id.py), which contains the names of the products
    relative    the same, with a seed shared by all checkouts below the base directory
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


_INCLUDE_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # work like -I and -isystem
ANYWHERE, PLACED, SEEDED, RELATIVE = "anywhere", "placed", "seeded", "relative"
_WRONG_GUESS = "in vain"
_CHUNK = 1 << 20  # bytes


def seed_of(context: Context, stage: Stage, workspace: Workspace | None = None) -> ids.Seed:
    """What the module id is made from, for a stage of nvcc's own plan that generates one.

    It includes the meaning of all passes known to `workspace`: a stage that generates an id is looked up only
    when all passes that can run before it are done.
    """
    plan = context.plan
    ends = _ends_of(plan, stage)
    unit = [other for other in plan.stages if ends & _ends_of(plan, other)]
    known = plan.steps[: plan.end_of_passes(_number_of(plan, stage))]
    products = [os.path.normpath(os.path.join(context.cwd, path)) for path in sorted(ends)]
    source = os.path.join(context.cwd, stage.name("source path"))
    options = [argument for other in unit for argument in (other.argv[0], *other.key_argv)]
    options += [f"{name}={context.environ[name]}" for name in _INCLUDE_PATHS if name in context.environ]
    passes = [out.path for one in unit if one.is_preprocessor and one in known for out in one.outputs]
    texts = [workspace.meaning_of(path) for path in passes] if workspace else []
    if context.ids_choice == SHARED:
        relocation = Relocation(context.base, context.cwd)
        source, products = os.path.relpath(source, context.cwd), []
        options = list(map(relocation.encode_within, options))
    return ids.seed_of(source, products, options, texts)


def _number_of(plan: Plan, stage: Stage) -> int:
    """The index of a stage among nvcc's steps; it may have more outputs than nvcc's own stage."""
    written = {output.path for output in stage.outputs}
    same = [other for other in plan.stages if any(output.path in written for output in other.outputs)]
    return plan.steps.index(same[0] if same else stage)  # an opaque stage has no outputs


def _ends_of(plan: Plan, stage: Stage) -> set[str]:
    """The products that a stage writes or contributes to."""
    ends = {output.destination for output in stage.outputs if output.destination}
    return ends.union(*(plan.destinations.get(output.path, ()) for output in stage.outputs))


class ModuleIds:
    """The ids of one attempt at a call: nvcc's, and those that stages of `plan` generate in addition.

    In this order: arguments of tools; keys of results, and whether these contain an id; guessed ids.
    """

    def __init__(self, context: Context, plan: Plan, workspace: Workspace) -> None:
        self._context = context
        self._plan = plan
        self._workspace = workspace
        self._producers = {output.path: stage for stage in context.plan.stages for output in stage.outputs}
        self._memos: dict[str, str] = {}
        self._seeded = RELATIVE if context.ids_choice == SHARED else SEEDED

    def seed_of(self, stage: Stage) -> ids.Seed:
        """The seed, the same for all stages that generate the same id."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output else ""
        return seed_of(self._context, self._producers.get(original, stage), self._workspace)

    def takes_seed(self, stage: Stage) -> bool:
        producers = [self._producers.get(path) for path in stage.inputs]
        argv = next((one.argv for one in producers if one and one.is_preprocessor), ())
        return ids.takes_seed(ids.toolkit_version(argv)) and not ids.user_chose_seed(stage)

    def argv_to_run(self, stage: Stage) -> list[str]:
        """The argv for a stage that generates an id."""
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
        """Where no seed can be given, `run` again if the id contains a process id.

        Also returns whether a second run was observed to give the same bytes.
        """
        output = stage.output(ROLE)
        if output not in kept:
            return completed, self._is_output_reproducible(stage, kept, run)
        assert output is not None
        if output.path in self._plan.own_ids:
            return completed, False
        replaced = ids.replace_process_id(_read(output.path), self.seed_of(stage))
        if replaced is None:
            return completed, False
        _write(output.path, replaced)
        return run(ids.without_generating(stage.argv)), False

    def _is_output_reproducible(
        self, stage: Stage, kept: Sequence[Output], run: Callable[[Sequence[str]], Completed]
    ) -> bool:
        """Whether binary code holds no process id, found out by another run; keeps the first output.

        This is for OptiX-IR before CUDA 13, whose id is in no file.
        """
        first = [_read(output.path) for output in kept]
        if self.takes_seed(stage) or ids.user_chose_seed(stage) or not _is_binary(first):
            return False
        is_reproducible = run(stage.argv).status == 0 and [_read(output.path) for output in kept] == first
        for output, content in zip(kept, first, strict=True):
            _write(output.path, content)
        return is_reproducible

    def fronts(self, key: str, stage: Stage) -> Iterator[Front]:
        """The keys of a stage's result, with their scopes; most stages generate no id and have one."""
        nowhere = Relocation("", self._context.cwd)
        yield Front(key, nowhere, ANYWHERE)
        if ids.generates(stage):
            source = (ids.source_path(stage.argv),)
            yield Front(keys.key_of("placed stage", [("front", (key,)), ("place", source)]), nowhere, PLACED)
            seed = (self.seed_of(stage).text,)
            yield Front(
                keys.key_of("seeded stage", [("front", (key,)), ("seed", seed)]), nowhere, self._seeded
            )

    def scope_of(
        self, stage: Stage, kept: Sequence[Output], messages: bytes, *, is_reproducible: bool
    ) -> str | None:
        """How widely a new result may be shared; None if it must not be stored."""
        if not ids.generates(stage):
            return ANYWHERE
        if stage.output(ROLE) not in kept:
            return self._scope_by_products(stage, kept, is_reproducible)
        identifier = self._identifier(stage, kept)
        if not ids.is_understood(identifier):
            return None
        is_in_messages = self._is_in_messages(stage, identifier, messages)
        if stage.tool.compiles_device_code and not self._contains_id(stage) and not is_in_messages:
            return ANYWHERE
        if ids.has_process_id(identifier):
            return None
        if ids.depends_on_seed(identifier, self.seed_of(stage)):
            return self._seeded
        # If the stored form contains the id, the result is for a source at this path only.
        is_in_it = is_in_messages or ids.may_occur_in(identifier, self._contents(kept))
        return PLACED if "source path" in stage.grammar.ignored and is_in_it else ANYWHERE

    def _scope_by_products(self, stage: Stage, kept: Sequence[Output], is_reproducible: bool) -> str | None:
        """The scope where the id is in no file: in PTX it can be searched for, in binary code it cannot."""
        contents = self._contents(kept)
        if self.takes_seed(stage):
            rest = self.seed_of(stage).rest
            depends = _is_binary(contents) or any(rest in content for content in contents)
            return self._seeded if depends else ANYWHERE
        if ids.user_chose_seed(stage):
            is_kept = True
        elif _is_binary(contents):
            is_kept = is_reproducible
        else:
            is_kept = not any(map(ids.contains_process_id, contents))
        return ANYWHERE if is_kept else None

    def may_contain_id(self, stage: Stage) -> bool:
        """Whether a stage's device code may contain the id, which reveals the source's path.

        Searching the object is not enough, since device code is compressed there.
        """
        if stage.name("source path") == "" or not stage.tool.compiles_device_code:
            return False
        # Lost content may contain anything, like binary code.
        contents = self._contents(stage.kept_outputs, lost=b"\0")
        return any(b"\0" in content or ids.may_contain_id(content) for content in contents)

    def _contains_id(self, stage: Stage) -> bool:
        """Whether the stage's other outputs contain its id, or are binary code, which may hide it."""
        kept = stage.kept_outputs
        others = [self._workspace.as_read(output.path) or b"" for output in kept if output.role != ROLE]
        return ids.may_occur_in(self._identifier(stage, kept), others)

    def _is_in_messages(self, stage: Stage, identifier: bytes, messages: bytes) -> bool:
        """Whether messages contain the id, or the path that it is made from."""
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

    def is_own_id(self, output: Output) -> bool:
        """Whether this is a guessed id, which no stage reads and results that lack it may omit."""
        return output.role == ROLE and output.path in self._plan.own_ids

    def original_of(self, stage: Stage) -> str:
        """The file with the id that this stage would read under nvcc, or empty."""
        return self._files_of(stage)[1]

    def is_id_absent(self, stage: Stage) -> bool:
        """Whether no other output of a stage contains the id that it guessed."""
        output = stage.output(ROLE)
        return output is not None and self.is_own_id(output) and not self._contains_id(stage)

    def has_wrong_id(self, stage: Stage) -> bool:
        """Whether the outputs of a stage contain a guessed module id that differs from nvcc's."""
        own, original = self._files_of(stage)
        if not self._workspace.knows(own) or not self._workspace.knows(original):
            return False
        if self._workspace.digest_of(own) == self._workspace.digest_of(original):
            return False
        return not self.is_id_absent(stage)

    def must_guess_id(self, stage: Stage) -> bool:
        """Whether a stage would have to guess its id now, since nvcc's is not known yet."""
        original = self.original_of(stage)
        return original != "" and not self._workspace.knows(original)

    def known_id_of(self, stage: Stage) -> tuple[str, ...]:
        """The file with the id that this stage would read under nvcc, if the id is known."""
        original = self.original_of(stage)
        return (original,) if original and self._workspace.knows(original) else ()

    def write_known_id(self, stage: Stage) -> bool:
        """Write the known id where the stage would write its own, so that it reads it; False if unknown.

        A stage that was found and has to run again gets the id of its earlier run.
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
        """Whether a stage that still runs uses a wrong id, from its output so far; None while unknown.

        cicc writes the id once it has parsed its input, together with all device code as text. That text may
        contain an id that the result will not; only the finished output shows it.
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
        return _contains(code.path, ids.head_of(made))

    def note_wrong_guess(self, stage: Stage) -> None:
        self._context.store.add_memo(self._memo_key(stage), _WRONG_GUESS)
        self._memos.clear()

    def has_guessed_wrong(self, stage: Stage) -> bool:
        """Whether a stage of the same source has guessed wrong before."""
        key = self._memo_key(stage)
        if key not in self._memos:
            self._memos[key] = self._context.store.find_memo(key)
        return self._memos[key] == _WRONG_GUESS

    def _memo_key(self, stage: Stage) -> str:
        name = stage.name("source path") or stage.name("source name")
        source = os.path.normpath(os.path.join(self._context.cwd, name))
        return keys.key_of("ids in vain", [("source", (source,))])

    def _files_of(self, stage: Stage) -> tuple[str, str]:
        """The files with the id that a stage guesses and with nvcc's; both empty for other stages."""
        output = stage.output(ROLE)
        original = self._plan.own_ids.get(output.path, "") if output in stage.kept_outputs and output else ""
        return (output.path, original) if output and original else ("", "")


def _is_binary(contents: Sequence[bytes]) -> bool:
    """Whether one is not text, so that an id in it may be encoded differently."""
    return any(b"\0" in content for content in contents)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(content)


def _contains(path: str, text: bytes) -> bool:
    """Whether a file contains `text`; reads it in chunks."""
    before = b""
    try:
        with open(path, "rb") as stream:
            while part := stream.read(_CHUNK):
                if text in before + part:
                    return True
                before = part[-len(text) :]
    except OSError:
        pass
    return False
