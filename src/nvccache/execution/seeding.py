"""Stages that make up a module id: with which words they run, and under which key their result is kept.

Most of what cicc makes does not hold the id, and is kept without what the id is made of. Where the id is
in a result, a redirect leads from there to a key with the source's path, and for units whose id is made of
the seed to a key with the seed.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.module_id import ids
from nvccache.module_id.own_ids import ROLE
from nvccache.store import entries
from nvccache.store.entries import Entry
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvccache.execution.workspace import Workspace
    from nvccache.machine.process import Completed
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.store.store import Store

_INCLUDE_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # as -I and -isystem, to the preprocessor
PLACED, SEEDED = "placed", "seeded"


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The entry under a stage's key or behind its redirects, with the key it was found under.

    It `is_bound` if the key depends on what the products are called.
    """

    key: str
    entry: Entry | None
    is_bound: bool = False


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

    def __init__(self, seeds: Seeds, store: Store, workspace: Workspace) -> None:
        self.seeds = seeds
        self._store = store
        self._workspace = workspace

    def find(self, front_key: str, stage: Stage, asks_beyond: bool = False) -> KeptResult:
        key = front_key
        entry = entries.find(self._store, key, asks_beyond)
        is_bound = False
        for name, deeper in ((PLACED, self._placed_key), (SEEDED, self._seeded_key)):
            if entry and entry.redirect == name:
                key = deeper(key, stage)
                entry = entries.find(self._store, key, asks_beyond)
                is_bound |= name == SEEDED
        return KeptResult(key, None if entry and entry.redirect else entry, is_bound)

    def _placed_key(self, key: str, stage: Stage) -> str:
        """The key that knows where the source is."""
        return keys.key_of("placed stage", [("front", (key,)), ("place", (ids.source_path(stage.argv),))])

    def _seeded_key(self, key: str, stage: Stage) -> str:
        return keys.key_of("seeded stage", [("front", (key,)), ("seed", (self.seeds.seed_of(stage).text,))])

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

    def key_to_publish(
        self, stage: Stage, front_key: str, kept: Sequence[Output], messages: bytes, *, is_repeatable: bool
    ) -> KeptResult:
        """The key for a result just made, or empty if it must not be stored."""
        if stage.output(ROLE) not in kept:
            return self._key_by_products(stage, front_key, kept, is_repeatable)
        identifier = self._identifier(stage, kept)
        if not ids.is_understood(identifier):
            return KeptResult("", None)
        is_told = self._is_told(stage, identifier, messages)
        if stage.tool.compiles_device_code and not self.names_id(stage, kept) and not is_told:
            return KeptResult(front_key, None)
        if ids.is_made_of_process(identifier):
            return KeptResult("", None)
        key = front_key
        if "source path" in stage.grammar.ignored and (is_told or self._names_place(identifier, kept)):
            entries.add(self._store, key, Entry(redirect=PLACED))
            key = self._placed_key(key, stage)
        if ids.depends_on_seed(identifier, self.seeds.seed_of(stage)):
            return self._redirect_to_seed(key, stage)
        return KeptResult(key, None)

    def _identifier(self, stage: Stage, kept: Sequence[Output]) -> bytes:
        output = stage.output(ROLE)
        return (self._workspace.as_read(output.path) or b"") if output and output in kept else b""

    def _key_by_products(
        self, stage: Stage, front_key: str, kept: Sequence[Output], is_repeatable: bool
    ) -> KeptResult:
        """The key where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = [self._workspace.content_of(output.path) or b"" for output in kept]
        if self.seeds.takes_seed(stage):
            rest = self.seeds.seed_of(stage).rest
            depends = _is_code(contents) or any(rest in content for content in contents)
            return self._redirect_to_seed(front_key, stage) if depends else KeptResult(front_key, None)
        if ids.user_chose_seed(stage):
            is_kept = True
        elif _is_code(contents):
            is_kept = is_repeatable
        else:
            is_kept = not any(ids.names_process(content) for content in contents)
        return KeptResult(front_key if is_kept else "", None)

    def _redirect_to_seed(self, key: str, stage: Stage) -> KeptResult:
        entries.add(self._store, key, Entry(redirect=SEEDED))
        return KeptResult(self._seeded_key(key, stage), None, is_bound=True)


def _is_code(contents: Sequence[bytes]) -> bool:
    """Whether this is no text, in which an id may have another form."""
    return any(b"\0" in content for content in contents)


def _read(output: Output) -> bytes:
    with open(output.path, "rb") as stream:
        return stream.read()
