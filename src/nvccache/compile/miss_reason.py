"""Why a call was not answered from a record: what differs from the last compile of the same object.

For each object there is one record (see sections.py for the form): the call that made it last, where
its input record is, and the cause found at that time. Written by calls that no record answered; direct hits
leave it alone, and the journal tells of them. Values of macros and of variables may be secrets: a record
holds digests of them, under a key of its own, which is enough to tell that they differ.

    cause          a clause that follows "because"
    details        further differences, one a line
    outcome        a word of outcomes.py
    nvcc, cwd      of the call
    digest key     makes the digests of this record incomparable with all others
    arguments      (each option with as much of its value as may be shown, digest of all of it)
    environment    (variable, digest of its value)
    front key, input record key, scope
    reason against a record: why there is no direct record of it, a clause
"""

from __future__ import annotations

import os
from collections import Counter

from nvccache import environment
from nvccache.commandline import redaction, tokens
from nvccache.files import keys
from nvccache.records import differences, direct, machine_facts, manifest
from nvccache.records.base_dir import Relocation
from nvccache.records.differences import Difference, Present
from nvccache.records.input_records import LIBRARY, PROGRAM, InputRecord
from nvccache.store import sections, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.compile.record_call import Recorded
    from nvccache.compile.report import Report
    from nvccache.compile.request import Request
    from nvccache.store.store import Store

_KIND = "object-3"
_SECTIONS = 12
FIRST = "it is the first compile of it that is recorded"
_LOST = "its result is no longer in the cache"
_MOST_DETAILS = 50


class Case:
    """A call as far as an explanation needs it."""

    def __init__(self, request: Request, products: Iterable[str], is_recaching: bool) -> None:
        self.request = request
        self.nvcc = request.nvcc
        self.arguments = _options(request.arguments)
        # All others are in the input record.
        self.environment = {
            name: request.environ[name] for name in environment.OF_ARGUMENTS if name in request.environ
        }
        self.cwd = os.getcwd()
        if "PWD" in request.environ:  # the name that compilers give the working directory
            self.environment["PWD"] = request.environ["PWD"]
        self.objects = [os.path.join(self.cwd, product) for product in products]
        self.is_recaching = is_recaching


def _options(argv: Iterable[str]) -> list[tuple[str, str]]:
    """The words of a command line, each option together with its value: as it may be shown, and all of it."""
    scanned = tokens.scan(list(argv))
    if isinstance(scanned, tokens.UnknownOption):  # which does not come here: nvcc is left to refuse it
        return [(redaction.HIDDEN, word) for word in argv]
    return [(redaction.shown(argument), " ".join(argument.tokens)) for argument in scanned]


def _digest(digest_key: str, text: str) -> str:
    """What tells that a text is another one and does not lead back to it, as keys.py's digests could."""
    try:
        from _blake2 import blake2b  # without OpenSSL, which hashlib loads and a miss would wait for
    except ImportError:
        from hashlib import blake2b

    content, key = text.encode(errors="surrogateescape"), os.fsencode(digest_key)
    return blake2b(content, digest_size=16, key=key[:64]).hexdigest()


def _digests(digest_key: str, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(shown, _digest(digest_key, text)) for shown, text in pairs]


class Told:
    """What the record of an object says."""

    __slots__ = (
        "arguments",
        "cause",
        "cwd",
        "details",
        "digest_key",
        "environment",
        "front_key",
        "key",
        "nvcc",
        "outcome",
        "reason_against_record",
        "scope",
    )

    cause: str
    details: list[str]
    outcome: str
    nvcc: str
    cwd: str
    digest_key: str
    arguments: list[tuple[str, str]]
    environment: dict[str, str]
    front_key: str
    key: str
    scope: str
    reason_against_record: str


def key_of(product: str) -> str:
    builder = keys.KeyBuilder("object")
    builder.add("path", os.path.normpath(product))
    return builder.key()


def find_cause(case: Case, cache: Store, relocation: Relocation) -> list[str]:
    """Why there is no direct hit, the cause first; every line a clause."""
    if case.is_recaching:
        return ["NVCCACHE_RECACHE is set"]
    told = find(case.objects[0], cache) if case.objects else None
    if told is None:
        nearest = _nearest(case, cache, relocation)
        return _unlike(nearest, case, cache, _LOST) if nearest else [FIRST]
    found = _of_call(case, told)
    if told.reason_against_record:
        return [*found, f"no direct record is kept: {told.reason_against_record}"]
    recorded = _recorded(told, cache, relocation)
    if recorded is None:
        return [*found, _LOST]
    return [*found, *_unlike(recorded, case, cache)] or [_LOST]


def _unlike(recorded: InputRecord, case: Case, cache: Store, otherwise: str = "") -> list[str]:
    """What is not as it was recorded, a clause each."""

    def ask(topic: str, subject: str) -> str:
        return machine_facts.answer(topic, subject, case.request.environ, cache)

    unlike = differences.differences(recorded, Present(case.request.environ), False, ask)
    return [_clause(difference, recorded, case.request.environ) for difference in unlike] or (
        [otherwise] if otherwise else []
    )


def _nearest(case: Case, cache: Store, relocation: Relocation) -> InputRecord | None:
    """The newest input record of the same call for another object, or in another checkout."""
    request = case.request
    for scope, kept in direct.scopes_of(relocation, Relocation("", case.cwd)):
        key = direct.key_of(scope, request.nvcc, request.invocation, kept, request.environ)
        for found in manifest.kept_input_records(key, cache, kept):
            return found.input_record
    return None


def _recorded(told: Told, cache: Store, relocation: Relocation) -> InputRecord | None:
    kept = relocation if told.scope == direct.SHARED else Relocation("", told.cwd)
    for found in manifest.kept_input_records(told.front_key, cache, kept):
        if found.key == told.key:
            return found.input_record
    return None


def _of_call(case: Case, told: Told) -> list[str]:
    arguments = _digests(told.digest_key, case.arguments)
    found = _of_arguments(arguments, told.arguments)
    if not found and arguments != told.arguments:
        found.append("the command line has another order")
    given = dict(_digests(told.digest_key, case.environment.items()))
    if case.cwd == told.cwd:
        found += _of_environment(given, told.environment)
    else:  # PWD goes with it
        now, before = ({k: v for k, v in of.items() if k != "PWD"} for of in (given, told.environment))
        found += _of_environment(now, before)
        found.append(f"the working directory changed from `{told.cwd}`")
    if case.nvcc != told.nvcc:
        found.append(f"nvcc is now `{case.nvcc}`, it was `{told.nvcc}`")
    return found


def _of_arguments(now: list[tuple[str, str]], before: list[tuple[str, str]]) -> list[str]:
    added = Counter([shown for shown, _ in (Counter(now) - Counter(before)).elements()])
    removed = Counter([shown for shown, _ in (Counter(before) - Counter(now)).elements()])
    changed = added & removed  # they look the same, and are not
    found = [f"`{word}` was added to the command line" for word in (added - changed).elements()]
    found += [f"`{word}` was removed from the command line" for word in (removed - changed).elements()]
    names = [word.removesuffix(redaction.HIDDEN).removesuffix("=") for word in changed.elements()]
    return found + [f"`{name}` has another value" for name in names]


def _of_environment(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    found = []
    for name in sorted({*now, *before}):
        if name not in before:
            found.append(f"the environment variable `{name}` was set")
        elif name not in now:
            found.append(f"the environment variable `{name}` was unset")
        elif now[name] != before[name]:
            found.append(f"the environment variable `{name}` changed")
    return found


def _clause(difference: Difference, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if difference.what == "variable":
        return _of_variable(difference.path, recorded, environ)
    path = f"`{_shown(difference, recorded)}`"
    if difference.what == "processor":
        return "the processor is another one"
    if difference.what == machine_facts.HOST:
        return "the machine is another one"
    if difference.what == machine_facts.DIRECTORY:
        return "the working directory is another one"
    if difference.what == machine_facts.CALLER:
        return "a script or program may see that the user, limits, processors or standard input are others"
    if difference.what == "libraries":
        return f"{path} names other libraries"
    if difference.what in ("changed", "gone"):
        became = "changed" if difference.what == "changed" else "is gone"
        return f"{_role_of(difference.path, recorded)}{path} {became}"
    if difference.what == "appeared":
        return f"{path} has appeared"
    if difference.what == "relisted":
        return f"{path} holds other names"
    if difference.what == "unreadable":
        return f"{path} may not be read"
    if difference.what == "redated":
        return f"the date of {path} changed"
    return f"{path} leads to another file"


def _of_variable(name: str, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if name.endswith(environment.WHOLE):
        return "the environment changed, all of which counts where a script or another program compiles"
    if name not in environ:
        return f"the environment variable `{name}` was unset"
    was_set = any(is_name == name and environment.is_set(digest) for is_name, digest in recorded.variables)
    return f"the environment variable `{name}` {'changed' if was_set or name == 'PATH' else 'was set'}"


def _role_of(path: str, recorded: InputRecord) -> str:
    """What a file is apart from its name, with a blank behind it; or empty."""
    kind = recorded.kinds[recorded.files.index(path)] if path in recorded.files else ""
    if kind == PROGRAM:
        return "the program "
    if kind == LIBRARY:
        is_libm = os.path.basename(path).startswith("libm.")
        return "the mathematics library " if is_libm else "the library "
    return ""


def _shown(difference: Difference, recorded: InputRecord) -> str:
    """The path to show: of a directory that has appeared, the header in it that is found first now."""
    path = difference.path
    if difference.what == "appeared" and os.path.isdir(path):
        for file in recorded.files:
            parts = file.split("/")
            for start in range(len(parts)):
                candidate = os.path.join(path, *parts[start:])
                if parts[start] and os.path.isfile(candidate) and candidate != file:
                    return candidate.removeprefix("./")
    return path.removeprefix("./").removesuffix("/.")


def note(case: Case, cause: list[str], recorded: Recorded, report: Report, cache: Store) -> None:
    """Write down what became of a call, under each object it makes."""
    if report.leave_to_nvcc:
        return
    digest_key = os.urandom(16).hex()
    variables_given = _digests(digest_key, case.environment.items())
    parts = [
        cause[0].encode(errors="surrogateescape"),
        sections.join(cause[1 : _MOST_DETAILS + 1]),
        report.outcome.encode(),
        os.fsencode(case.nvcc),
        os.fsencode(case.cwd),
        digest_key.encode(),
        sections.join([part for pair in _digests(digest_key, case.arguments) for part in pair]),
        sections.join([part for pair in variables_given for part in pair]),
        recorded.front_key.encode(),
        recorded.key.encode(),
        recorded.scope.encode(),
        recorded.reason_against_record.encode(errors="surrogateescape"),
    ]
    for product in case.objects:
        cache.add_record(store.OBJECT, key_of(product), sections.pack(_KIND, parts), lock=False)


def find(product: str, cache: Store) -> Told | None:
    """What is known of the last compile of an object; None if nothing is."""
    return read(key_of(product), cache)


def read(key: str, cache: Store) -> Told | None:
    """As `find`, by the key of the product."""
    record = cache.find_record(store.OBJECT, key)
    if record is None:
        return None
    try:
        parts = sections.unpack(_KIND, record, _SECTIONS)
        told = Told()
        told.cause, told.outcome, told.nvcc, told.cwd = (os.fsdecode(parts[at]) for at in (0, 2, 3, 4))
        told.details, told.digest_key = sections.split(parts[1]), os.fsdecode(parts[5])
        told.arguments, told.environment = _pairs(parts[6]), dict(_pairs(parts[7]))
        told.front_key, told.key, told.scope, told.reason_against_record = (
            os.fsdecode(part) for part in parts[8:]
        )
    except (ValueError, IndexError):
        cache.remove_damaged(store.OBJECT, key)
        return None
    return told


def _pairs(section: bytes) -> list[tuple[str, str]]:
    """Raises ValueError."""
    return [(name, value) for name, value in sections.split_tuples(section, 2)]
