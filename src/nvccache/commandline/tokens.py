"""How nvcc splits its command line into options, values and input files.

Owns the matching of words with `options`, the splitting of comma lists, and nvcc's quoting in environment
variables and option files. Knows nothing of what an option means. Everything here was learnt from
`nvcc --dryrun` of CUDA 11.2, 11.8, 12.4, 13.0, 13.2 and 13.5; where these disagree, the word is an
UnknownOption, and nvcc runs by itself.
"""

from __future__ import annotations

from nvccache.commandline.options import (
    ARITIES,
    GLUED_NUMBER,
    GLUED_TEXT,
    OPTIONAL,
    PATH_LISTS,
    SPELLINGS,
    SWITCH,
    UNSUPPORTED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INPUT = ""  # the name of an input file
FORWARDED = "-"  # the name of a word that nvcc would give to the host compiler or linker

_FORWARDING = frozenset(
    ["forward-unknown-opts", "forward-unknown-to-host-compiler", "forward-unknown-to-host-linker"]
)


class Argument:
    """An option (canonical long name), an input file (INPUT) or a word of no option (FORWARDED)."""

    __slots__ = ("name", "tokens", "value")

    name: str
    value: str | None  # None: a switch, or an optional value that was left out
    tokens: tuple[str, ...]  # the words it was made of

    def __init__(self, name: str, value: str | None, tokens: tuple[str, ...]) -> None:
        self.name = name
        self.value = value
        self.tokens = tokens


class UnknownOption:
    """A word that nvcc rejects, or that its versions understand differently."""

    __slots__ = ("word",)

    word: str

    def __init__(self, word: str) -> None:
        self.word = word


def resolve(arguments: list[Argument]) -> list[Argument] | UnknownOption:
    """The same arguments, if nvcc is asked, anywhere among them, to forward what it does not know."""
    if not any(argument.name in _FORWARDING for argument in arguments):
        for argument in arguments:
            if argument.name == FORWARDED:
                return UnknownOption(argument.tokens[0])
    return arguments


def scan(argv: Sequence[str]) -> list[Argument] | UnknownOption:
    """The arguments in order, with every word that might be forwarded taken as FORWARDED."""
    arguments: list[Argument] = []
    index, count = 0, len(argv)
    while index < count:
        word = argv[index]
        following = argv[index + 1] if index + 1 < count else None
        argument = _match(word, following)
        if argument is None:
            return UnknownOption(word)
        arguments.append(argument)
        index += len(argument.tokens)
    return arguments


def _match(word: str, following: str | None) -> Argument | None:
    """The argument that begins with this word; None if nvcc would stop here or versions differ."""
    if word == "-" or not word.startswith("-"):
        return Argument(INPUT, word, (word,))
    name = SPELLINGS.get(word)
    if name is not None:
        return _spelled(name, word, following)
    spelling, _, value = word.partition("=")
    if spelling.lstrip("-") in UNSUPPORTED:
        return None
    name = SPELLINGS.get(spelling)
    if name is None and spelling[1:] in GLUED_TEXT:
        name = GLUED_TEXT[spelling[1:]]
    if name is not None:
        # CUDA 11.2 takes the next word where the value is empty, later ones an empty value.
        if ARITIES[name] == SWITCH or value == "":
            return None
        return Argument(name, value, (word,))
    if word[1] in GLUED_TEXT:
        return Argument(GLUED_TEXT[word[1]], word[2:], (word,))
    if word[1] in GLUED_NUMBER:
        number = word[2:]
        if not (number.isascii() and number.isdecimal()):
            return None  # nvcc: `expected a number`, even where unknown options are forwarded
        return Argument(GLUED_NUMBER[word[1]], number, (word,))
    return Argument(FORWARDED, word, (word,))


def _spelled(name: str, word: str, following: str | None) -> Argument | None:
    arity = ARITIES[name]
    if arity == SWITCH:
        return Argument(name, None, (word,))
    if arity == OPTIONAL and (following is None or (following.startswith("-") and following != "-")):
        return Argument(name, None, (word,))
    if following is None:
        return None  # nvcc: `argument expected after`
    return Argument(name, following, (word, following))


def last_value(arguments: Iterable[Argument], name: str) -> str | None:
    """The value in force: nvcc warns about a repeated single-valued option and takes the last."""
    value = None
    for argument in arguments:
        if argument.name == name:
            value = argument.value
    return value


def values(arguments: Iterable[Argument], name: str) -> list[str] | UnknownOption:
    """The elements of a list option, over all its occurrences."""
    elements: list[str] = []
    for argument in arguments:
        if argument.name == name and argument.value is not None:
            part = split_list(argument.value, escapes=name not in PATH_LISTS)
            if part is None:
                return UnknownOption(argument.tokens[0])
            elements += part
    return elements


def split_list(text: str, escapes: bool = True) -> list[str] | None:
    """The elements between commas, without empty ones; None where nvcc stops or versions differ.

    Double quotes protect commas and stay in the text, except around paths. A backslash goes and protects
    what follows, except in paths, where it is a plain character. Single quotes are plain characters.
    """
    if "[" in text or "]" in text:
        return None  # CUDA 11.2 drops brackets and does not split between them, to later ones they are text
    elements: list[str] = []
    element, quoted, escaped = "", False, False
    for character in text:
        if escaped:
            element, escaped = element + character, False
        elif character == "\\" and escapes:
            escaped = True
        elif character == "," and not quoted:
            elements.append(element)
            element = ""
        else:
            quoted ^= character == '"'
            element += character if escapes or character != '"' else ""
    if quoted or escaped:
        return None  # nvcc: `Stray '"' character`
    return [piece for piece in [*elements, element] if piece]


def split_variable(text: str) -> list[str] | None:
    """The words of NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS; None where that is not certain.

    They end at blanks and tabs alone, other white space belongs to them. Double quotes protect blanks but
    stay in the word. CUDA 11.2 lets a backslash protect a quote, later ones do not.
    """
    return split_words(text, " \t", dict.fromkeys(("", '"'), "\\"), keep_quotes=True)


def split_file(text: str) -> list[str] | None:
    """The words of an option file; None where that is not certain.

    They end at blanks, tabs and line ends. Double quotes protect blanks and go. Comments do not exist.
    What a backslash does depends on what follows, and was not fathomed; a NUL ends the file.
    """
    return split_words(text, " \t\r\n", dict.fromkeys(("", '"'), "\\\0"))


def split_words(
    text: str, blanks: str, refused: Mapping[str, str], keep_quotes: bool = False
) -> list[str] | None:
    """The words of a text; None where one is not certain, or a quote is left open.

    `refused` has for each kind of quote, and for none, the characters that make it so between these.
    """
    found: list[str] = []
    word, started, quote = "", False, ""
    for character in text:
        if not quote and character in blanks:
            if started:
                found.append(word)
            word, started = "", False
            continue
        if character in refused[quote]:
            return None
        started = True
        is_quote = character == quote if quote else character in refused
        if is_quote:
            quote = "" if quote else character
        if keep_quotes or not is_quote:
            word += character
    if quote:
        return None
    return [*found, word] if started else found
