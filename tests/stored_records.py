"""The records of a cache, as tests look at them and change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from nvccache.records import input_records, record
from nvccache.records.input_records import InputRecord
from nvccache.store import sections, store
from nvccache.store.store import Store

KIND = "record-1"
Parts = tuple[bytes, bytes, bytes]  # of an entry: its key, its inputs and its result


def paths_of(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"{store.RECORD}/*/*"))


def bodies_of(cache: Path) -> dict[str, bytes]:
    """The records of a cache that are whole, by their keys."""
    kept = Store(str(cache), is_readonly=True)
    found = {path.name: kept.find_record(store.RECORD, path.name) for path in paths_of(cache)}
    return {key: body for key, body in found.items() if body is not None}


def entries_in(body: bytes) -> list[Parts]:
    parts = sections.unpack(KIND, body)
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


def body_of(entries: list[Parts]) -> bytes:
    return sections.pack(KIND, [part for entry in entries for part in entry])


def is_of_call(body: bytes) -> bool:
    """Whether it answers whole calls: those have no names for what they give."""
    roles = [role for _, result, _ in record.results_in(body) for role, _ in result.outputs]
    return any(role.isdecimal() or role.startswith("link/") for role in roles)


def is_of_stage(body: bytes) -> bool:
    return not is_of_call(body) and any(result.outputs for _, result, _ in record.results_in(body))


def inputs_in(body: bytes) -> Iterator[InputRecord]:
    """What was read, of each entry of a record."""
    for _, inputs, _ in entries_in(body):
        yield input_records.decode(inputs)


def change_inputs(cache: Path, change: Callable[[list[bytes]], None]) -> None:
    """Change the sections of what was read, of every entry, and give the records the right sums."""
    kept = Store(str(cache))
    bodies = bodies_of(cache)
    assert bodies
    for key, body in bodies.items():
        made = []
        for name, inputs, result in entries_in(body):
            parts = sections.unpack("inputs-13", inputs)
            change(parts)
            made.append((name, sections.pack("inputs-13", parts), result))
        kept.add_record(store.RECORD, key, body_of(made))


def forget_calls(cache: Path) -> None:
    """Remove the records of whole calls, which are not stages."""
    for path in paths_of(cache):
        body = Store(str(cache), is_readonly=True).find_record(store.RECORD, path.name)
        if body is not None and is_of_call(body):
            path.unlink()
