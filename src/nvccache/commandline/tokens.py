"""Splits nvcc's command line into options, values and input files.

Owns the matching of tokens with `options`, the splitting of comma lists, and nvcc's quoting in environment
variables and option files. Does not know what options mean. Everything here was learnt from `nvcc --dryrun`
of CUDA 11.2, 11.8, 12.4, 13.0, 13.2 and 13.5. Where these disagree, the token is an UnknownOption, and the
call bypasses the cache.
"""

from __future__ import annotations

from nvccache.commandline.options import (
    ARITIES,
    GLUED_NUMBER,
    GLUED_TEXT,
    LIST,
    OPTIONAL,
    PATH_LISTS,
    SPELLINGS,
    SPELLINGS_OF,
    SWITCH,
    UNSUPPORTED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INPUT = ""  # Argument.name of an input file
FORWARDED = "-"  # Argument.name of a token that nvcc would forward to the host compiler or linker

_FORWARDING = frozenset(
    ["forward-unknown-opts", "forward-unknown-to-host-compiler", "forward-unknown-to-host-linker"]
)


class Argument:
    """An option (canonical long name), an input file (INPUT) or an unknown token (FORWARDED)."""

    __slots__ = ("name", "tokens", "value")

    name: str
    value: str | None  # None: a switch, or an optional value that was left out
    tokens: tuple[str, ...]  # as typed

    def __init__(self, name: str, value: str | None, tokens: tuple[str, ...]) -> None:
        self.name = name
        self.value = value
        self.tokens = tokens


class UnknownOption:
    """A token that nvcc rejects, or that its versions interpret differently."""

    __slots__ = ("token",)

    token: str

    def __init__(self, token: str) -> None:
        self.token = token


def resolve(arguments: list[Argument]) -> list[Argument] | UnknownOption:
    """The same arguments, or an UnknownOption if one is FORWARDED and no option makes nvcc forward it."""
    if not any(argument.name in _FORWARDING for argument in arguments):
        for argument in arguments:
            if argument.name == FORWARDED:
                return UnknownOption(argument.tokens[0])
    return arguments


def scan(argv: Sequence[str]) -> list[Argument] | UnknownOption:
    """The arguments in order; every token that may have to be forwarded is FORWARDED."""
    arguments: list[Argument] = []
    index, count = 0, len(argv)
    while index < count:
        token = argv[index]
        following = argv[index + 1] if index + 1 < count else None
        argument = _match(token, following)
        if argument is None:
            return UnknownOption(token)
        arguments.append(argument)
        index += len(argument.tokens)
    return arguments


def _match(token: str, following: str | None) -> Argument | None:
    """The argument that begins with this token; None if nvcc rejects it, or versions of nvcc differ."""
    if token == "-" or not token.startswith("-"):
        return Argument(INPUT, token, (token,))
    name = SPELLINGS.get(token)
    if name is not None:
        return _spelled(name, token, following)
    spelling, _, value = token.partition("=")
    if spelling.lstrip("-") in UNSUPPORTED:
        return None
    name = SPELLINGS.get(spelling)
    if name is not None:
        # With `--name=`, CUDA 11.2 takes the next token as the value, later versions the empty string.
        if ARITIES[name] == SWITCH or value == "":
            return None
        return Argument(name, value, (token,))
    if token[1] in GLUED_TEXT:
        return Argument(GLUED_TEXT[token[1]], token[2:], (token,))
    if token[1] in GLUED_NUMBER:
        number = token[2:]
        if not (number.isascii() and number.isdecimal()):
            return None  # nvcc prints `expected a number`, even if it forwards unknown options
        return Argument(GLUED_NUMBER[token[1]], number, (token,))
    return Argument(FORWARDED, token, (token,))


def _spelled(name: str, token: str, following: str | None) -> Argument | None:
    arity = ARITIES[name]
    if arity == SWITCH:
        return Argument(name, None, (token,))
    if arity == OPTIONAL or following is None:
        return None  # nvcc prints `argument expected after`, or its behaviour depends on the next token
    return Argument(name, following, (token, following))


def spelled(name: str, value: str) -> str:
    """An option and its value, as usually typed: `-O2`, `-arch=sm_80`, `-Xptxas -v`."""
    if name in (INPUT, FORWARDED):
        return value
    option = SPELLINGS_OF[name][-1]
    if option[1:] in GLUED_TEXT or option[1:] in GLUED_NUMBER:
        return option + value
    return f"{option} {value}" if ARITIES[name] == LIST else f"{option}={value}"


def last_value(arguments: Iterable[Argument], name: str) -> str | None:
    """The last value of an option: if it is given again, nvcc prints a warning and uses the last value."""
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
    """The nonempty elements between commas; None if nvcc rejects the text, or its versions differ.

    Double quotes protect commas; they are kept, except in paths. A backslash is removed and protects the next
    character, except in paths, where it is ordinary. Single quotes are ordinary characters.
    """
    if "[" in text or "]" in text:
        return None  # CUDA 11.2 drops brackets and does not split within them; later, they are ordinary text
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
        return None  # nvcc prints `Stray '"' character`
    return [piece for piece in [*elements, element] if piece]


def split_variable(text: str) -> list[str] | None:
    """The tokens of NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS; None if nvcc's versions split it differently.

    Tokens end only at blanks and tabs, not at other white space. Double quotes protect blanks and are kept.
    In CUDA 11.2 a backslash protects a quote, in later versions it does not.
    """
    return split_quoted(text, " \t", dict.fromkeys(("", '"'), "\\"), keep_quotes=True)


def split_file(text: str) -> list[str] | None:
    """The tokens of an option file; None if it is not clear how nvcc splits it.

    Tokens end at blanks, tabs and line ends. Double quotes protect blanks and are removed. There are no
    comments. A file with a backslash, whose effect varies, or with a NUL, which ends the file, gives None.
    """
    return split_quoted(text, " \t\r\n", dict.fromkeys(("", '"'), "\\\0"))


def split_quoted(
    text: str, blanks: str, refused: Mapping[str, str], keep_quotes: bool = False
) -> list[str] | None:
    """The tokens of a text; None if one is ambiguous or a quote is not closed.

    `refused` has the ambiguous characters within each kind of quote; its key `""` is for unquoted text.
    """
    found: list[str] = []
    token, started, quote = "", False, ""
    for character in text:
        if not quote and character in blanks:
            if started:
                found.append(token)
            token, started = "", False
            continue
        if character in refused[quote]:
            return None
        started = True
        is_quote = character == quote if quote else character in refused
        if is_quote:
            quote = "" if quote else character
        if keep_quotes or not is_quote:
            token += character
    if quote:
        return None
    return [*found, token] if started else found
