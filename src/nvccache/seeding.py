"""Stages that make up a module id: with which words they run, and under which key their result is kept.

Such a stage has a second key, behind a redirect, for units whose id depends on more than their text.
"""

from __future__ import annotations

import os

from nvccache import entries, keys, module_id, process
from nvccache.entries import Entry
from nvccache.process import Completed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.plan import Output, Plan, Stage
    from nvccache.store import Store
    from nvccache.workspace import Workspace


class Seeding:
    """The module ids of one call."""

    def __init__(self, plan: Plan, cwd: str, store: Store, workspace: Workspace) -> None:
        self.is_bound = False  # whether a result depends on what the products are called
        self._plan = plan
        self._cwd = cwd
        self._store = store
        self._workspace = workspace
        self._preprocessors = {
            output.path: stage
            for stage in plan.stages
            if stage.kind.endswith("_preprocess")
            for output in stage.outputs
        }

    def seed_of(self, stage: Stage) -> module_id.Seed:
        ends = {output.destination for output in stage.outputs if output.destination}
        for output in stage.outputs:
            ends.update(self._plan.destinations.get(output.path, ()))
        products = [os.path.join(self._cwd, path) for path in sorted(ends)]
        source = os.path.join(self._cwd, stage.name("source path"))
        preprocessor = self._preprocessor_of(stage)
        definitions = module_id.definitions_in(preprocessor.words) if preprocessor else []
        return module_id.seed_of(source, [os.path.normpath(path) for path in products], definitions)

    def words_of(self, stage: Stage) -> list[str]:
        """The words to run a stage with that generates an id."""
        if self._takes_seed(stage):
            return module_id.with_seed(stage.words, self.seed_of(stage))
        return list(stage.words)

    def seeded_key(self, front_key: str, stage: Stage) -> str:
        """The key behind a redirect."""
        self.is_bound = True
        builder = keys.KeyBuilder("seeded stage")
        builder.add("front", front_key)
        builder.add("seed", self.seed_of(stage).text)
        return builder.key()

    def settle(
        self, stage: Stage, completed: Completed, kept: Sequence[Output], environ: Mapping[str, str]
    ) -> Completed:
        """On toolkits that take no seed: run again if the id would never be the same twice."""
        output = stage.output("module_id")
        if output not in kept:
            return completed
        assert output is not None
        with open(output.path, "rb") as stream:
            replaced = module_id.replace_process(stream.read(), self.seed_of(stage))
        if replaced is None:
            return completed
        with open(output.path, "wb") as stream:
            stream.write(replaced)
        again = process.run(module_id.without_generating(stage.words), environ)
        return Completed(again.status, again.stdout, again.stderr, again.seconds)

    def key_to_publish(self, stage: Stage, front_key: str, kept: Sequence[Output]) -> str:
        """The key for a result just made, or empty if it must not be stored."""
        output = stage.output("module_id")
        if output not in kept:
            return self._key_by_products(stage, front_key, kept)
        identifier = self._workspace.content_of(output.path) if output else None
        if identifier is None or not module_id.is_understood(identifier):
            return ""
        if not module_id.depends_on_seed(identifier, self.seed_of(stage)):
            return front_key
        return self._redirect(stage, front_key)

    def _key_by_products(self, stage: Stage, front_key: str, kept: Sequence[Output]) -> str:
        """The key where no file tells the id: PTX shows whether it holds one made up, code does not."""
        contents = [self._workspace.content_of(output.path) or b"" for output in kept]
        is_text = not any(b"\0" in content for content in contents)
        if self._takes_seed(stage):
            rest = self.seed_of(stage).rest
            depends = not is_text or any(rest in content for content in contents)
            return self._redirect(stage, front_key) if depends else front_key
        if module_id.user_chose_seed(stage):
            return front_key
        is_settled = is_text and not any(module_id.names_process(content) for content in contents)
        return front_key if is_settled else ""

    def _redirect(self, stage: Stage, front_key: str) -> str:
        entries.add(self._store, front_key, Entry(is_redirect=True))
        return self.seeded_key(front_key, stage)

    def _takes_seed(self, stage: Stage) -> bool:
        preprocessor = self._preprocessor_of(stage)
        version = module_id.toolkit_version(preprocessor.words) if preprocessor else 0
        return module_id.takes_seed(version) and not module_id.user_chose_seed(stage)

    def _preprocessor_of(self, stage: Stage) -> Stage | None:
        return next((self._preprocessors[path] for path in stage.inputs if path in self._preprocessors), None)
