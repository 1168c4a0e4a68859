"""Objects written in place: whether the file there is the one that the stage wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvccache.files import signatures
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation
from nvccache.run import object_path


@pytest.fixture
def product(tmp_path: Path) -> str:
    path = tmp_path / "a.o"
    path.write_bytes(b"made")
    return str(path)


def seen_to_make(*paths: str) -> list[Observation]:
    return [Observation([], set(), made={(os.stat(path).st_dev, os.stat(path).st_ino) for path in paths})]


def shown(path: str) -> dict[str, signatures.Signature]:
    return {path: signatures.signature_of(path) or signatures.UNKNOWN}


def test_an_output_that_the_tool_was_observed_to_write_is_its_own(product: str) -> None:
    assert object_path.was_written_by(shown(product), seen_to_make(product))
    assert object_path.was_written_by({}, [])


def test_another_programs_file_does_not_count(product: str, tmp_path: Path) -> None:
    made = seen_to_make(product)
    other = tmp_path / "other"
    other.write_bytes(b"else")
    other.replace(product)
    assert not object_path.was_written_by(shown(product), made)


def test_an_output_changed_after_it_was_read_is_not_the_tools(product: str) -> None:
    taken = shown(product)
    Path(product).write_bytes(b"more than was made")
    assert not object_path.was_written_by(taken, seen_to_make(product))


@pytest.mark.parametrize(
    ("argv", "looks"),
    [
        *[(["/bin/sh"], True), (["/opt/wrapper"], True), (["/bin/["], True), (["/bin/cp", "-u"], True)],
        *[(["/bin/cp", "-pf"], True), (["/bin/rm", "-f"], True), (["/bin/as"], False)],
    ],
)
def test_a_tool_that_looks_up_its_output_before_writing_is_detected(
    product: str, argv: list[str], looks: bool
) -> None:
    """If the name exists only afterwards, the tool found the object that was already made."""
    absent, found = Process(argv[0], argv, absent={product}), Process(argv[0], argv, found={product: 0})
    elsewhere = Process(argv[0], argv, absent={"sub/a.o"}, found={"sub/a.o": 0})

    def answer(process: Process, *existed: str) -> bool:
        return bool(object_path.early_lookup([product], existed, [Observation([process], set())]))

    assert answer(absent) is answer(found, product) is looks
    assert answer(found) is answer(elsewhere, product) is False
