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
    variables       the digest of their values, who could read all this, and the names of those asked for
    machine         which one it was since which start, then (topic, subject, answer) of machine_facts.py
    products        (destination, digest, "1" to unlink an existing file first)
    dependency file its path, and its content
    stdout, stderr, seconds saved
    intermediates   (base name, digest) of what a host's link still has to link (link_only.py)
    stages          (kind, seconds) of what came before it

What stands in the record of another version, or of somebody hostile, ends in a miss.
"""

from __future__ import annotations

import os

from nvccache import environment
from nvccache.environment import OF_ARGUMENTS
from nvccache.files import keys, signatures
from nvccache.files.presence import ABSENT, digest_of_listing, reader, state_of
from nvccache.records import output_names
from nvccache.records.call_result import CallResult
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvccache.records.input_records import InputRecord
    from nvccache.store.store import Store

_KIND = "replay-5"
_SECTIONS = 17
_OF_PROCESS = ("host", "caller")  # topics of machine_facts.py whose answer may be another in each process


def key_of(
    nvcc: str, arguments: Sequence[str], cwd: str, environ: Mapping[str, str], base_dir: str = ""
) -> str:
    """The name of a call as it was typed: all that decides, apart from files."""
    builder = keys.KeyBuilder("replay")
    builder.add("nvcc", nvcc)
    builder.add("arguments", *arguments)
    builder.add("directory", cwd, environ.get("PWD", ""), base_dir)
    builder.add("environment", *[f"{name}={environ[name]}" for name in OF_ARGUMENTS if name in environ])
    return builder.key()


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
        parts = sections.unpack(_KIND, record, _SECTIONS)
        if not _holds(parts, environ, ask):
            return None
        answer = _answer(parts[9:])
    except (ValueError, IndexError):
        cache.remove_damaged(store.REPLAY, key)
        return None
    if not names_its_files(answer, arguments, os.fsdecode(parts[0]).split("\0")):
        return None
    if answer.rule is not None and not output_names.is_plain_rule(answer.rule):
        return None
    return answer


def _holds(parts: list[bytes], environ: Mapping[str, str], ask: Callable[[str, str], str]) -> bool:
    paths, numbers, absent, present, links, plain, listings, variables, machine = parts[:9]
    digest, recorded_for, *names = sections.split(variables)
    if environment.digest_of_all(names, environ) != digest or recorded_for != reader():
        return False
    now = signatures.all_of(sections.split_bytes(paths))
    if now is None or signatures.to_bytes(now) != numbers:
        return False
    for path in sections.split_bytes(absent):
        if os.access(path, os.F_OK):
            return False
    for expected in sections.split(present):
        if state_of(expected[1:]) != expected[0]:
            return False
    for path in sections.split_bytes(plain):
        if os.path.islink(path):
            return False
    for directory, digest in sections.split_tuples(listings, 2):
        if digest_of_listing(directory) != digest:
            return False
    for link, led_to in sections.split_tuples(links, 2):
        if os.path.realpath(link) != led_to:
            return False
    return not machine or _is_same_machine(machine, ask)


def _is_same_machine(recorded: bytes, ask: Callable[[str, str], str]) -> bool:
    """Without a look at the processor as long as the machine has not been started anew."""
    boot, _, answers = recorded.partition(b"\0")
    is_as_started = boot and boot.decode("ascii") == signatures.of_boot()
    return all(
        (is_as_started and topic not in _OF_PROCESS) or (answer and ask(topic, subject) == answer)
        for topic, subject, answer in sections.split_tuples(answers, 3)
    )


def _answer(parts: list[bytes]) -> CallResult:
    products, dependency_file, rule, stdout, stderr, seconds, intermediates, stages = parts
    answer = CallResult()
    for destination, digest, unlink_first in sections.split_tuples(products, 3):
        answer.products.append((destination, digest, unlink_first == "1"))
    answer.dependency_file = os.fsdecode(dependency_file)
    answer.rule = rule if dependency_file else None
    answer.stdout, answer.stderr = stdout, stderr
    answer.seconds_saved = float(seconds)
    answer.take_parts_of_link(intermediates, stages)
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
    parts = [
        *_parts_of_files(input_record),
        sections.join([part for pair in input_record.links for part in pair]),
        sections.join(input_record.plain),
        sections.join([part for pair in input_record.listings for part in pair]),
        sections.join(
            [environment.digest_of_all(input_record.asked, environ), reader(), *input_record.asked]
        ),
        _part_of_machine(input_record),
        sections.join(_parts_of_products(answer)),
        os.fsencode(answer.dependency_file),
        answer.rule or b"",
        answer.stdout,
        answer.stderr,
        f"{answer.seconds_saved:.6f}".encode(),
        *answer.parts_of_link(),
    ]
    # No lock: nothing depends on a replay record, and a lock costs more than all the rest.
    cache.add_record(store.REPLAY, key, sections.pack(_KIND, parts), lock=False)
    return True


def _parts_of_files(input_record: InputRecord) -> list[bytes]:
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
    return [sections.join(paths), signatures.to_bytes(numbers), sections.join(absent), sections.join(present)]


def _part_of_machine(input_record: InputRecord) -> bytes:
    if not input_record.machine:
        return b""
    answers = [part for question in input_record.machine for part in question]
    return sections.join([signatures.of_boot(), *answers])


def _dates_only_what_it_reads(input_record: InputRecord) -> bool:
    """Whether all files whose date counts are among those whose signatures are compared.

    PTX that the user compiles names sources that nobody reads.
    """
    if not input_record.dates:
        return True
    read = {os.path.abspath(path) for path in input_record.files}
    return all(os.path.abspath(path) in read for path, _ in input_record.dates)


def _parts_of_products(answer: CallResult) -> list[str]:
    return [
        part
        for destination, digest, unlink_first in answer.products
        for part in (destination, digest, "1" if unlink_first else "0")
    ]


def names_its_files(answer: CallResult, arguments: Sequence[str], read: Sequence[str]) -> bool:
    """Whether an answer writes all files that the command line names as outputs, and no others.

    Otherwise a record that somebody tampered with could write anywhere. Calls whose outputs are named in
    other ways are answered by what they mean (direct.py), which costs a parse. `read` are the files that
    the record says were read.
    """
    made = [destination for destination, _, _ in answer.products]
    dependency_file = "" if answer.rule is None else answer.dependency_file
    names = output_names.of_argv(arguments, is_linked=bool(answer.intermediates))
    return names.are_given(made, dependency_file) and not output_names.are_read(
        [*made, dependency_file], read
    )


def blobs_in(record: bytes) -> list[str]:
    """The digests of what a record gives or has linked; raises ValueError."""
    answer = _answer(sections.unpack(_KIND, record, _SECTIONS)[9:])
    return [digest for _, digest, _ in answer.products] + [digest for _, digest in answer.intermediates]
