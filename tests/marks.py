"""The marks of the tests: what runs by default, what only when everything is asked for, and the quick set.

A test or a case is marked by what it adds. `full` is what shows in another variant what a test that runs by
default shows; a table or a grid of cases names with `by_default` those that run by default. `smoke` is one
case of each kind of behaviour. conftest.py refuses marks that name no case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

DESCRIPTIONS = (
    "full: runs only with --every-case, or where it is named",
    "by_default(*cases, smoke={}): of the cases of this test, by their ids, all others are `full`; "
    "`smoke` says for cases which kind of behaviour each stands for",
    "smoke(kind): stands for one kind of behaviour in the quick set",
    "light_by_default: this module has next to no CUDA headers, as all have, but all of them in a full run",
)
# Kinds of behaviour; each has one case in the quick set.
KINDS = frozenset(
    {
        "compile",
        "replay",
        "direct hit",
        "stage hit",
        "link",
        "device link",
        "bypass",
        "failure",
        "corrupt cache",
        "changed input",
        "explain",
        "stats",
    }
)


def mark_case(item: pytest.Item) -> None:
    """Give a case of a table the marks that its test names for it."""
    chosen = item.get_closest_marker("by_default")
    if chosen is None:
        return
    case = case_of(item)
    if case not in chosen.args:
        item.add_marker(pytest.mark.full)
    kind = chosen.kwargs.get("smoke", {}).get(case)
    if kind:
        item.add_marker(pytest.mark.smoke(kind))


def faults(items: Sequence[pytest.Item]) -> list[str]:
    """Marks that are wrong: of cases that do not exist, of all cases there are, or two for one kind."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found = []
    for test, own in tests.items():
        if mark := own[0].get_closest_marker("by_default"):
            cases, chosen = {case_of(item) for item in own}, {*mark.args, *mark.kwargs.get("smoke", {})}
            found += [f"{test} has no case `{name}`" for name in sorted(chosen - cases)]
            found += [f"{test} leaves no case to a full run"] if cases == set(mark.args) else []
    quick = Counter(mark.args[0] for item in items for mark in item.iter_markers("smoke"))
    found += [f"`{kind}` is no kind of behaviour" for kind in quick.keys() - KINDS]
    return found + [f"{count} tests stand for `{kind}`" for kind, count in quick.items() if count > 1]


def case_of(item: pytest.Item) -> str:
    """Its id among the cases of its test; empty for a test that has none."""
    callspec = getattr(item, "callspec", None)
    return callspec.id if callspec else ""


def is_full(item: pytest.Item) -> bool:
    return item.get_closest_marker("full") is not None


def asks_for_more(config: pytest.Config) -> bool:
    """Whether the command line names tests, marks or everything, so that no test is deselected."""
    names_tests = any("::" in word for word in config.args) or config.option.keyword
    return bool(config.getoption("--every-case") or names_tests or config.option.markexpr)
