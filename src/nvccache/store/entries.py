"""Stage entries: what a stage produced, as it lies in the store."""

from __future__ import annotations

import json

from nvccache.store import sections, store
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.store import Store


@dataclass(frozen=True, slots=True)
class Entry:
    """What a stage produced: `outputs` maps role to digest, `seconds` is how long it ran.

    `cpu` are the seconds that it had of a CPU, 0 where they are not known; `wall` is what it took of the wall
    clock, had it run for as long, beside others of its call.
    `redirect` is set in an entry without outputs, and says what else the result depends on; see
    seeding.py.
    `facts` are what is known of an output that is not kept itself; see passes.py. `text` are the digests of
    the preprocessed text it was made from, whose lines its key may leave out; see find_stage.py.
    """

    outputs: dict[str, str] = field(default_factory=dict)
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    redirect: str = ""
    facts: dict[str, object] = field(default_factory=dict)
    text: tuple[str, ...] = ()
    wall: float = 0.0
    cpu: float = 0.0


def find(cache: Store, key: str, asks_beyond: bool = False) -> Entry | None:
    """The entry under a key; one that cannot be understood is removed."""
    raw = cache.find_record(store.STAGE, key)
    if raw is None and asks_beyond and cache.beyond:
        raw = cache.beyond.entry(key)
        if raw is not None:
            cache.add_record(store.STAGE, key, raw, is_received=True)
    if raw is None:
        return None
    try:
        values = json.loads(raw)
        return Entry(
            outputs={str(role): str(digest) for role, digest in values["outputs"].items()},
            stdout=values["stdout"].encode("latin-1"),
            stderr=values["stderr"].encode("latin-1"),
            seconds=sections.decode_number(values["seconds"]),
            redirect=str(values["redirect"]),
            facts=dict(values["facts"]),
            text=tuple(map(str, values["text"])),
            # Without the latter, the former was measured while others had the CPU.
            wall=sections.decode_number(values.get("wall", 0.0)) if "cpu" in values else 0.0,
            cpu=sections.decode_number(values.get("cpu", 0.0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        cache.remove_damaged(store.STAGE, key)
        return None


def add(cache: Store, key: str, entry: Entry) -> None:
    values = {
        "outputs": entry.outputs,
        "stdout": entry.stdout.decode("latin-1"),
        "stderr": entry.stderr.decode("latin-1"),
        "seconds": round(entry.seconds, 6),
        "redirect": entry.redirect,
        "facts": entry.facts,
        "text": entry.text,
        "wall": round(entry.wall, 6),
        "cpu": round(entry.cpu, 6),
    }
    cache.add_record(store.STAGE, key, json.dumps(values).encode())
