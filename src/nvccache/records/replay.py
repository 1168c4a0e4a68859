"""Writes replay records, from which the launcher answers repeated calls without starting Python.

A replay record is written when a call was compiled or was a direct hit. If the same call comes again and no
input was touched, the launcher (launcher/replay.c) restores the outputs after one stat per input.
replay_layout.py draws the record.

The launcher looks for a record before it starts Python, and passes its name in `-X nvccache-replay=NAME`: the
digest of argv, environment and cache directory, as far as that is known without Python. A call that would get
another name here is not recorded. Without a native launcher there are no replay records, only direct hits.

The launcher can check less than Python: a call that depends on a directory listing, or whose settings require
more than an answer, has no replay record. Nor has a query with long output, which would be stored twice.
"""

from __future__ import annotations

import os
import sys
import time

from nvccache import environment, outcomes, real_nvcc
from nvccache.environment import OF_ARGUMENTS, WHOLE
from nvccache.files import signatures, untrusted
from nvccache.files.presence import ABSENT, EXECUTABLE, state_of, tight_limits
from nvccache.records import output_names
from nvccache.records.facts import FACTS
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.store import event_line, store
from nvccache.store.directory import is_private
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.config import Config
    from nvccache.files.signatures import Signature
    from nvccache.records.input_records import InputRecord
    from nvccache.records.products import Answer
    from nvccache.records.replay_layout import Strings
    from nvccache.records.request import Request
    from nvccache.store.store import Store

OF_CALL = ("PWD", *OF_ARGUMENTS)  # variables that are part of a call as typed
_OF_SETTINGS = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")  # they locate the cache and the settings file
_DATE_LIMIT = 1 << 63  # nanoseconds
MOST_PRODUCTS = 2  # of a call that is replayed, the depfile included
_MOST_OUTPUT = 1 << 18  # bytes; the dependencies of a TU with 1,600 headers take half of that
_OF_PROCESS = ("host", "caller")  # topics of facts.py that may change while the machine runs


class Call:
    """A call as the launcher received it."""

    __slots__ = ("arguments", "launcher_arguments", "name", "nvcc", "program")

    def __init__(
        self, name: str, program: str, launcher_arguments: Sequence[str], nvcc: str, arguments: Sequence[str]
    ) -> None:
        self.name = name  # of its record
        self.program = program  # argv[0] of the launcher
        self.launcher_arguments = launcher_arguments  # the rest of its argv, which ends with `arguments`
        self.nvcc = nvcc
        self.arguments = arguments  # of nvcc

    @property
    def first(self) -> int:
        """The index of nvcc's first argument in the launcher's arguments."""
        return len(self.launcher_arguments) - len(self.arguments)

    @property
    def typed(self) -> str:
        """The compiler as typed; empty for a masquerade."""
        return self.launcher_arguments[self.first - 1] if self.first else ""

    def block(self, environ: Mapping[str, str], directory: str) -> bytes:
        """All that identifies the call; its digest is the name of the record."""
        variables = [f"{name}={environ[name]}" if name in environ else name for name in OF_CALL]
        argv = [self.program, str(len(self.launcher_arguments)), *self.launcher_arguments]
        texts = [*argv, os.getcwd(), *variables, directory]
        return os.fsencode("\0".join([*texts, ""]))


def call_of_process(nvcc: str, arguments: Sequence[str]) -> Call | None:
    """The call that the launcher received; None if there is no launcher that reads records."""
    name = sys._xoptions.get("nvccache-replay")
    return Call(name, sys.argv[0], sys.argv[1:], nvcc, arguments) if isinstance(name, str) else None


def add_of(request: Request, input_record: InputRecord, answer: Answer, cache: Store) -> None:
    """Record the call of this process; if nvcc is a script, with the inputs of its rehearsal."""
    typed = request.script or request
    if request.script:
        from nvccache.records import input_records

        if not typed.input_record:
            return
        input_record = input_records.joined(input_record, typed.input_record)
    call = call_of_process(typed.nvcc, typed.arguments)
    add(call, input_record, answer, request.config, typed.environ, cache)


def add(
    call: Call | None,
    input_record: InputRecord,
    answer: Answer,
    config: Config,
    environ: Mapping[str, str],
    cache: Store,
) -> bool:
    """Record a call; False if the launcher could not answer it or could miss a change of one of its files."""
    if not call or not _can_be_answered(input_record, answer, config, environ):
        return False
    from nvccache.files import keys
    from nvccache.records import replay_layout

    if keys.digest_bytes(call.block(environ, config.dir)) != call.name:
        return False
    checks = _Checks(input_record)
    if not checks.add_search_for_nvcc(call, config, environ) or not checks.add_settings_file(config, environ):
        return False
    if checks.has_dates_out_of_range():
        return False
    strings = replay_layout.Strings()
    products, stdout = _products(answer, strings, cache), _standard_output(answer, cache)
    if products is None or stdout is None:
        return False
    variables, prefixes = _variables([*input_record.variable_names, *checks.variables], environ)
    numbers = (os.geteuid(), os.getegid(), *sorted(os.getgroups()))
    sections = {
        **checks.sections(strings),
        "variables": strings.add_all(variables),
        "prefixes": strings.add_all(prefixes),
        "reader": b"".join(number.to_bytes(4, sys.byteorder) for number in numbers),
        "products": products,
    }
    head = _head(call, input_record, answer, config, strings)
    head |= {"output": strings.add(stdout), "output_size": len(stdout)}
    head |= {"call": bytes.fromhex(call.name), "environment": _digest_of_values(variables, environ)}
    sections["strings"] = bytes(strings.content)
    # No lock: nothing depends on a replay record, and taking one costs more than all the rest.
    cache.add_record(store.REPLAY, call.name, replay_layout.joined(head, sections), lock=False)
    return True


def _can_be_answered(
    input_record: InputRecord,
    answer: Answer,
    config: Config,
    environ: Mapping[str, str],
) -> bool:
    """Whether the launcher can check and do all that this call needs."""
    made = [destination for destination, _, _ in answer.products]
    needs_python = config.log or config.readonly or config.recache or config.disable
    return not (
        signatures.UNKNOWN in (*input_record.signatures, *input_record.cache_signatures)
        or len(input_record.cache_signatures) < len(input_record.caches)
        or not _dates_only_what_it_reads(input_record)
        or any(getattr(input_record, fact.name) for fact in FACTS if not fact.is_replayed)
        or not all(_is_digest(answer) for topic, _, answer in input_record.machine if topic in _OF_PROCESS)
        or (input_record.machine and not signatures.of_boot())
        or answer.intermediates  # a link is still to run
        or len(answer.products) + (answer.rule is not None) > MOST_PRODUCTS
        or output_names.are_read([answer.dependency_file, *made], input_record.files)
        or needs_python
        or not (is_private(config.dir) and os.path.exists(config.dir))  # and is counted
        or real_nvcc.TRIED_VARIABLE in environ
        or tight_limits()
    )


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def _dates_only_what_it_reads(input_record: InputRecord) -> bool:
    """Whether each file whose date counts is also read, so that its signature is compared.

    PTX compiled by the user may name sources that are not read.
    """
    if not input_record.dates:
        return True
    read = {os.path.abspath(path) for path in input_record.files}
    return all(os.path.abspath(path) in read for path, _ in input_record.dates)


class _Checks:
    """The paths that the launcher checks, with the expected state of each, and further variables."""

    __slots__ = ("_absent", "_files", "_input_record", "_links", "_present", "variables")

    def __init__(self, input_record: InputRecord) -> None:
        self._input_record = input_record
        self._files: dict[str, Signature] = dict(
            zip(input_record.files, input_record.signatures, strict=True)
        )
        self._files.update(zip(input_record.caches, input_record.cache_signatures, strict=True))
        self._absent: list[str] = []
        self._present: list[tuple[str, str]] = []  # path, state
        self._links = [(path, target) for path, target in input_record.links]
        self.variables = [*_OF_SETTINGS]
        self._add_directories()

    def _add_directories(self) -> None:
        """A directory without a usable signature is checked name by name."""
        made = self._input_record
        for directory, signature, names in zip(
            made.directories, made.directory_signatures, made.names, strict=True
        ):
            if signature != signatures.UNKNOWN:
                self._files[directory] = signature
                continue
            for name in names:
                self._expect(os.path.join(directory, name[1:]), name[0])

    def _expect(self, path: str, state: str) -> None:
        if state == ABSENT:
            self._absent.append(path)
        else:
            self._present.append((path, state))

    def add_search_for_nvcc(self, call: Call, config: Config, environ: Mapping[str, str]) -> bool:
        """Add the paths tried in the search for nvcc; False if the search would now find another one."""
        named = [argument for argument in call.launcher_arguments[: call.first] if "/" in argument]
        tried, depends_on_path = real_nvcc.paths_tried(call.nvcc, call.typed, config.nvcc, environ)
        if depends_on_path:
            self.variables.append("PATH")
        for path in dict.fromkeys([*named, *tried]):
            state = state_of(path)
            if state != EXECUTABLE:
                self._expect(path, state)
            elif not self._add_file(path):
                return False
            else:
                self._links.append((path, os.path.realpath(path)))
        return real_nvcc.find(call.typed, config.nvcc, environ) == call.nvcc

    def add_settings_file(self, config: Config, environ: Mapping[str, str]) -> bool:
        """Add the user's settings file; False if the settings have changed since they were loaded."""
        from nvccache import config as configs

        path = configs.config_file(environ)
        if not os.path.lexists(path):
            self._absent.append(path)
            return configs.FILE not in config.origins.values()
        if not self._add_file(path):
            return False
        now = configs.load(environ)
        return all(getattr(now, name) == getattr(config, name) for name in configs.SETTINGS)

    def _add_file(self, path: str) -> bool:
        """Add the signature of a file; False if the file could change without changing its signature."""
        if path in self._files:
            return True
        found = signatures.of(path)
        if found is None or not signatures.is_settled(found, time.time_ns()):
            return False
        self._files[path] = found
        return True

    def has_dates_out_of_range(self) -> bool:
        """Whether a date does not fit into a record: one set on purpose, centuries from now."""
        dates = (date for signature in self._files.values() for date in signature[3:])
        return any(not -_DATE_LIMIT <= date < _DATE_LIMIT for date in dates)

    def sections(self, strings: Strings) -> dict[str, bytes]:
        from nvccache.records.replay_layout import FORMATS

        paths = [path for path, _ in self._input_record.identities]
        identities = [(path, paths.index(first)) for path, first in self._input_record.identities]
        links = [part for pair in dict.fromkeys(self._links) for part in pair]
        return {
            **self._sections_of_files(strings),
            "absent": strings.add_all(_raw(dict.fromkeys(self._absent))),
            "present": b"".join(
                FORMATS["present"].pack(strings.add(os.fsencode(path)), ord(state))
                for path, state in self._present
            ),
            "plain": strings.add_all(_raw(self._input_record.plain)),
            "links": strings.add_all(_raw(links)),
            "identities": b"".join(
                FORMATS["identity"].pack(strings.add(os.fsencode(path)), first) for path, first in identities
            ),
        }

    def _sections_of_files(self, strings: Strings) -> dict[str, bytes]:
        from nvccache.records.replay_layout import FORMATS

        paths = sorted((*_split(os.fsencode(path)), found) for path, found in self._files.items())
        directories: dict[bytes, int] = {}
        files = [
            FORMATS["file"].pack(
                *found, strings.add(name), directories.setdefault(directory, len(directories))
            )
            for directory, name, found in paths
        ]
        return {"files": b"".join(files), "directories": strings.add_all(directories)}


def _raw(texts: Iterable[str]) -> list[bytes]:
    return list(map(os.fsencode, texts))


def _split(path: bytes) -> tuple[bytes, bytes]:
    """A directory and a name in it that together resolve to the same file as the path."""
    directory, slash, name = path.rpartition(b"/")
    return (directory or slash or b"."), name or b"."


def _variables(recorded: Iterable[str], environ: Mapping[str, str]) -> tuple[list[bytes], list[bytes]]:
    """The names of the relevant variables, sorted, and prefixes of those that must not be set otherwise."""
    prefixes = [name[:-1] for name in recorded if name[-1:] == WHOLE]
    names = {name for name in recorded if name[-1:] != WHOLE and not name.startswith(environment.OWN)}
    names |= {
        name for name in environ if name.startswith(tuple(prefixes)) and not environment.is_ignored(name)
    }
    names |= {name for name in environ if name.startswith(environment.OWN)}
    return sorted(_raw(names)), _raw(prefixes)


def _digest_of_values(names: Iterable[bytes], environ: Mapping[str, str]) -> bytes:
    from nvccache.files import keys

    values = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    texts = [b"%s=%s" % (name, values[name]) if name in values else name for name in names]
    return bytes.fromhex(keys.digest_bytes(b"\0".join([*texts, b""])))


def _products(answer: Answer, strings: Strings, cache: Store) -> bytes | None:
    """The files to restore, the depfile first; None if a blob is missing or has no raw file."""
    from nvccache.files import keys
    from nvccache.records.replay_layout import FORMATS, SUM

    pack = FORMATS["product"].pack
    packed = []
    if answer.rule is not None:
        path = strings.add(os.fsencode(answer.dependency_file))
        packed.append(pack(bytes(SUM), len(answer.rule), path, 0, strings.add(answer.rule), 0))
    for destination, digest, unlink_first in answer.products:
        if destination == STANDARD_OUTPUT:
            continue
        content = cache.read_raw_blob(digest)
        if content is None:
            return None
        path, blob = (strings.add(os.fsencode(text)) for text in (destination, digest))
        packed.append(pack(keys.sum_bytes(content), len(content), path, blob, 0, unlink_first))
    return b"".join(packed)


def _standard_output(answer: Answer, cache: Store) -> bytes | None:
    """The text for standard output; None if it is long or no longer in the cache."""
    for destination, digest, _ in answer.products:
        if destination == STANDARD_OUTPUT:
            content = cache.read_blob(digest)
            return content if content is not None and len(content) <= _MOST_OUTPUT else None
    return answer.result.stdout


def _head(
    call: Call, input_record: InputRecord, answer: Answer, config: Config, strings: Strings
) -> dict[str, int | bytes]:
    event = Event(outcomes.QUERY_HIT if answer.is_of_query else outcomes.DIRECT_HIT)
    event.directory, event.sources = os.getcwd(), answer.sources
    event.product = next((os.path.abspath(name) for name, _, _ in answer.products if name), "")
    event.wrong_settings, event.tool_saved = config.wrong_settings, answer.result.seconds
    event.replayed = answer.result.stages
    line = os.fsencode(event_line.end_of_line(event))
    boot = signatures.of_boot() if input_record.machine else ""
    facts = {
        topic: bytes.fromhex(digest) for topic, _, digest in input_record.machine if topic in _OF_PROCESS
    }
    return {
        "boot": strings.add(os.fsencode(boot)),
        "journal": strings.add(os.fsencode(config.dir)),
        "event": strings.add(line),
        "event_size": len(line),
        **{topic: facts.get(topic, b"") for topic in _OF_PROCESS},
        "log_mode": _log_mode(config),
        "first": call.first,
        "is_query": answer.is_of_query,
        "messages": strings.add(answer.result.stderr),
        "messages_size": len(answer.result.stderr),
    }


def _log_mode(config: Config) -> int:
    """The permissions of a log that the launcher creates."""
    return untrusted.mode_for_writers(os.stat(config.dir).st_mode)
