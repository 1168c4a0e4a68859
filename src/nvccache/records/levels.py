"""Direct hits, the level of the cache behind replays: a call is answered by what it means, without a process.

Replays are the launcher's (replay.py); what it does not answer comes here. Part of the hot path: what a
direct hit costs is what this module and those it names cost.
"""

from __future__ import annotations

import os

from nvccache.files.presence import can_make_temporary_files, has_little_memory
from nvccache.records import replay
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import GIVEN, UNWRITABLE, Answer, give
from nvccache.store import directory
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nvccache.commandline.invocation import Bypass
    from nvccache.config import Config
    from nvccache.records.record import Front
    from nvccache.records.request import Request
    from nvccache.records.tiered_store import TieredStore

_SAMPLE = 16  # one in so many calls counts the bytes that hits add, for all of them


def answer(request: Request) -> Answer | Bypass | None:
    """Answer a call from the records, or say why it is left to nvcc; None where it has to be compiled.

    Of a script that is to become a compile it says nothing: a record must not decide what is run.
    """
    if not can_make_temporary_files(request.environ):
        return _bypass("no_temporary_files", request.environ.get("TMPDIR", ""))  # nvcc says so
    if has_little_memory():
        return _bypass("little_memory")
    cache = Store(directory.of(request.config), request.config.readonly)
    if not request.is_script:
        return answer_compiled(request, cache)
    if request.config.recache:
        return None
    from nvccache.records import scripted

    behind = scripted.known(request, cache)
    return answer_compiled(behind, cache) if behind else None


def answer_compiled(request: Request, cache: Store) -> Answer | Bypass | None:
    """The same of a compiled nvcc, for which the arguments are parsed."""
    from nvccache.commandline import invocation

    config, parsed = request.config, invocation.parse(request.arguments, request.environ)
    if isinstance(parsed, invocation.Bypass):
        return parsed
    if parsed.is_query and not _can_be_written(not parsed.output, has_messages=False):
        return _bypass("query_streams")
    request.invocation = parsed
    found = None
    if not config.recache:
        found = _answer_by_meaning(request, cache)
        _count_sometimes(cache, config)
    if not found and parsed.is_query and not config.remote and (config.readonly or not config.observe):
        return _bypass(parsed.mode)  # nothing would come of running nvcc ourselves
    return found


def prefetch(request: Request, cache: TieredStore) -> None:
    """Begin to fetch what `answer_from_remotes` will look at."""
    cache.prefetch_records(front.key for front in _fronts(request))


def answer_from_remotes(request: Request, cache: TieredStore) -> Answer | None:
    """Answer a call from what remotes have; a program that has still to be linked is made by stages."""
    found = _answer_by_meaning(request, cache, cache.remote_records)
    return found if isinstance(found, Answer) else None


def _answer_by_meaning(
    request: Request, cache: Store, remote_records: Callable[[str], Iterable[bytes]] | None = None
) -> Answer | Bypass | None:
    """Give what a record says; nothing is given if a product has been evicted."""
    from nvccache.records import direct, input_records, record
    from nvccache.records.facts import Present

    now = Present(request.environ, cache, request.script.environ if request.script else None)
    found = direct.find(_fronts(request), request.invocation, cache, now, remote_records)
    if not found:
        return None
    pair, answer = found
    if answer.intermediates:
        request.program = answer
    else:
        has_text = bool(pair.result.stdout) or any(name == STANDARD_OUTPUT for name, _, _ in answer.products)
        if answer.is_of_query and not _can_be_written(has_text, bool(pair.result.stderr)):
            return _bypass("query_streams")
        given = give(answer, cache)
        if given != GIVEN:
            return _bypass("unwritable_output") if given == UNWRITABLE else None  # nvcc says why
        input_records.add_files(pair.input_record, request.invocation.option_files)
        record.take_signatures(pair.input_record, now)
        replay.add_of(request, pair.input_record, answer, cache)
    if cache.is_stale:
        # What it rests on counts as used, too: it is asked for when a file has changed. The launcher
        # leaves to us what it finds that has not been used for long.
        cache.mark_used(pair.result.basis)
    return None if answer.intermediates else answer


def _bypass(reason: str, detail: str = "") -> Bypass:
    from nvccache.commandline.invocation import Bypass

    return Bypass(reason, detail)


def _can_be_written(has_output: bool, has_messages: bool) -> bool:
    from nvccache.machine import streams

    return streams.are_suited(has_output, has_messages)


def _fronts(request: Request) -> Iterator[Front]:
    from nvccache.records import direct
    from nvccache.records.base_dir import Relocation

    relocation = Relocation(request.config.base_dir, os.getcwd(), request.invocation.inputs)
    return direct.fronts_of(request, relocation)


def _count_sometimes(cache: Store, config: Config) -> None:
    """Keep the cache within its size without paying for it on every hit: its lock costs more than a hit."""
    if cache.added and os.getpid() % _SAMPLE == 0:
        from nvccache.store import eviction

        added = {shard: size * _SAMPLE for shard, size in cache.added.items()}
        eviction.count_and_limit(cache.directory, added, config.max_size)
