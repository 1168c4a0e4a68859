"""Direct hits on what a call means: no process, though files were touched or outputs have other names.

Part of the hot path, behind replay.py. The key of a call is made of its arguments in nvcc's own terms,
without those that only say what the outputs are called; the manifest under that key says what the call
read. Four keys are tried, from the most widely shared:

    shared      paths in the checkout are relative, and the working directory does not count
    typed       as typed, in any working directory: only paths in that are relative
    placed      as typed, in this working directory
    bound       also for these very outputs, whose names are in the products (see ids.py)

Which of them a call is recorded under is decided by record_call.py.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.files.presence import tight_limits
from nvccache.records import depfile, manifest, output_names
from nvccache.records.call_result import CallResult
from nvccache.store import sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.commandline.tokens import Argument
    from nvccache.files.keys import KeyComponent
    from nvccache.records.base_dir import Relocation
    from nvccache.records.differences import Present
    from nvccache.records.manifest import Found
    from nvccache.store.store import Store

SHARED, TYPED, PLACED, BOUND = "shared", "typed", "placed", "bound"
_ANSWER = sections.Schema(
    "answer-6",
    ("products", sections.PAIRS),  # (number, digest)
    ("has_rule", sections.FLAG),
    ("entered", sections.STRINGS),
    ("are_system", sections.ASCII),  # a digit for each that is entered
    ("stdout", sections.BYTES),
    ("stderr", sections.BYTES),
    ("seconds_saved", sections.NUMBER),
    ("intermediates", sections.PAIRS),
    ("stages", sections.STRINGS),
    ("wall_seconds", sections.NUMBER),
)
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
        found.append(("module ids", ("relative",)))  # where that is possible, see shared_ids.py
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


class Asked:
    """A call that is looked for; `terminal` see streams.py."""

    __slots__ = ("environ", "invocation", "nvcc", "terminal")

    def __init__(self, nvcc: str, invocation: Invocation, environ: Mapping[str, str], terminal: str) -> None:
        self.nvcc, self.invocation, self.environ, self.terminal = nvcc, invocation, environ, terminal


def find(
    asked: Asked,
    cache: Store,
    scopes: list[tuple[str, Relocation]],
    now: Present,
    ask: Callable[[str, str], str],
    asks_beyond: bool = False,
) -> tuple[Found, CallResult] | None:
    """The input record that holds for this call, and what the call gives."""
    for tried, key, relocation in _front_keys(asked, scopes):
        found = manifest.find(tried, cache, relocation, now, ask, asks_beyond)
        answer = answer_of(found, asked.invocation, relocation) if found else None
        if found and answer and tried == keys.for_terminal(key, asked.terminal, answer.stderr):
            if found.is_received:
                manifest.adopt(tried, found, cache, relocation, now)
            return found, answer
    return None


def front_keys(asked: Asked, scopes: list[tuple[str, Relocation]]) -> list[str]:
    """The keys under which the input records of a call may be."""
    return [tried for tried, _, _ in _front_keys(asked, scopes)]


def _front_keys(asked: Asked, scopes: list[tuple[str, Relocation]]) -> Iterator[tuple[str, str, Relocation]]:
    """Under which keys a call may be, each behind the one that it would have without a terminal."""
    for scope, relocation in scopes:
        key = key_of(scope, asked.nvcc, asked.invocation, relocation, asked.environ)
        for tried in keys.possible_on_terminal(key, asked.terminal):
            yield tried, key, relocation


def scopes_of(relocation: Relocation) -> list[tuple[str, Relocation]]:
    """The keys to try in turn, each with how its paths are kept."""
    shared = [(SHARED, relocation)] if relocation.checkout else []
    return [*shared, *((scope, relocation_of(scope, relocation)) for scope in (TYPED, PLACED, BOUND))]


def relocation_of(scope: str, relocation: Relocation) -> Relocation:
    """How the paths of a record are kept."""
    if scope == TYPED:
        return relocation.of_directory()
    return relocation if scope == SHARED else relocation.in_place()


def attach(
    answer: CallResult, entered: Sequence[tuple[str, bool]], invocation: Invocation, relocation: Relocation
) -> bytes | None:
    """What a manifest keeps beside the input record: the answer, its products numbered as in output_names.py.

    `entered` is what the dependency file lists, with whether each is a system header. None if a name
    follows from nothing that is known.
    """
    names = output_names.of_call(invocation)
    made = [destination for destination, _, _ in answer.products]
    dependency_file = None if answer.rule is None else answer.dependency_file
    if not names.are_given(made, dependency_file) or bool(made) == bool(answer.intermediates):
        return None
    if any(unlink_first != names.are_objects for _, _, unlink_first in answer.products):
        return None
    possible = [*names.products, *names.others]
    values = {
        "products": [(str(possible.index(product)), digest) for product, digest, _ in answer.products],
        "has_rule": answer.rule is not None,
        "entered": [relocation.encode(name) for name, _ in entered],
        "are_system": "".join(["1" if is_system else "0" for _, is_system in entered]),
        "stdout": answer.stdout,
        "stderr": answer.stderr,
        "seconds_saved": answer.seconds_saved,
        "intermediates": answer.intermediates,
        "stages": answer.stages,
        "wall_seconds": answer.wall_seconds,
    }
    return _ANSWER.encode(values)


def answer_of(found: Found, invocation: Invocation, relocation: Relocation) -> CallResult | None:
    """The answer for this call's own output names; None if it cannot be had from what was attached."""
    try:
        values = _ANSWER.decode(found.attached)
        answer = CallResult()
        names = output_names.of_call(invocation)
        possible = [*names.products, *names.others]
        for number, digest in values["products"]:
            if not number.isdecimal():
                return None
            answer.products.append((possible[int(number)], digest, names.are_objects))
        if invocation.dependencies is not None and values["has_rule"]:
            flags = values["are_system"]
            listed_names = [relocation.decode(name) for name in values["entered"]]
            if len(listed_names) != len(flags):
                return None
            listed = [
                (os.fsencode(name), flag == "1") for name, flag in zip(listed_names, flags, strict=True)
            ]
            read = [*found.input_record.files, *invocation.inputs]
            if not output_names.are_plain([name for name, _ in listed], read):
                return None
            answer.dependency_file = names.dependency_file
            answer.rule = depfile.rule(listed, invocation)
        answer.stdout, answer.stderr = values["stdout"], values["stderr"]
        answer.seconds_saved = values["seconds_saved"]
        answer.stages, answer.wall_seconds = values["stages"], values["wall_seconds"]
        answer.sources = list(invocation.inputs)
        answer.take_intermediates(values["intermediates"])
    except (ValueError, IndexError):
        return None
    made = [destination for destination, _, _ in answer.products]
    is_whole = names.are_given(made, answer.dependency_file) and values["has_rule"] == bool(
        invocation.dependencies
    )
    if not is_whole or bool(made) == bool(answer.intermediates):
        return None
    read = found.input_record.files
    return None if output_names.are_read([*made, answer.dependency_file], read) else answer
