"""Writes replay records, from which the launcher answers repeated calls without starting Python.

A replay record is written after a compile or a direct hit. If the same call comes again and no input has
changed, the launcher (launcher/replay.c) restores the outputs after one stat per input. If a source was
touched or written again, the launcher compares its content or code. replay_layout.py describes the format.

The launcher looks for a record before it starts Python. The name of the record is a checksum of `block_of`:
argv, some environment variables, and the working and cache directories. The launcher passes this name to
Python in `-X nvccache-replay=NAME`. If Python computes another name for a call, it writes no replay record.
Without the native launcher, there are no replay records, only direct hits.

The launcher can check less than Python. Calls have no replay record if they depend on a directory listing or
on what their process inherits, such as limits, or if the settings require more than an answer, such as a log.
Queries with long output have no replay record either, because their output would be stored twice.
"""

from __future__ import annotations

import os
import sys

from nvccache import environment, nvcc_lookup
from nvccache.config import AUTO
from nvccache.environment import OF_ARGUMENTS, WHOLE
from nvccache.files import presence, signatures, untrusted
from nvccache.files.presence import ABSENT, EXECUTABLE
from nvccache.files.signatures import UNKNOWN
from nvccache.records import facts
from nvccache.records.input_records import CODE, SOURCE
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.store import event_line, store
from nvccache.store.directory import is_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.config import Config
    from nvccache.files.signatures import Signature
    from nvccache.records.direct_hit import Request
    from nvccache.records.input_records import InputRecord
    from nvccache.records.products import Answer
    from nvccache.records.replay_layout import Strings
    from nvccache.store.store import Store

OF_CALL = ("PWD", *OF_ARGUMENTS)  # variables that identify a call, like its command line
_OF_SETTINGS = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")  # they locate the cache and the settings file
MOST_PRODUCTS = 2  # calls with more products, the depfile included, are not replayed
_MOST_OUTPUT = 1 << 18  # bytes on standard output; `nvcc -M` of a TU with 1,600 headers prints half of that
_MOST_SUMMED = 1 << 23  # bytes of sources to read once more in order to store their checksums
_OF_SYSTEM = ("/usr/include", "/usr/lib")  # directories whose headers are seldom touched
_OF_PROCESS = (facts.HOST, facts.CALLER)  # topics whose answers may change while the machine runs


def add_of_process(
    request: Request, input_record: InputRecord, answer: Answer, cache: Store, since_ns: int
) -> None:
    """Write a replay record of this process's call, if a launcher has looked for one."""
    name = sys._xoptions.get("nvccache-replay")
    if isinstance(name, str):
        add(name, sys.argv, request, input_record, answer, cache, since_ns)


def add(
    name: str,
    argv: Sequence[str],
    request: Request,
    input_record: InputRecord,
    answer: Answer,
    cache: Store,
    since_ns: int,
) -> bool:
    """Write a replay record of a call that began at `since_ns`; `argv` and `name` are the launcher's.

    Returns False, and writes nothing, if the launcher could not answer the call or could overlook a change.
    """
    config, environ = request.config, request.environ
    if not _can_be_answered(input_record, answer, config, environ):
        return False
    import struct

    from nvccache.files import keys
    from nvccache.records import replay_layout

    block = block_of(argv, environ, config.dir)
    if keys.sum_of(block) != name:
        return False
    checks = _Checks(input_record, since_ns)
    if not checks.add_search_for_nvcc(argv, request) or not checks.add_settings_file(environ):
        return False
    checks.add_base_directory(config.base_dir)
    checks.add_sums(request.nvcc)
    strings = replay_layout.Strings()
    products, stdout = _products(answer, strings, cache), _standard_output(answer, cache)
    if products is None or stdout is None:
        return False
    names, prefixes = _variables([*input_record.variable_names, *checks.variables], environ)
    numbers = (os.geteuid(), os.getegid(), *sorted(os.getgroups()))
    try:
        sections = checks.sections(strings)
    except struct.error:  # somebody has set the date of a file to a time centuries from now
        return False
    sections |= {
        "call": block,
        "variables": strings.add_all(names),
        "prefixes": strings.add_all(prefixes),
        "reader": b"".join(number.to_bytes(4, sys.byteorder) for number in numbers),
        "products": products,
    }
    event, stderr = answer.event(), answer.result.stderr
    event.directory = os.getcwd()
    line = os.fsencode(event_line.end_of_line(event))  # the part that is the same for each replay
    boot = signatures.of_boot() if input_record.machine else ""
    head: dict[str, int | bytes] = {
        "environment": keys.sum_bytes(_entries(names, environ)),
        "boot": strings.add(boot),
        "is_query": answer.is_of_query,
        "event": strings.add(line),
        "event_size": len(line),
        "output": strings.add(stdout),
        "output_size": len(stdout),
        "messages": strings.add(stderr),
        "messages_size": len(stderr),
    }
    sections["strings"] = bytes(strings.content)
    # Takes no lock: nothing depends on a replay record, and a lock would take longer than all the rest.
    cache.add_record(store.REPLAY, name, replay_layout.joined(head, sections))
    return True


def block_of(argv: Sequence[str], environ: Mapping[str, str], directory: str) -> bytes:
    """Everything that identifies a call, in the same form as in launcher/call.c."""
    variables = [f"{name}={environ[name]}" if name in environ else name for name in OF_CALL]
    texts = [argv[0], str(len(argv) - 1), *argv[1:], os.getcwd(), *variables, directory]
    return os.fsencode("\0".join([*texts, ""]))


def _can_be_answered(
    input_record: InputRecord, answer: Answer, config: Config, environ: Mapping[str, str]
) -> bool:
    """Whether the launcher can check all inputs of this call and do all that the settings require."""
    known = (*input_record.signatures, *input_record.cache_signatures)
    read = {os.path.abspath(path) for path in input_record.files} if input_record.dates else set()
    return not (
        UNKNOWN in known
        or len(input_record.cache_signatures) < len(input_record.caches)
        # PTX from the user can name sources that no tool reads. The launcher could not compare their dates.
        or any(os.path.abspath(path) not in read for path, _ in input_record.dates)
        or input_record.listings
        or any(topic in _OF_PROCESS for topic, _, _ in input_record.machine)
        or (input_record.machine and not signatures.of_boot())
        or len(answer.products) + (answer.rule is not None) > MOST_PRODUCTS
        or (config.log or config.readonly or config.recache or config.disable)
        or not is_private(config.dir)
        or nvcc_lookup.TRIED_VARIABLE in environ
    )


class _Checks:
    """What the launcher checks: paths with their expected states, and environment variables."""

    def __init__(self, input_record: InputRecord, since_ns: int) -> None:
        self._input_record = input_record
        self._since_ns = since_ns
        self._files: dict[str, Signature] = dict(
            zip(input_record.files, input_record.signatures, strict=True)
        )
        self._files.update(zip(input_record.caches, input_record.cache_signatures, strict=True))
        self._sums: dict[str, tuple[bytes, bytes]] = {}  # of sources: of the content, and of the code
        self._folders = list(
            zip(input_record.directories, input_record.directory_signatures, input_record.names, strict=True)
        )
        self._links = [(path, os.path.abspath(target)) for path, target in input_record.links]
        self.variables = [*_OF_SETTINGS]

    def _expect(self, path: str, state: str) -> None:
        directory, name = _split(path)
        self._folders.append((directory, UNKNOWN, [state + name]))

    def add_search_for_nvcc(self, argv: Sequence[str], request: Request) -> bool:
        """Add the paths that the search for nvcc has tried; False if it could now find another nvcc."""
        own = argv[1 : len(argv) - len(request.arguments)]  # the words before nvcc's arguments
        typed, configured, environ = own[-1] if own else "", request.config.nvcc, request.environ
        tried, depends_on_path = nvcc_lookup.paths_tried(request.nvcc, typed, configured, environ)
        if depends_on_path:
            self.variables.append("PATH")
        for path in dict.fromkeys([*(word for word in own if "/" in word), *tried]):
            state = presence.state_of(path)
            if state != EXECUTABLE:
                self._expect(path, state)
            elif not self._add_file(path):
                return False
            else:
                self._links.append((path, os.path.realpath(path)))
        return nvcc_lookup.find(typed, configured, environ) == request.nvcc

    def add_settings_file(self, environ: Mapping[str, str]) -> bool:
        """Add the user's settings file; False if it has changed since the call began."""
        from nvccache.config import config_file

        path = config_file(environ)
        if os.path.lexists(path):
            return self._add_file(path)
        self._expect(path, ABSENT)
        return True

    def add_base_directory(self, base_dir: str) -> None:
        """Add the paths that decide which arguments become relative (base_dir.py)."""
        if base_dir == AUTO:
            from nvccache.records.base_dir import repositories_above

            for path in repositories_above(os.getcwd()):
                self._expect(path, presence.state_of(path))
        elif base_dir and os.path.lexists(base_dir):
            self._links.append((base_dir, os.path.realpath(base_dir)))
        elif base_dir:
            self._expect(base_dir, ABSENT)

    def add_sums(self, nvcc: str) -> None:
        """Add checksums of sources, the last modified first, in case they are touched but not changed.

        Headers of the system and of the toolkit get no checksums. Sources whose dates matter get none either,
        so that the launcher starts Python if they are touched.
        """
        from nvccache.files import comments, keys

        given = self._input_record
        toolkits = [f"{os.path.dirname(os.path.dirname(path))}/" for path in (nvcc, os.path.realpath(nvcc))]
        dated = {os.path.abspath(path) for path, _ in given.dates}
        sources = [
            (signature[3], path, kind, signature)
            for path, kind, signature in zip(given.files, given.kinds, given.signatures, strict=True)
            if kind in (SOURCE, CODE) and not path.startswith((*_OF_SYSTEM, *toolkits))
        ]
        left = _MOST_SUMMED
        for _, path, kind, signature in sorted(sources, reverse=True):
            if signature[2] > left or os.path.abspath(path) in dated:
                continue
            content = _content_of(path, signature)
            if content is not None:
                code = keys.sum_bytes(comments.without_comments(content)) if kind == CODE else b""
                self._sums[path] = keys.sum_bytes(content), code
                left -= len(content)

    def _add_file(self, path: str) -> bool:
        """Add a file's signature; False if the file has changed, or could without changing its signature."""
        if path in self._files:
            return True
        found = signatures.signature_of(path)
        if found is None or not signatures.is_settled(found, self._since_ns):
            return False
        self._files[path] = found
        return True

    def sections(self, strings: Strings) -> dict[str, bytes]:
        """The sections that state what to check; raises struct.error if a number does not fit."""
        from nvccache.records.replay_layout import FORMATS

        add = strings.add
        paths = sorted((*_split(path), found, path) for path, found in self._files.items())
        directories: dict[str, int] = {}
        files = []
        for directory, name, found, path in paths:
            at = directories.setdefault(directory, len(directories))
            files.append(FORMATS["file"].pack(*found, *self._sums.get(path, (b"", b"")), add(name), at))
        folders, names = [], []
        for path, found, looked_up in self._folders:
            folders.append(FORMATS["folder"].pack(*found, add(path), len(looked_up)))
            names += [FORMATS["name"].pack(add(name[1:]), ord(name[0])) for name in looked_up]
        links = [part for pair in dict.fromkeys(self._links) for part in pair]
        return {
            "files": b"".join(files),
            "directories": strings.add_all(directories),
            "folders": b"".join(folders),
            "names": b"".join(names),
            "plain": strings.add_all(self._input_record.plain),
            "links": strings.add_all(links),
        }


def _content_of(path: str, signature: Signature) -> bytes | None:
    """The content of a file; None if its signature has changed, or if it is a link."""
    try:
        descriptor = os.open(path, untrusted.FILE)
        try:
            content = untrusted.read_all(descriptor, signature[2])
            return content if signatures.of_status(os.fstat(descriptor)) == signature else None
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _split(path: str) -> tuple[str, str]:
    """A directory and a name in it that together resolve to the same file as the path."""
    directory, slash, name = path.rpartition("/")
    return (directory or slash or "."), name or "."


def _variables(recorded: Iterable[str], environ: Mapping[str, str]) -> tuple[list[bytes], list[str]]:
    """The sorted names of the variables to compare, and prefixes that no other variable may have."""
    prefixes = [*environment.OWN, *(name[:-1] for name in recorded if name[-1:] == WHOLE)]
    names = {name for name in recorded if name[-1:] != WHOLE and not name.startswith(environment.OWN)}
    names |= {
        name for name in environ if name.startswith(tuple(prefixes)) and name not in environment.OF_OTHERS
    }
    return sorted(map(os.fsencode, names)), prefixes


def _entries(names: Iterable[bytes], environ: Mapping[str, str]) -> bytes:
    """Each variable as `NAME=VALUE`, or `NAME` if it is unset."""
    values = {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}
    texts = [b"%s=%s" % (name, values[name]) if name in values else name for name in names]
    return b"\0".join([*texts, b""])


def _products(answer: Answer, strings: Strings, cache: Store) -> bytes | None:
    """The section of files to restore, the depfile first; None if a blob is missing or compressed."""
    from nvccache.files import keys
    from nvccache.records.replay_layout import FORMATS

    pack = FORMATS["product"].pack
    packed = []
    if answer.rule is not None:
        path = strings.add(answer.dependency_file)
        packed.append(pack(b"", len(answer.rule), path, 0, strings.add(answer.rule), 0))
    for destination, digest, unlink_first in answer.products:
        if destination == STANDARD_OUTPUT:
            continue
        content = cache.read_raw_blob(digest)
        if content is None:
            return None
        path, blob = strings.add(destination), strings.add(digest)
        packed.append(pack(keys.sum_bytes(content), len(content), path, blob, 0, unlink_first))
    return b"".join(packed)


def _standard_output(answer: Answer, cache: Store) -> bytes | None:
    """The text for standard output; None if it is too long or no longer in the cache."""
    for destination, digest, _ in answer.products:
        if destination == STANDARD_OUTPUT:
            content = cache.read_blob(digest)
            return content if content is not None and len(content) <= _MOST_OUTPUT else None
    return answer.result.stdout
