"""Whether text of the user's can ask where it stands, by way of what system headers declare.

`__builtin_LINE()` and its likes tell where an expression stands. Inside a function's body, that is a line of
the body, wherever it is called from; in a default argument or the initializer of a member, it is the line of
the caller (tried with cudafe++, cicc and g++ 12: templates, lambdas, constant expressions, constructors that
nobody wrote). Text of system headers is part of what a text says, line markers and all (meaning.py). So lines
matter if the user's text names one of these words, or anything that was declared with them outside of a body,
or anything that was declared with that. Every use of a declaration names it: a function by its name, a
constructor or a member by its class, or by what hands out or takes an object of that class.

What is declared is read off the text before a block or a semicolon, for a few plain forms of declarations.
Whatever is none of these may be used without being named, as far as is known here.
"""

from __future__ import annotations

import bisect
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# They ask where they stand, also through std::source_location and its likes.
_READERS = (b"source_location", b"__builtin_LINE", b"__builtin_FILE", b"__builtin_COLUMN")
_WORD = re.compile(rb"\w+")
_CHANGE = re.compile(rb'\n# \d+ "[^\n]*" ([12])(?: 3)?(?: 4)?(?=\n)')
_MOST_NAMES = 64  # so many that the user's text will hold one of them, or that there is no end to it
# A separator between digits is no quotation mark.
_TOKEN = re.compile(
    rb"""[{};]|"(?:[^"\\\n]|\\.)*"|'(?<!\w')(?:[^'\\\n]|\\.)+'|'(?<=\b[uUL]')(?:[^'\\\n]|\\.)+'"""
    rb"""|'(?<=\bu8')(?:[^'\\\n]|\\.)+'|\n# [^\n]*"""
)
_RAW_STRING = re.compile(rb'R"([^()\\\s]{0,16})\(.*?\)\1"', re.DOTALL)
_IS_NAMESPACE = re.compile(rb'(?:^|\s)(?:namespace\b[^=;()]*|extern\s*"C(?:\+\+)?"\s*)$')
_IS_CLASS = re.compile(rb"\b(?:class|struct|union)\b")
_IN_PARENTHESES = re.compile(rb"\b(?:__attribute__|__attribute|__declspec|alignas)\s*\(")
_ATTRIBUTE = re.compile(rb"\[\[.*?\]\]", re.DOTALL)
_DIRECTIVE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_TEMPLATE = re.compile(rb"^\s*(?:extern\s+)?template\s*<")
_CLASS_HEAD = re.compile(rb"^\s*(?:class|struct|union)\s+(\w+)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)
_FUNCTION_HEAD = re.compile(rb"^(?:[\w\s:*&<>,]*[\s*&>:])?(\w+)\s*\(")
_BODY_HEAD = re.compile(rb"^\s*[^\s,:(][^(]*\w\s*\(|^\s*\w+\s*\(|^[^(]*\boperator\b")
_QUALIFIED = re.compile(rb"(\w+)\s*::\s*(?=\w+\s*\()")
_ALIAS = re.compile(rb"^\s*using\s+(?:(\w+)\s*=|(?:\w+\s*::\s*)+(\w+)\s*$|::[\s\w:]*?(\w+)\s*$)")
# With these words a declaration is of none of the plain forms, or what it declares is used without a name.
_ODD_WORD = re.compile(
    rb"\b(?:operator|auto|decltype|requires|typedef|friend|static_assert|concept|using|class|struct|union|enum"
    rb"|asm|__asm__|namespace|typeof|__typeof__|explicit)\b"
)
_ODD_BODY = re.compile(rb"\b(?:auto|class|struct|union|enum|namespace|requires|concept|friend)\b|\[")
# A loop, a structured binding or a coroutine calls functions of these names.
_CALLED_UNNAMED = frozenset(
    (b"begin", b"end", b"get", b"await_transform", b"initial_suspend", b"final_suspend", b"yield_value",
     b"return_value", b"return_void", b"unhandled_exception", b"await_ready", b"await_suspend",
     b"await_resume", b"get_return_object", b"noexcept", b"sizeof", b"alignof", b"if", b"for", b"while",
     b"switch", b"return", b"catch", b"defined", b"__extension__")
)  # fmt: skip


class _UnknownError(Exception):
    """What is declared cannot be told."""


class _Class:
    """A class, or a template of one: `head` is what stands before its block."""

    __slots__ = ("has_objects", "head")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.has_objects = False  # whether something is declared behind the block

    def name(self) -> bytes:
        """Raises _UnknownError."""
        head = _CLASS_HEAD.match(_plain(self.head))
        if self.has_objects or not head:
            raise _UnknownError
        return head[1]


class _Declaration:
    """What stands from `start` to its semicolon, or to the end of its block, which begins at `block`.

    `within` is the outermost class around it; a class is a declaration without its block.
    """

    __slots__ = ("block", "end", "is_class", "start", "within")

    def __init__(self, start: int, block: int, end: int, within: _Class | None, is_class: bool) -> None:
        self.start = start
        self.block = block
        self.end = end
        self.within = within
        self.is_class = is_class


def are_in(text: bytes) -> bool:
    return any(word in text for word in _READERS)


def reach(of_system: Iterable[bytes], of_user: bytes) -> bool:
    """Whether the user's text may ask where it stands; `of_system` are stretches of system headers."""
    if are_in(of_user):
        return True
    stretches = [_Stretch(text) for text in of_system]
    names = {word for stretch in stretches for word in stretch.readers()}
    new = set(names)
    try:
        while new:
            if len(names) > _MOST_NAMES or any(_mentions(of_user, name) for name in new):
                return True
            found = {word for stretch in stretches for name in new for word in stretch.declared_with(name)}
            new = found - names
            names |= new
    except _UnknownError:
        return True
    return False


class _Stretch:
    """Text of system headers without a break: that of several files, one inside the other."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._starts: list[int] = []  # of the parts between two changes of the file
        self._files: list[_File] = []  # of each part

    def readers(self) -> set[bytes]:
        """The words by which code asks where it stands, as far as they are in the text itself."""
        found = set()
        for part in _READERS:
            position = self._text.find(part)
            while position >= 0:
                start, end = _word_around(self._text, position)
                if not self._is_marker(position):
                    found.add(self._text[start:end])
                position = self._text.find(part, end)
        return found

    def declared_with(self, name: bytes) -> Iterator[bytes]:
        """The names of all that is declared with a name outside of bodies; raises _UnknownError."""
        for position in _positions(self._text, name):
            if not self._is_marker(position):
                if not self._starts:
                    self._take_apart()
                yield from self._files[bisect.bisect_right(self._starts, position) - 1].declared_at(position)

    def _take_apart(self) -> None:
        open_files: list[_File] = []
        end = 0
        for marker in (*_CHANGE.finditer(self._text), None):
            start, end = end, marker.start() if marker else len(self._text)
            if not open_files:
                open_files.append(_File())  # was entered before, or is the first
            open_files[-1].add(start, self._text[start:end])
            self._starts.append(start)
            self._files.append(open_files[-1])
            if marker and marker[1] == b"2":
                open_files.pop()
            elif marker:
                open_files.append(_File())

    def _is_marker(self, position: int) -> bool:
        return self._text.startswith(b"# ", self._text.rfind(b"\n", 0, position) + 1)


class _File:
    """A header, or a part of one, without those that it includes.

    Whether it begins in a namespace is not known. Inside a class its constructors look like functions,
    of the same names; inside a body there is nothing to declare.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._shifts: list[tuple[int, int]] = []  # where a part begins in the stretch, and here
        self._length = 0
        self._text = b""
        self._declarations: list[_Declaration] = []

    def add(self, start: int, part: bytes) -> None:
        self._shifts.append((start, self._length))
        self._parts.append(part)
        self._length += len(part)

    def declared_at(self, position: int) -> Iterator[bytes]:
        """The names of what is declared, outside of a body, at this position of the stretch."""
        if not self._text:
            self._text = b"".join(self._parts)
            self._declarations = _declarations(self._text)
        start, here = self._shifts[bisect.bisect_right(self._shifts, (position, self._length)) - 1]
        position += here - start
        index = bisect.bisect_right([each.start for each in self._declarations], position) - 1
        declaration = self._declarations[index] if index >= 0 else None
        if not declaration or position >= declaration.end:
            raise _UnknownError
        yield from self._names_of(declaration, position)

    def _names_of(self, declaration: _Declaration, position: int) -> Iterator[bytes]:
        head = self._text[declaration.start : declaration.block]
        if position >= declaration.block:
            if not _is_function(_plain(head)):
                raise _UnknownError
        elif declaration.within:
            if b"friend" in head:
                raise _UnknownError
            yield declaration.within.name()
        elif declaration.is_class:
            yield _Class(head).name()
        else:
            yield from _names_declared(_plain(head))


def _mentions(text: bytes, name: bytes) -> bool:
    return next(_positions(text, name), -1) >= 0


def _positions(text: bytes, name: bytes) -> Iterator[int]:
    """Where a name is a word of a text."""
    position = text.find(name)
    while position >= 0:
        start, end = _word_around(text, position)
        if text[start:end] == name:
            yield position
        position = text.find(name, end)


def _word_around(text: bytes, position: int) -> tuple[int, int]:
    start = position
    while start and _WORD.match(text, start - 1):
        start -= 1
    rest = _WORD.match(text, position)
    return start, rest.end() if rest else position + 1


def _declarations(text: bytes) -> list[_Declaration]:
    """The declarations of namespaces and classes, in their order; raises _UnknownError."""
    found: list[_Declaration] = []
    around: list[_Class | None] = []  # for each open block of a namespace or class: the outermost class
    within = closed = None
    start = block = depth = 0
    for kind, position in _braces(text):
        if kind == b"{":
            if depth:
                depth += 1
                continue
            head = text[start:position]
            closed = None
            if _IS_NAMESPACE.search(_plain(head) if b"namespace" in head else head):
                around.append(within)
            elif _opens_class(head):
                found.append(_Declaration(start, position, position, within, is_class=True))
                around.append(within)
                within = within or _Class(head)
            else:
                depth, block = 1, position
                continue
        elif kind == b";":
            if depth:
                continue
            if closed and _plain(text[start:position]).strip():
                closed.has_objects = True
            closed = None
            found.append(_Declaration(start, position, position, within, is_class=False))
        elif depth:
            depth -= 1
            if depth:
                continue
            found.append(_Declaration(start, block, position, within, is_class=False))
        else:
            if not around:
                raise _UnknownError
            closed, within = within, around.pop()
        start = position + 1
    if around or depth:
        raise _UnknownError
    return found


def _braces(text: bytes) -> Iterator[tuple[bytes, int]]:
    """The braces and semicolons of a text, and where they are."""
    done = 0
    for token in _TOKEN.finditer(text):
        position = token.start()
        if position < done:
            continue
        first = token[0][:1]
        if first in b"{};":
            yield first, position
        elif first == b'"' and text.startswith(b"R", position - 1):
            raw = _RAW_STRING.match(text, position - 1)
            if not raw:
                raise _UnknownError
            done = raw.end()


def _opens_class(head: bytes) -> bool:
    """Whether a block is that of a class; one that only looks otherwise is not taken for a body."""
    return _IS_CLASS.search(head) is not None and b"(" not in _plain(head) and b"=" not in head


def _is_function(head: bytes) -> bool:
    """Whether the block behind it is a function's body, and the function's type has been said before."""
    flat = head
    while found := re.search(rb"\(", flat):
        flat = flat[: found.start()] + flat[_end_of_group(flat, found.end(), b"(", b")") :]
    declared, arrow, _ = flat.partition(b"->")
    if arrow and b"auto" in declared and head.count(b"auto") == 1:
        head = head.replace(b"auto", b"")
    return b"=" not in flat and bool(_BODY_HEAD.match(head)) and not _ODD_BODY.search(head)


def _plain(head: bytes) -> bytes:
    """The beginning of a declaration without attributes, directives, and the parameters of templates."""
    head = _ATTRIBUTE.sub(b" ", _STRING.sub(b'""', _DIRECTIVE.sub(b"", head)))
    while found := _IN_PARENTHESES.search(head):
        head = head[: found.start()] + b" " + head[_end_of_group(head, found.end(), b"(", b")") :]
    while found := _TEMPLATE.match(head):
        head = head[_end_of_group(head, found.end(), b"<", b">") :]
    return head


def _end_of_group(text: bytes, position: int, opening: bytes, closing: bytes) -> int:
    """Where a group ends that was opened before a position; the end where that cannot be told."""
    depth = 1
    while depth:
        start, end = text.find(opening, position), text.find(closing, position)
        if end < 0 or (opening == b"<" and text[position:end].count(b"(") != text[position:end].count(b")")):
            return len(text)
        is_opened = 0 <= start < end
        depth += 1 if is_opened else -1
        position = (start if is_opened else end) + 1
    return position


def _names_declared(head: bytes) -> Sequence[bytes]:
    """The names of a function, an alias or a class that a namespace declares; raises _UnknownError."""
    alias = _ALIAS.match(head)
    if alias:
        return (alias[alias.lastindex or 1],)
    declared_class = _CLASS_HEAD.match(head)
    if declared_class:
        return (declared_class[1],)
    function = _FUNCTION_HEAD.match(head)
    if not function or function[1] in _CALLED_UNNAMED or _ODD_WORD.search(head):
        raise _UnknownError
    return (function[1], *_QUALIFIED.findall(head[: function.end()]))
