"""Direct hits, the level of the cache behind replays: a call is answered by what it means, without a process.

Replays are the launcher's (replay.py); what it does not answer comes here. Part of the hot path: what a
direct hit costs is what this module and those it names cost.
"""

from __future__ import annotations

import os

from nvccache.files.presence import can_make_temporary_files, has_little_memory
from nvccache.records import replay, scripted
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.records.products import GIVEN, LOST, UNWRITABLE, CallResult, give
from nvccache.records.scripted import Behind, Script
from nvccache.store import directory
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from nvccache.commandline.invocation import Bypass, Invocation
    from nvccache.config import Config
    from nvccache.records.record import Front
    from nvccache.records.tiered_store import TieredStore

_SAMPLE = 16  # one in so many calls counts the bytes that hits add, for all of them


class Outcome:
    """What the levels came to: an answer that was given, or a bypass, or what the call asks for."""

    __slots__ = ("answer", "bypass", "invocation", "program", "terminal")

    answer: CallResult | None
    program: CallResult | None  # an answer but for the host's link, which has to follow (link_only.py)
    bypass: Bypass | None
    invocation: Invocation | None  # None also for a script of which it is to be seen what it becomes
    terminal: str  # see streams.py

    def __init__(self, terminal: str) -> None:
        self.answer, self.bypass, self.invocation, self.program = None, None, None, None
        self.terminal = terminal


def answer(nvcc: str, arguments: list[str], config: Config, environ: dict[str, str]) -> Outcome:
    """Answer a call from the records, or say what it asks for."""
    cache = Store(directory.of(config), config.readonly)
    outcome = Outcome(_terminal(environ))
    if not can_make_temporary_files(environ):
        from nvccache.commandline.invocation import Bypass

        outcome.bypass = Bypass("no_temporary_files", environ.get("TMPDIR", ""))  # nvcc says so
        return outcome
    if has_little_memory():
        from nvccache.commandline.invocation import Bypass

        outcome.bypass = Bypass("little_memory", "")
        return outcome
    if not scripted.is_script(nvcc):
        _answer(Behind(nvcc, arguments, environ), None, config, cache, outcome)
        return outcome
    script = Script(nvcc, arguments, environ, outcome.terminal)
    behind = None if config.recache else scripted.known(script, cache)
    if behind:
        _answer(behind, script, config, cache, outcome)
        outcome.program = outcome.invocation = None  # which to make takes more than a record
    return outcome


def answer_behind(behind: Behind, script: Script | None, config: Config) -> Outcome:
    """As `answer`, for the call of a compiled nvcc that a script has become, if there was one."""
    outcome = Outcome(_terminal(behind.environ))
    _answer(behind, script, config, Store(directory.of(config), config.readonly), outcome)
    return outcome


def _answer(behind: Behind, script: Script | None, config: Config, cache: Store, outcome: Outcome) -> None:
    from nvccache.commandline import invocation

    parsed = invocation.parse(behind.arguments, behind.environ)
    if isinstance(parsed, invocation.Bypass):
        outcome.bypass = parsed
        return
    if parsed.is_query and not _can_be_told(not parsed.output, has_messages=False):
        outcome.bypass = invocation.Bypass("query_streams")
        return
    outcome.invocation = parsed
    if not config.recache:
        _answer_by_meaning(behind, script, config, cache, outcome)
        _count_sometimes(cache, config)
    if parsed.is_query and not config.remote and (config.readonly or not config.observe):
        # Nothing would come of running nvcc ourselves; an answer that was found has been taken all the same.
        outcome.bypass = None if outcome.answer else outcome.bypass or invocation.Bypass(parsed.mode)


def _is_over(found: CallResult, cache: Store, outcome: Outcome) -> bool:
    """Give an answer; false, with nothing done, if a product has been evicted.

    What is known of a program is kept until it is linked.
    """
    if found.intermediates:
        outcome.program = found
        return True
    has_text = bool(found.stdout) or any(name == STANDARD_OUTPUT for name, _, _ in found.products)
    if found.is_of_query and not _can_be_told(has_text, bool(found.stderr)):
        from nvccache.commandline.invocation import Bypass

        outcome.bypass = Bypass("query_streams")
        return True
    given = give(found, cache)
    if given == GIVEN:
        outcome.answer = found
    elif given == UNWRITABLE:
        from nvccache.commandline.invocation import Bypass

        outcome.bypass = Bypass("unwritable_output", "")  # nvcc says why
    return given != LOST


def _can_be_told(has_output: bool, has_messages: bool) -> bool:
    from nvccache.machine import streams

    return streams.are_suited(has_output, has_messages)


def _answer_by_meaning(
    behind: Behind,
    script: Script | None,
    config: Config,
    cache: Store,
    outcome: Outcome,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> None:
    from nvccache.records import direct, input_records, record
    from nvccache.records.facts import Present

    call = outcome.invocation
    assert call is not None
    now = Present(behind.environ, cache, script.environ if script else None)
    found = direct.find(_fronts(behind, config, call), call, cache, now, remote_records)
    if found and _is_over(found[1], cache, outcome) and (outcome.answer or outcome.program):
        input_records.add_files(found[0].input_record, call.option_files)
        record.take_signatures(found[0].input_record, now)
        replay.add_of(script or behind, found[0].input_record, found[1], config, cache, outcome.terminal)
        if cache.is_stale:
            # What it rests on counts as used, too: it is asked for when a file has changed. The launcher
            # leaves to us what it finds that has not been used for long.
            cache.mark_used(found[0].result.basis)


def prefetch(behind: Behind, call: Invocation, config: Config, cache: TieredStore) -> None:
    """Begin to fetch what `answer_from_remotes` will look at."""
    cache.prefetch_records(front.key for front in _fronts(behind, config, call))


def answer_from_remotes(
    behind: Behind, script: Script | None, call: Invocation, config: Config, cache: TieredStore
) -> CallResult | None:
    """Answer a call from what remotes have; a program that has still to be linked is made by stages."""
    outcome = Outcome(_terminal(behind.environ))
    outcome.invocation = call
    _answer_by_meaning(behind, script, config, cache, outcome, cache.remote_records)
    return outcome.answer


def _fronts(behind: Behind, config: Config, call: Invocation) -> Iterator[Front]:
    from nvccache.records import direct
    from nvccache.records.base_dir import Relocation

    relocation = Relocation(config.base_dir, os.getcwd(), call.inputs)
    return direct.fronts_of(behind.nvcc, call, behind.environ, relocation, _terminal(behind.environ))


def _count_sometimes(cache: Store, config: Config) -> None:
    """Keep the cache within its size without paying for it on every hit: its lock costs more than a hit."""
    if cache.added and os.getpid() % _SAMPLE == 0:
        from nvccache.store import eviction

        added = {shard: size * _SAMPLE for shard, size in cache.added.items()}
        eviction.count_and_limit(cache.directory, added, config.max_size)


def _terminal(environ: Mapping[str, str]) -> str:
    """What the terminal at standard error is like, if it is one."""
    if not os.isatty(2):
        return ""
    from nvccache.machine import streams

    return streams.describe(environ)
