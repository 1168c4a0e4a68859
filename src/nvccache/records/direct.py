"""Direct hits on what a call means: no process, though files were touched or outputs have other names.

Part of the hot path, behind replay.py. The key of a call is made of its arguments in nvcc's own terms,
without those that only say what the outputs are called. Four keys are tried, from the most widely shared:

    shared      paths in the checkout are relative, and the working directory does not count
    typed       as typed, in any working directory: only paths in that are relative
    placed      as typed, in this working directory
    bound       also for these very outputs, whose names are in the products (see module_id.py)

Which of them a call is recorded under is decided by record_call.py. In its result a product has the number
that output_names.py gives it as its role, and what a link reads that has to follow (link_only.py) its base
name behind `link/`.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.files.presence import tight_limits
from nvccache.records import output_names, products, record
from nvccache.records.products import Answer
from nvccache.records.record import Front, Result
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.commandline.tokens import Argument
    from nvccache.files.keys import KeyComponent
    from nvccache.records.base_dir import Relocation
    from nvccache.records.facts import Present
    from nvccache.records.record import Pair
    from nvccache.records.request import Request
    from nvccache.store.store import Store

SHARED, TYPED, PLACED, BOUND = "shared", "typed", "placed", "bound"
_READ_BY_LINK = "link/"
# They say where outputs go and what they are called, or how nvcc runs, and nothing about their content.
_OF_OUTPUTS = frozenset(
    [
        "output-file",
        "output-directory",
        "dependency-output",
        "dependency-target-name",
        "generate-dependency-targets",
        "threads",
        "jobserver",
    ]
)
# Their values say where files are. Of what is given to the host compiler, words that begin like this do.
_OF_PLACES = frozenset(
    ["", "include-path", "system-include", "pre-include", "library-path", "options-file", "compiler-bindir"]
)
_OF_HOST_COMPILER = frozenset(["-", "compiler-options"])  # the first are words of no option
_WORDS_OF_PLACES = (
    *("/", "-I", "-L", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "--sysroot="),
    *("-ffile-prefix-map=", "-fmacro-prefix-map=", "-fdebug-prefix-map="),
)
_CHANGED_IN_STRINGS = '"\\?'  # by escapes and trigraphs


def key_of(
    scope: str, nvcc: str, invocation: Invocation, relocation: Relocation, environ: Mapping[str, str]
) -> str:
    """The key of a call; `relocation` is what `scopes_of` has for the scope."""
    found: list[KeyComponent] = [("nvcc", (nvcc,))]
    if relocation.base:
        found.append(("module ids", ("relative",)))  # where that is possible, see attempts.py
    for argument in invocation.arguments:
        if invocation.is_query or argument.name not in _OF_OUTPUTS:
            found.append((argument.name or "input", _parts_of(argument, relocation)))
    asked = invocation.dependencies
    given = (invocation.output, invocation.output_directory, asked.output if asked else "")
    found.append(("output names", tuple("given" if name else "" for name in given)))
    cwd, named = os.getcwd(), environ.get("PWD", "")
    if scope not in (SHARED, TYPED):
        found.append(("directory", (cwd, named)))
    else:
        # Compilers take the name of the directory from PWD, which no option may map.
        found.append(("directory by another name", ("yes" if named not in ("", cwd) else "no",)))
        argv = [token for argument in invocation.arguments for token in argument.tokens]
        mapped = [name for word in argv for name in relocation.mapped_directory(word)]
        found.append(("mapped directory", tuple(mapped)))
        found.append(("search path", tuple(relocation.in_checkout(environ.get("PATH", "").split(":")))))
    if scope == BOUND:
        found.append(("outputs", given))
    limits = tight_limits()
    if limits:
        found.append(("limits", limits))
    return keys.key_of("call " + scope, found)


def _parts_of(argument: Argument, relocation: Relocation) -> tuple[str, ...]:
    """What of an argument is part of a key: paths are encoded where they only say which files are read.

    For a compiler others may be text of any meaning: it makes `/base/1` of `-DROOT=/base/linux`.
    """
    texts = argument.tokens if argument.value is None else (argument.value,)
    if argument.name in _OF_PLACES or (argument.name == "define-macro" and _is_string(texts[0])):
        return tuple(map(relocation.encode_within, texts))
    if argument.name in _OF_HOST_COMPILER:
        return tuple([_places_encoded(text, relocation) for text in texts])
    return tuple(texts)


def _is_string(definition: str) -> bool:
    """Whether a macro stands for one string, which no other macro changes."""
    quoted = definition.partition("=")[2]
    text = quoted[1:-1]
    return (
        quoted == f'"{text}"'
        and text.isascii()
        and text.isprintable()
        and not any(character in text for character in _CHANGED_IN_STRINGS)
    )


def _places_encoded(text: str, relocation: Relocation) -> str:
    """The same for what may be a list of words, in which an escaped comma separates none."""
    if "\\" in text:
        return text
    words = text.split(",")
    return ",".join(
        [relocation.encode_within(word) if word.startswith(_WORDS_OF_PLACES) else word for word in words]
    )


def find(
    fronts: Iterable[Front],
    invocation: Invocation,
    cache: Store,
    now: Present,
    remote_records: Callable[[str], Iterable[bytes]] | None = None,
) -> tuple[Pair, Answer] | None:
    """What holds for this call, and what the call gives."""
    for front in fronts:
        pair = record.find(front, cache, now, remote_records)
        answer = answer_of(pair, invocation) if pair else None
        if pair and answer:
            if pair.is_received:
                pair.result.basis = [cache.name(store.BLOB, digest) for _, digest in pair.result.outputs]
                record.adopt(pair, cache, now)
            return pair, answer
    return None


def fronts_of(request: Request, relocation: Relocation) -> Iterator[Front]:
    """Where a call may be recorded."""
    for scope, kept in scopes_of(relocation):
        yield from record.on_terminal(front_of(request, scope, kept), request.terminal)


def front_of(request: Request, scope: str, relocation: Relocation) -> Front:
    """Where a call may be recorded with this scope; `relocation` is what `scopes_of` has for it."""
    key = key_of(scope, request.nvcc, request.invocation, relocation, request.environ)
    return Front(key, relocation, scope)


def scopes_of(relocation: Relocation) -> list[tuple[str, Relocation]]:
    """The keys to try in turn, each with how its paths are kept."""
    shared = [(SHARED, relocation)] if relocation.checkout else []
    return [*shared, *((scope, relocation_of(scope, relocation)) for scope in (TYPED, PLACED, BOUND))]


def relocation_of(scope: str, relocation: Relocation) -> Relocation:
    """How the paths of a record are kept."""
    if scope == TYPED:
        return relocation.of_directory()
    return relocation if scope == SHARED else relocation.in_place()


def result_of(answer: Answer, listed: Sequence[tuple[str, bool]], invocation: Invocation) -> Result | None:
    """What is kept of what a call gave, under no names of its own.

    `listed` is what the dependency file lists, with whether each is a system header. None if a name follows
    from nothing that is known.
    """
    names = output_names.of_call(invocation)
    made = [destination for destination, _, _ in answer.products]
    dependency_file = None if answer.rule is None else answer.dependency_file
    if not names.are_given(made, dependency_file) or bool(made) == bool(answer.intermediates):
        return None
    if any(unlink_first != names.are_objects for _, _, unlink_first in answer.products):
        return None
    if (answer.rule is None) != (not listed):
        return None
    possible = [*names.products, *names.others]
    products = [(str(possible.index(product)), digest) for product, digest, _ in answer.products]
    linked = [(_READ_BY_LINK + name, digest) for name, digest in answer.intermediates]
    result = answer.result
    result.outputs = [*products, *linked]
    result.listed = [(name, "1" if is_system else "0") for name, is_system in listed]
    return result


def answer_of(pair: Pair, invocation: Invocation) -> Answer | None:
    """The answer for this call's own output names; None if it cannot be had from what was kept."""
    result, answer = pair.result, Answer(pair.result)
    names = output_names.of_call(invocation)
    possible = [*names.products, *names.others]
    read = pair.input_record.files
    try:
        for role, digest in result.outputs:
            if role.startswith(_READ_BY_LINK):
                answer.intermediates.append((_base_name(role.removeprefix(_READ_BY_LINK)), digest))
            elif role.isdecimal():
                answer.products.append((possible[int(role)], digest, names.are_objects))
            else:
                return None
    except (ValueError, IndexError):
        return None
    if invocation.dependencies is not None and result.listed:
        listed = [(os.fsencode(name), flag == "1") for name, flag in result.listed]
        if not output_names.are_plain([name for name, _ in listed], [*read, *invocation.inputs]):
            return None
        answer.dependency_file = names.dependency_file
        answer.rule = products.rule(listed, invocation)
    answer.sources = list(invocation.inputs)
    made = [destination for destination, _, _ in answer.products]
    is_whole = names.are_given(made, answer.dependency_file) and bool(result.listed) == bool(
        invocation.dependencies
    )
    if not is_whole or bool(made) == bool(answer.intermediates):
        return None
    return None if output_names.are_read([*made, answer.dependency_file], read) else answer


def _base_name(name: str) -> str:
    """The name, which a record may have made up, of a file in a directory; raises ValueError."""
    if "/" in name or name in ("", ".", ".."):
        raise ValueError("no name of a file in a directory")
    return name
