"""Replay: a call typed as before, where nothing it read has been touched, is answered at once.

The first thing tried, and the heart of the hot path: one record is read, one stat made for each file
that the call read, and what the call gave is put back. Nothing is parsed and no process started. A
record is (see sections.py for the form):

    paths           files read, tools included, and directories searched
    signatures      of these, in the same order
    absent, present names that must not be there, and what must be there under others (input_records.py),
                    where a directory's signature would not last
    links           (path, where it led)
    plain           directories that must not be links
    listings        (directory, digest of the names in it)
    identities      (directory that was looked at, the first of these that is the same one)
    variables       the digest of their values, who could read all this, and the names of those asked for
    machine         since which start it is the same one, then (topic, subject, answer) of machine_facts.py
    products        (destination, digest, "1" to unlink an existing file first)
    dependency_file its path; `rule` is its content
    stdout, stderr, seconds_saved
    intermediates   (base name, digest) of what a host's link still has to link (link_only.py)
    stages          (kind, seconds) of what came before it

What stands in the record of another version, or of somebody hostile, ends in a miss.
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.environment import OF_ARGUMENTS
from nvccache.files import keys, signatures
from nvccache.files.presence import ABSENT, digest_of_listing, identities, reader, state_of, tight_limits
from nvccache.records import output_names
from nvccache.records.call_result import CallResult
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_RECORD = sections.Schema(
    "replay-8",
    ("paths", sections.PATHS),
    ("signatures", sections.BYTES),
    ("absent", sections.PATHS),
    ("present", sections.STRINGS),
    ("links", sections.PAIRS),
    ("plain", sections.PATHS),
    ("listings", sections.PAIRS),
    ("identities", sections.PAIRS),
    ("variables", sections.STRINGS),
    ("machine", sections.STRINGS),
    ("products", sections.TRIPLES),
    ("dependency_file", sections.STRING),
    ("rule", sections.BYTES),
    ("stdout", sections.BYTES),
    ("stderr", sections.BYTES),
    ("seconds_saved", sections.NUMBER),
    ("intermediates", sections.PAIRS),
    ("stages", sections.STRINGS),
    ("wall_seconds", sections.NUMBER),
    ("sources", sections.STRINGS),
)
_OF_PROCESS = ("host", "caller")  # topics of machine_facts.py whose answer may be another in each process


def key_of(
    nvcc: str, arguments: Sequence[str], cwd: str, environ: Mapping[str, str], base_dir: str = ""
) -> str:
    """The name of a call as it was typed: all that decides, apart from files."""
    settings = [f"{name}={environ[name]}" for name in OF_ARGUMENTS if name in environ]
    components = (
        ("nvcc", (nvcc,)),
        ("arguments", tuple(arguments)),
        ("directory", (cwd, environ.get("PWD", ""), base_dir)),
        ("environment", (*settings, *tight_limits())),
    )
    return keys.key_of("replay", components)


def find(
    key: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    cache: Store,
    ask: Callable[[str, str], str],
) -> CallResult | None:
    """What the call would give, if it is sure to give the same again. `ask`: see machine_facts.py."""
    record = cache.find_record(store.REPLAY, key)
    if record is None:
        return None
    try:
        values = _RECORD.decode(record)
        if not _holds(values, environ, ask):
            return None
        answer = _answer(values)
    except (ValueError, IndexError):
        cache.remove_damaged(store.REPLAY, key)
        return None
    if not names_its_files(answer, arguments, os.fsdecode(b"\0".join(values["paths"])).split("\0")):
        return None
    if answer.rule is not None and not output_names.is_plain_rule(answer.rule):
        return None
    return answer


def _holds(values: Mapping[str, Any], environ: Mapping[str, str], ask: Callable[[str, str], str]) -> bool:
    digest, recorded_for, *names = values["variables"]
    if environment.digest_of_all(names, environ) != digest or recorded_for != reader():
        return False
    now = signatures.all_of(values["paths"])
    if now is None or signatures.to_bytes(now) != values["signatures"]:
        return False
    for path in values["absent"]:
        if os.access(path, os.F_OK):
            return False
    for expected in values["present"]:
        if state_of(expected[1:]) != expected[0]:
            return False
    for path in values["plain"]:
        if os.path.islink(path):
            return False
    for directory, digest in values["listings"]:
        if digest_of_listing(directory) != digest:
            return False
    for link, led_to in values["links"]:
        if os.path.realpath(link) != led_to:
            return False
    if identities(path for path, _ in values["identities"]) != values["identities"]:
        return False
    return not values["machine"] or _is_same_machine(values["machine"], ask)


def _is_same_machine(recorded: list[str], ask: Callable[[str, str], str]) -> bool:
    """Without a look at the processor as long as the machine has not been started anew."""
    boot, *answers = recorded
    is_as_started = boot and boot == signatures.of_boot()
    return all(
        (is_as_started and topic not in _OF_PROCESS) or (answer and ask(topic, subject) == answer)
        for topic, subject, answer in sections.in_tuples(answers, 3)
    )


def _answer(values: Mapping[str, Any]) -> CallResult:
    answer = CallResult()
    for destination, digest, unlink_first in values["products"]:
        answer.products.append((destination, digest, unlink_first == "1"))
    answer.dependency_file = values["dependency_file"]
    answer.rule = values["rule"] if answer.dependency_file else None
    answer.stdout, answer.stderr = values["stdout"], values["stderr"]
    answer.seconds_saved = values["seconds_saved"]
    answer.stages, answer.wall_seconds = values["stages"], values["wall_seconds"]
    answer.sources = values["sources"]
    answer.take_intermediates(values["intermediates"])
    return answer


def add(
    key: str,
    input_record: InputRecord,
    answer: CallResult,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    cache: Store,
) -> bool:
    """Record a call; False if one of its files may still change without showing it."""
    if signatures.UNKNOWN in (*input_record.signatures, *input_record.cache_signatures):
        return False
    if len(input_record.cache_signatures) < len(input_record.caches) or not names_its_files(
        answer, arguments, input_record.files
    ):
        return False
    if not _dates_only_what_it_reads(input_record):
        return False
    variables = [environment.digest_of_all(input_record.asked, environ), reader(), *input_record.asked]
    values = {
        **_values_of_files(input_record),
        "links": input_record.links,
        "plain": input_record.plain,
        "listings": input_record.listings,
        "identities": input_record.identities,
        "variables": variables,
        "machine": _value_of_machine(input_record),
        **_values_of_answer(answer),
    }
    # No lock: nothing depends on a replay record, and a lock costs more than all the rest.
    cache.add_record(store.REPLAY, key, _RECORD.encode(values), lock=False)
    return True


def _values_of_answer(answer: CallResult) -> dict[str, Any]:
    return {
        "products": [
            (destination, digest, "1" if unlink_first else "0")
            for destination, digest, unlink_first in answer.products
        ],
        "dependency_file": answer.dependency_file,
        "rule": answer.rule or b"",
        "stdout": answer.stdout,
        "stderr": answer.stderr,
        "seconds_saved": answer.seconds_saved,
        "intermediates": answer.intermediates,
        "stages": answer.stages,
        "wall_seconds": answer.wall_seconds,
        "sources": answer.sources,
    }


def _values_of_files(input_record: InputRecord) -> dict[str, Any]:
    """Paths and signatures; a directory whose signature would not last is looked at name by name."""
    paths = [*input_record.files, *input_record.caches]
    numbers = [*input_record.signatures, *input_record.cache_signatures]
    absent: list[str] = []
    present: list[str] = []
    for directory, signature, names in zip(
        input_record.directories, input_record.directory_signatures, input_record.names, strict=True
    ):
        if signature != signatures.UNKNOWN:
            paths.append(directory)
            numbers.append(signature)
            continue
        for name in names:
            path = os.path.join(directory, name[1:])
            if name[0] == ABSENT:
                absent.append(path)
            else:
                present.append(name[0] + path)
    signed = signatures.to_bytes(numbers)
    return {"paths": paths, "signatures": signed, "absent": absent, "present": present}


def _value_of_machine(input_record: InputRecord) -> list[str]:
    if not input_record.machine:
        return []
    answers = [part for question in input_record.machine for part in question]
    return [signatures.of_boot(), *answers]


def _dates_only_what_it_reads(input_record: InputRecord) -> bool:
    """Whether all files whose date counts are among those whose signatures are compared.

    PTX that the user compiles names sources that nobody reads.
    """
    if not input_record.dates:
        return True
    read = {os.path.abspath(path) for path in input_record.files}
    return all(os.path.abspath(path) in read for path, _ in input_record.dates)


def names_its_files(answer: CallResult, arguments: Sequence[str], read: Sequence[str]) -> bool:
    """Whether an answer writes all files that the command line names as outputs, and no others.

    Otherwise a record that somebody tampered with could write anywhere. Calls whose outputs are named in
    other ways are answered by what they mean (direct.py), which costs a parse. `read` are the files that
    the record says were read.
    """
    made = [destination for destination, _, _ in answer.products]
    dependency_file = "" if answer.rule is None else answer.dependency_file
    if made == [output_names.STANDARD_OUTPUT] and not dependency_file:
        return output_names.may_be_query(arguments)
    names = output_names.of_argv(arguments, is_linked=bool(answer.intermediates))
    return names.are_given(made, dependency_file) and not output_names.are_read(
        [*made, dependency_file], read
    )


def blobs_in(record: bytes) -> list[str]:
    """The digests of what a record gives or has linked; raises ValueError."""
    answer = _answer(_RECORD.decode(record))
    return [digest for _, digest, _ in answer.products] + [digest for _, digest in answer.intermediates]
