"""Whether all that a command read is still as it was, and what is not. Part of the hot path.

A signature is only a hint: where it still holds, nothing is read again.
"""

from __future__ import annotations

import os

from nvccache.files.presence import ABSENT, reader, state_of
from nvccache.records.facts import FACTS, OF_ENVIRONMENT, Difference
from nvccache.records.input_records import PROGRAM, SOURCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nvccache.records.facts import Fact, Present
    from nvccache.records.input_records import InputRecord


def differences(
    input_record: InputRecord, now: Present, is_one_enough: bool, ask: Callable[[str, str], str]
) -> list[Difference]:
    """What is not as it was; at most one difference if that is enough. `ask`: see machine_facts.py."""
    found: list[Difference] = []
    for difference in _each(input_record, now, ask):
        found.append(difference)
        if is_one_enough:
            break
    return found


def _each(input_record: InputRecord, now: Present, ask: Callable[[str, str], str]) -> Iterator[Difference]:
    def of(facts: Iterable[Fact]) -> Iterator[Difference]:
        for fact in facts:
            rows = getattr(input_record, fact.name)
            if rows:
                yield from fact.check(rows, input_record, now, ask)

    yield from of(OF_ENVIRONMENT)
    yield from _of_directories(input_record, now)
    yield from _of_files(input_record, now)
    yield from _of_reader(input_record, now)
    yield from of(FACTS[len(OF_ENVIRONMENT) :])


def _of_files(input_record: InputRecord, now: Present) -> list[Difference]:
    found = []
    signed = now.signatures(input_record.files)
    if signed != input_record.signatures:
        links = {path for path, _ in input_record.links}
        for path, kind, recorded, signature, digest in zip(
            input_record.files,
            input_record.kinds,
            input_record.signatures,
            signed,
            input_record.digests,
            strict=True,
        ):
            if signature is None:
                found.append(Difference("gone", path))
            elif signature == recorded:
                now.learn(path, digest)
            elif now.digest(path) != digest or (kind == PROGRAM and not os.access(path, os.X_OK)):
                found.append(Difference("changed", path))
            elif kind == SOURCE and path not in links and os.path.islink(path):
                found.append(Difference("moved", path))  # gcc names system headers by what links lead to
    return found


def _of_directories(input_record: InputRecord, now: Present) -> list[Difference]:
    found = []
    signed = now.signatures(input_record.directories)
    if signed != input_record.directory_signatures:
        for directory, recorded, signature, names in zip(
            input_record.directories,
            input_record.directory_signatures,
            signed,
            input_record.names,
            strict=True,
        ):
            if signature is None or signature != recorded:
                found += _of_names(directory, names)
    return found


def _of_names(directory: str, names: list[str]) -> list[Difference]:
    found = []
    for name in names:
        path = name[1:] if directory == "." else os.path.join(directory, name[1:])
        state = state_of(path)
        if state != name[0]:
            what = "appeared" if name[0] == ABSENT else "gone" if state == ABSENT else "changed"
            found.append(Difference(what, path.removeprefix("./")))
    return found


def _of_reader(input_record: InputRecord, now: Present) -> list[Difference]:
    """What somebody else may not read: signatures say nothing of that."""
    if input_record.reader == reader():
        return []
    wanted = [
        *(
            (path, os.X_OK if kind == PROGRAM else os.R_OK)
            for path, kind in zip(input_record.files, input_record.kinds, strict=True)
        ),
        *((path, os.X_OK) for path in input_record.directories),
        *((path, os.R_OK) for path, _ in input_record.listings),
    ]
    return [
        Difference("unreadable", path)
        for path, mode in wanted
        if not os.access(path, mode, effective_ids=True)
    ]
