"""A project is built again and again from an empty cache: in any order, with any number of jobs.

The working directory is always the same, and so must every object be, byte for byte; each is also what
plain `nvcc -keep` makes, where that makes the same thing twice.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scenarios.same_result.test_links import INTERNAL
from scenarios.support.at_once import Call, check_nothing_is_left, end, ending, start
from scenarios.support.toolkits import HOST_OPTIONS, SOURCE, architectures
from workspaces import OLD_ENOUGH, Result, Workspace

OTHER = SOURCE.replace("kernel", "other").replace("launch", "launch_other")
SOURCES = {"a.cu": SOURCE, "b.cu": OTHER, "internal.cu": INTERNAL}


@dataclasses.dataclass(frozen=True)
class Target:
    """One compile of the project; without a product of its own it leaves those that its inputs name."""

    argv: tuple[str, ...]
    product: str = ""
    is_nvccs: bool = True  # whether nvcc would make the same

    @property
    def products(self) -> list[str]:
        return [self.product] if self.product else [f"{Path(word).stem}.o" for word in self.argv
                                                    if word.endswith(".cu")]  # fmt: skip

    @property
    def arguments(self) -> list[str]:
        return [*self.argv, *(["-o", self.product] if self.product else [])]


PROJECT = [
    Target(("-c", "a.cu"), "plain.o"),
    Target(("-dc", "a.cu"), "relocatable.o"),
    Target(("-c", "-lineinfo", "a.cu"), "lines.o"),
    Target(("-c", "-g", "a.cu"), "debug.o"),
    Target(("-dc", "internal.cu"), "internal.o", is_nvccs=False),
    Target(("-c", "a.cu", *architectures(80, 90)), "two.o"),
    Target(("-c", "b.cu", *architectures(90, 80, 86)), "three.o"),
    Target(("-c", "-t", "3", "internal.cu", *architectures(80, 86, 90)), "internal-three.o", is_nvccs=False),
    Target(("-c", "a.cu", "b.cu")),
]


@pytest.fixture
def project(workspace: Workspace, toolkit: Path) -> Workspace:
    for name, text in SOURCES.items():
        workspace.write(name, text)
    time.sleep(OLD_ENOUGH)
    return workspace


def references(project: Workspace, keep: Path) -> dict[str, bytes]:
    found = {}
    for target in PROJECT:
        argv = [*target.arguments, *HOST_OPTIONS, "-keep", "-keep-dir", keep]
        assert project.plain(*argv).status == 0
        for product in target.products:
            path = project.directory / product
            if target.is_nvccs:
                found[product] = path.read_bytes()
            path.unlink()
    return found


def build(project: Workspace, chance: random.Random) -> dict[str, bytes]:
    """Build it in some way from nothing; the objects."""
    shutil.rmtree(project.cache, ignore_errors=True)
    targets = chance.sample(PROJECT, len(PROJECT))
    running: list[Call] = []
    calls = []
    at_once = chance.randint(1, 4)
    for target in targets:
        while len(running) >= at_once:
            finish(running, running[0])
        running.append(start(project, *target.arguments, NVCCACHE_JOBS=str(chance.choice([1, 2, 4, 64]))))
        calls.append(running[-1])
    while running:
        finish(running, running[0])
    check_nothing_is_left(project, calls)
    return dict(take_products(project, targets))


def finish(running: list[Call], call: Call) -> None:
    assert end(call) == Result(0, b"", b"")
    running.remove(call)


def take_products(project: Workspace, targets: Sequence[Target]) -> Iterator[tuple[str, bytes]]:
    for target in targets:
        for product in target.products:
            path = project.directory / product
            yield product, path.read_bytes()
            path.unlink()


def test_every_build_makes_the_same(
    project: Workspace, reference_directory: Path, request: pytest.FixtureRequest
) -> None:
    rounds = 100 if request.config.getoption("--every-case") else 2
    expected = references(project, reference_directory)
    first: dict[str, bytes] = {}
    for number in range(rounds):
        with ending(project):
            made = build(project, random.Random(number))
        differing = [name for name, content in expected.items() if made[name] != content]
        assert not differing, f"round {number}: not what nvcc makes"
        first = first or made
        differing = [name for name, content in first.items() if made[name] != content]
        assert not differing, f"round {number}: not what the first round made"
    counters = project.counters()
    assert counters.calls["bypass"] == counters.calls["fault"] == 0
