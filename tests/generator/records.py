"""What must hold between two command lines that one record would answer.

The key of a record leaves out what its outputs are called. So two lines with one key must have the same
commands but for that, and the names that follow from the record must be those of the line it answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from generator import dry_runs
from generator.claims import WRITING, Case, Site, products_of
from nvccache import config
from nvccache.plan.model import OPAQUE
from nvccache.records import call_key
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Entry, LookupKey, Result

_Commands = list[tuple[str, ...]]
_UNRECORDED = ("host_link", OPAQUE)


def _names_product(previous: str, word: str, products: set[str]) -> bool:
    """Whether a word is one of the products; one called like an option is, behind an option for it."""
    is_value = previous in WRITING or word.startswith("--create=")
    return word.removeprefix("--create=") in products and (is_value or not word.startswith("-"))


class Records:
    """All lines that could be recorded, by their keys."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._cases: dict[str, tuple[Case, _Commands]] = {}
        self.shared = 0  # how many lines had the key of an earlier one

    def violations(self, case: Case) -> list[str]:
        """What does not hold between this line and the first one with its key."""
        if not case.plan or case.plain.status or len(case.plan.dependency_files) > 1:
            return []
        if any(stage.kind in _UNRECORDED for stage in case.plan.stages):
            return []
        assert case.call
        environ = {**self._site.environ, **case.line.environ}
        request = Request(self._site.nvcc, list(case.line.arguments), environ, config.load({}))
        request.invocation = case.call
        commands = self._commands(case)
        found: list[str] = []
        for scope in (call_key.SAME_DIRECTORY, call_key.SAME_OUTPUTS):
            key = call_key.make_lookup_key(request, scope).key
            other, known = self._cases.setdefault(key, (case, commands))
            if other is not case and other.line.arguments != case.line.arguments:
                self.shared += 1
                found += [
                    f"{scope}, beside {other.line}: {problem}" for problem in self._between(other, case)
                ]
                if known != commands:
                    difference = sorted({*map(repr, known)} ^ {*map(repr, commands)})
                    found.append(f"{scope}, the key of other commands: {other.line}\n{difference}")
        return found

    def _commands(self, case: Case) -> _Commands:
        """nvcc's commands, without the names of products."""
        names = dry_runs.TemporaryNames.of_nvcc(self._site.temporary)
        products = {path for argv in case.commands for path in products_of(argv, self._site)}
        found = []
        for argv in case.commands:
            shown = [
                "<product>" if _names_product(*pair, products) else pair[1] for pair in pairwise(("", *argv))
            ]
            found.append(names.numbered(shown))
        return found

    @staticmethod
    def _between(one: Case, other: Case) -> Iterator[str]:
        """What is wrong with the names that a record of one line gives the outputs of the other."""
        assert one.plan and one.call and other.plan and other.call
        given = Answer(Result())
        given.products = [(path, "0" * 64, False) for path in one.plan.products]
        for step in one.plan.dependency_files:
            given.dependency_file, given.rule = step.path, b""
        source = other.call.inputs[0]
        listed = [(source, False)] if given.rule is not None else []
        result = call_key.result_of(given, listed, one.call)
        if result is None:
            return
        answer = call_key.answer_of(Entry(LookupKey(""), InputRecord(), result), other.call)
        if answer is None:
            return
        products = tuple(path for path, _, _ in answer.products)
        if products != other.plan.products:
            yield f"the products would be {products} and not {other.plan.products}"
        paths = tuple(step.path for step in other.plan.dependency_files)
        if paths and answer.dependency_file not in paths:
            yield f"the dependency file would be {answer.dependency_file} and not {paths}"
