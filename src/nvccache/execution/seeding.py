"""Stages that make up a module id: with which words they run, and under which key their result is kept.

Most of what cicc makes does not hold the id, and is kept without what the id is made of. Where the id is
in a result, a redirect leads from there to a key with the source's path, and for units whose id is made of
the seed to a key with the seed.
"""

from __future__ import annotations

import os

from nvccache.execution import unlike_ids
from nvccache.files import keys
from nvccache.module_id import ids
from nvccache.module_id.own_ids import ROLE
from nvccache.store import entries
from nvccache.store.entries import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvccache.execution.workspace import Workspace
    from nvccache.machine.process import Completed
    from nvccache.plan.model import Output, Plan, Stage
    from nvccache.store.store import Store

_INCLUDE_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # as -I and -isystem, to the preprocessor
PLACED, SEEDED = "placed", "seeded"


class Seeding:
    """The module ids of one call. `plan` is nvcc's own; `own_ids` are the files that nvcc does not write."""

    def __init__(
        self,
        plan: Plan,
        own_ids: Mapping[str, str],
        cwd: str,
        environ: Mapping[str, str],
        store: Store,
        workspace: Workspace,
    ) -> None:
        self.is_bound = False  # whether a result depends on what the products are called
        self.is_unlike = False  # whether a stage was found to have no use for an id of its own
        self._is_repeatable = False  # see _compare_with_another_run
        self._plan = plan
        self._own_ids = own_ids
        self._cwd = cwd
        self._environ = environ
        self._store = store
        self._workspace = workspace
        self._producers = {output.path: stage for stage in plan.stages for output in stage.outputs}

    def seed_of(self, stage: Stage) -> ids.Seed:
        """The same for all stages that make up one id."""
        stage = self._reference(stage)
        ends = {output.destination for output in stage.outputs if output.destination}
        for output in stage.outputs:
            ends.update(self._plan.destinations.get(output.path, ()))
        products = [os.path.join(self._cwd, path) for path in sorted(ends)]
        source = os.path.join(self._cwd, stage.name("source path"))
        preprocessor = self._preprocessor_of(stage)
        definitions = ids.definitions_in(preprocessor.argv) if preprocessor else []
        definitions += [f"{name}={self._environ[name]}" for name in _INCLUDE_PATHS if name in self._environ]
        return ids.seed_of(source, [os.path.normpath(path) for path in products], definitions)

    def words_of(self, stage: Stage) -> list[str]:
        """The words to run a stage with that generates an id."""
        if self._takes_seed(stage):
            return ids.with_seed(stage.argv, self.seed_of(stage))
        return list(stage.argv)

    def find(self, front_key: str, stage: Stage) -> tuple[str, Entry | None]:
        """The entry under a stage's key or behind its redirects, with the key it was found under."""
        key = front_key
        entry = entries.find(self._store, key)
        for name, deeper in ((PLACED, self._placed_key), (SEEDED, self._seeded_key)):
            if entry and entry.redirect == name:
                key = deeper(key, stage)
                entry = entries.find(self._store, key)
        self.is_unlike |= entry is not None and entry.redirect == unlike_ids.REDIRECT
        return key, None if entry and entry.redirect else entry

    def _placed_key(self, key: str, stage: Stage) -> str:
        """The key that knows where the source is."""
        return keys.key_of("placed stage", [("front", (key,)), ("place", (ids.source_path(stage.argv),))])

    def _seeded_key(self, key: str, stage: Stage) -> str:
        self.is_bound = True
        return keys.key_of("seeded stage", [("front", (key,)), ("seed", (self.seed_of(stage).text,))])

    def settle(
        self,
        stage: Stage,
        completed: Completed,
        kept: Sequence[Output],
        run: Callable[[Sequence[str]], Completed],
    ) -> Completed:
        """On toolkits that take no seed: `run` again if the id would never be the same twice."""
        output = stage.output(ROLE)
        if output not in kept:
            self._compare_with_another_run(stage, kept, run)
            return completed
        if output and output.path in self._own_ids:
            return completed
        assert output is not None
        with open(output.path, "rb") as stream:
            replaced = ids.replace_process(stream.read(), self.seed_of(stage))
        if replaced is None:
            return completed
        with open(output.path, "wb") as stream:
            stream.write(replaced)
        return run(ids.without_generating(stage.argv))

    def _compare_with_another_run(
        self, stage: Stage, kept: Sequence[Output], run: Callable[[Sequence[str]], Completed]
    ) -> None:
        """Find out whether code that is no text, with an id that no file tells, holds a process id.

        That is OptiX-IR before CUDA 13. Another process makes other code then; the first stays.
        """
        first = [_read(output) for output in kept]
        if self._takes_seed(stage) or ids.user_chose_seed(stage) or not _is_code(first):
            return
        self._is_repeatable = run(stage.argv).status == 0 and [_read(output) for output in kept] == first
        for output, content in zip(kept, first, strict=True):
            with open(output.path, "wb") as stream:
                stream.write(content)

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

    def may_be_named(self, stage: Stage, kept: Sequence[Output]) -> bool:
        """Whether device code that a stage made may hold the id, which tells where the source is.

        An object may hide that, since it is compressed in there.
        """
        if stage.name("source path") == "" or stage.kind != "cicc":
            return False
        contents = [self._workspace.content_of(output.path) for output in kept if output.role != ROLE]
        return any(content is None or b"\0" in content or ids.may_be_any_in(content) for content in contents)

    def is_beyond(self, stage: Stage, identifier: bytes) -> bool:
        """Whether a stage cannot make up this id itself, since its toolkit takes no seed."""
        is_seeded = ids.depends_on_seed(identifier, self.seed_of(stage))
        return is_seeded and not self._takes_seed(stage)

    def key_to_publish(
        self, stage: Stage, front_key: str, kept: Sequence[Output], messages: bytes = b""
    ) -> str:
        """The key for a result just made, or empty if it must not be stored."""
        if stage.output(ROLE) not in kept:
            return self._key_by_products(stage, front_key, kept)
        identifier = self._identifier(stage, kept)
        if not ids.is_understood(identifier):
            return ""
        is_told = self._is_told(stage, identifier, messages)
        if stage.kind == "cicc" and not self.names_id(stage, kept) and not is_told:
            return front_key
        if ids.is_made_of_process(identifier):
            return ""
        key = front_key
        if "source path" in stage.grammar.ignored and (is_told or self._names_place(identifier, kept)):
            entries.add(self._store, key, Entry(redirect=PLACED))
            key = self._placed_key(key, stage)
        if ids.depends_on_seed(identifier, self.seed_of(stage)):
            key = self._redirect_to_seed(key, stage)
        return key

    def _identifier(self, stage: Stage, kept: Sequence[Output]) -> bytes:
        output = stage.output(ROLE)
        return (self._workspace.as_read(output.path) or b"") if output and output in kept else b""

    def _key_by_products(self, stage: Stage, front_key: str, kept: Sequence[Output]) -> str:
        """The key where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = [self._workspace.content_of(output.path) or b"" for output in kept]
        if self._takes_seed(stage):
            rest = self.seed_of(stage).rest
            depends = _is_code(contents) or any(rest in content for content in contents)
            return self._redirect_to_seed(front_key, stage) if depends else front_key
        if ids.user_chose_seed(stage):
            return front_key
        if _is_code(contents):
            return front_key if self._is_repeatable else ""
        return "" if any(ids.names_process(content) for content in contents) else front_key

    def _redirect_to_seed(self, key: str, stage: Stage) -> str:
        entries.add(self._store, key, Entry(redirect=SEEDED))
        return self._seeded_key(key, stage)

    def _takes_seed(self, stage: Stage) -> bool:
        preprocessor = self._preprocessor_of(stage)
        version = ids.toolkit_version(preprocessor.argv) if preprocessor else 0
        return ids.takes_seed(version) and not ids.user_chose_seed(stage)

    def _reference(self, stage: Stage) -> Stage:
        """The stage whose id nvcc would have this one read; itself if it makes it up for others."""
        output = stage.output(ROLE)
        original = self._own_ids.get(output.path, "") if output else ""
        return self._producers.get(original, stage)

    def _preprocessor_of(self, stage: Stage) -> Stage | None:
        producers = [self._producers.get(path) for path in stage.inputs]
        return next((stage for stage in producers if stage and stage.is_preprocessor), None)


def _is_code(contents: Sequence[bytes]) -> bool:
    """Whether this is no text, in which an id may have another form."""
    return any(b"\0" in content for content in contents)


def _read(output: Output) -> bytes:
    with open(output.path, "rb") as stream:
        return stream.read()
