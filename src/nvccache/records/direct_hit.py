"""Answers a parsed call from a record, without starting a process: a direct hit, the cache's second level.

The first level is a replay, which the launcher tries before it starts Python (replay.py). This module is part
of the hot path: a direct hit takes as long as importing and running it and what it imports.
"""

from __future__ import annotations

import os
import sys

from nvccache import nvcc_lookup
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass
from nvccache.records import replay
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import RESTORED, UNWRITABLE, Answer, restore
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nvccache.commandline.invocation import Invocation
    from nvccache.config import Config
    from nvccache.records.facts import CurrentState
    from nvccache.records.tiered_store import TieredStore

_SAMPLE = 16  # about one hit in 16 adds the bytes of its replay record, times 16, to the count of bytes


def answer(request: Request) -> Answer | Bypass | None:
    """Parse a call and answer it from a record, or bypass it; None if no record answers it."""
    if sys.stdin is None:
        return Bypass("standard_input", "closed")  # nvcc fails without a standard input
    config, parsed = request.config, invocation.parse(request.arguments, request.environ)
    if config.base_dir and isinstance(parsed, invocation.Invocation) and not parsed.is_query:
        from nvccache.records import base_dir

        arguments, typed = base_dir.relative_arguments(request.arguments, config.base_dir, os.getcwd())
        request.checkout = base_dir.checkout_of(config.base_dir, os.getcwd())
        parsed = invocation.parse(arguments, request.environ)
        if isinstance(parsed, invocation.Invocation):
            parsed.typed_paths = typed
    if isinstance(parsed, Bypass):
        return parsed
    if parsed.is_query and not _can_be_written(not parsed.output, has_messages=False):
        return Bypass("query_streams")
    request.invocation = parsed
    cache = Store(config.dir, config.readonly)
    found = None
    if not config.recache:
        found = _answer_parsed(request, cache)
        _account_for_added(cache, config)
    if not found and parsed.is_query and not config.remote and config.readonly:
        return Bypass(parsed.mode)  # nothing may be recorded, so nvcc answers the query
    return found


def prefetch(request: Request, cache: TieredStore) -> None:
    """Start to fetch the remote records that `answer_from_remotes` will look up."""
    from nvccache.records import call_key

    cache.prefetch_records(each.key for each in call_key.make_lookup_keys(request))


def answer_from_remotes(request: Request, cache: TieredStore) -> Answer | None:
    """Answer a call from the records of remotes; None if none of them is valid."""
    answer = _answer_parsed(request, cache, cache.remote_records)
    return answer if isinstance(answer, Answer) else None


def _answer_parsed(
    request: Request, cache: Store, remote_records: Callable[[str], Iterable[bytes]] | None = None
) -> Answer | Bypass | None:
    """Restore the products of a valid record; None if there is no such record, or a product was evicted."""
    from nvccache.records import call_key, record
    from nvccache.records.facts import CurrentState

    now = request.now = CurrentState(request.environ, request.now)
    found = call_key.find(request, cache, now, remote_records)
    if not found:
        return None
    entry, answer = found
    has_text = bool(entry.result.stdout) or any(name == STANDARD_OUTPUT for name, _, _ in answer.products)
    if answer.is_of_query and not _can_be_written(has_text, bool(entry.result.stderr)):
        return Bypass("query_streams")
    status = restore(answer, cache)
    if status != RESTORED:
        return Bypass("unwritable_output") if status == UNWRITABLE else None  # nvcc will report the error
    record.take_signatures(entry.input_record, now)
    replay.add_of_process(request, entry.input_record, answer, cache, now.since_ns)
    if cache.is_stale:
        # After an edit, the next call needs the results of stages from which this record was made. So mark
        # these results, too. If a replay record is stale, the launcher starts Python so that they are marked.
        cache.mark_used(entry.result.basis)
    return answer


def _can_be_written(has_output: bool, has_messages: bool) -> bool:
    from nvccache.machine import streams

    return streams.can_be_written(has_output, has_messages)


def _account_for_added(cache: Store, config: Config) -> None:
    """Keep the cache within its size limit. Only some hits check it, as locking takes longer than a hit."""
    # A random byte is used, since all calls may have the same pid if each runs in a new container.
    if cache.added and os.urandom(1)[0] % _SAMPLE == 0:
        from nvccache.store import eviction

        added = {shard: size * _SAMPLE for shard, size in cache.added.items()}
        eviction.count_and_limit(cache.directory, added, config.max_size)


class Request:
    """A call, and what is known about it so far."""

    def __init__(self, nvcc: str, arguments: list[str], environ: dict[str, str], config: Config) -> None:
        self.nvcc = nvcc
        self.arguments = arguments
        self.environ = environ  # the caller's environment
        self.config = config
        self.checkout = ""  # the checkout in which nvcc gets relative paths; empty without a base directory
        self.now: CurrentState | None = None  # the state of files with which records were compared

    if TYPE_CHECKING:
        invocation: Invocation  # not set before the call is parsed

    @property
    def guarded_environ(self) -> dict[str, str]:
        """The environment for the processes that this call starts."""
        return nvcc_lookup.guarded(self.environ, self.nvcc)
