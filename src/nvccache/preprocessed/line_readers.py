"""Finds the files whose meaning depends on line numbers because they use `__builtin_LINE()` and the like.

Inside a function's body `__builtin_LINE()` is a line of the body, wherever the function is called from. In a
default argument or member initializer it is the line of the caller (tried with cudafe++, cicc and g++ 12:
templates, lambdas, constant expressions, implicit constructors). Hence a file is position-dependent if it
mentions such a builtin, or a name declared with one outside a body, in any file, or a name declared with such
a name, and so on. Every use mentions the declaration: a function by its name; a constructor or member by its
class, or by something that returns or takes an object of the class. A call of a member function also mentions
the function, and only calls evaluate default arguments.

Declared names are parsed from the text before a block or semicolon, for a few simple forms
(declaration_heads.py). Any other declaration is assumed to be usable without mentioning a known name.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence

from nvccache.preprocessed import declaration_heads
from nvccache.preprocessed.declaration_heads import UnknownError

# Everything else that reads its position, such as std::source_location, is declared with these.
_READERS = (b"__builtin_source_location", b"__builtin_LINE", b"__builtin_FILE", b"__builtin_COLUMN")
_WORD = rb"\w+"
_CALLED = b"("  # suffix of a name of which only calls count
# What follows a name that is called: `(f)()`, `f<1>()`, possibly after a comment or a marker.
_CALL = re.compile(rb"[\s)]*[(</#]")
_CHANGE = rb'\n# \d+ "[^\n]*" ([12])(?: 3)?(?: 4)?(?=\n)'
_MOST_NAMES = 64  # with more, most files would mention one of them
# A digit separator is no quotation mark.
_TOKEN = (
    rb"""[{};]|"(?:[^"\\\n]|\\.)*"|'(?<!\w')(?:[^'\\\n]|\\.)+'|'(?<=\b[uUL]')(?:[^'\\\n]|\\.)+'"""
    rb"""|'(?<=\bu8')(?:[^'\\\n]|\\.)+'|\n# [^\n]*|/[/*]|<%|%>"""
)
_RAW_STRING = rb'(?s)R"([^()\\\s]{0,16})\(.*?\)\1"'
_IS_NAMESPACE = rb'(?:^|\s)(?:namespace\b[^=;()]*|extern\s*"C(?:\+\+)?"\s*)$'


class _Class:
    """A class or class template, with the text before its block; `heads` includes those of nested classes."""

    __slots__ = ("has_objects", "head", "heads")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.heads = [head]
        self.has_objects = False  # whether objects are declared after the block

    def name(self) -> bytes:
        """Raises UnknownError."""
        if self.has_objects:
            raise UnknownError
        return declaration_heads.name_of_class(self.head)

    def use_of(self, head: bytes) -> bytes:
        """The name that uses of a member mention: its own for a function; raises UnknownError."""
        try:
            name = declaration_heads.name_of_member(head)
        except UnknownError:
            return self.name()
        is_constructor = any(_mentions(each, name) for each in self.heads)
        return self.name() if is_constructor else name + _CALLED


class _Declaration:
    """The text from `start` to the semicolon, or to the end of the block, which begins at `block`.

    `within` is the outermost enclosing class. The declaration of a class does not include its block.
    """

    __slots__ = ("block", "end", "is_class", "is_odd", "start", "within")

    def __init__(
        self, start: int, block: int, end: int, within: _Class | None, *, is_class: bool, is_odd: bool = False
    ) -> None:
        self.start = start
        self.block = block
        self.end = end
        self.within = within
        self.is_class = is_class
        self.is_odd = is_odd  # it has blocks in parentheses: the start of its body is uncertain


def are_in(text: bytes) -> bool:
    return any(word in text for word in _READERS)


def position_dependent_files(of_system: Sequence[bytes], of_files: Mapping[bytes, bytes]) -> set[bytes]:
    """The names of the files that may be position-dependent; raises UnknownError if any file may be.

    `of_system` are stretches of system headers, and `of_files` is the text of each other file. CCCL needs
    tracking by class, since its functions have common names; PyTorch needs tracking by call, since its class
    has an operator.
    """
    try:
        return _Tracker(of_system, of_files, by_calls=False).position_dependent()
    except UnknownError:
        return _Tracker(of_system, of_files, by_calls=True).position_dependent()


class _Tracker:
    """Tracks position-dependent names through system headers and the other files found to use them.

    Uses of a member are found by its class; `by_calls`, those of a member function by calls of its name.
    """

    def __init__(
        self, of_system: Sequence[bytes], of_files: Mapping[bytes, bytes], *, by_calls: bool
    ) -> None:
        self._others = dict(of_files)
        self._by_calls = by_calls
        self._stretches: list[_Stretch] = []
        self._names: set[bytes] = set()
        self._done: set[tuple[_Stretch, bytes]] = set()
        for text in of_system:
            self._add(text)

    def _add(self, text: bytes) -> None:
        self._stretches.append(_Stretch(text, by_calls=self._by_calls))
        self._names.update(self._stretches[-1].readers())

    def position_dependent(self) -> set[bytes]:
        """The files, other than system headers, that mention a tracked name; raises UnknownError."""
        found: set[bytes] = set()
        while more := {name for name, text in self._others.items() if self._is_dependent(text)}:
            found |= more
            for name in more:
                self._add(self._others.pop(name))
        return found

    def _is_dependent(self, text: bytes) -> bool:
        if are_in(text):
            return True
        self._follow()
        return any(_mentions(text, name) for name in self._names)

    def _follow(self) -> None:
        """Add the names declared with tracked names, until there are no more; raises UnknownError."""
        while todo := {(stretch, name) for stretch in self._stretches for name in self._names} - self._done:
            self._done |= todo
            self._names.update(word for stretch, name in todo for word in stretch.declared_with(name))
            if len(self._names) > _MOST_NAMES:
                raise UnknownError


class _Stretch:
    """Contiguous text: of nested system headers, or of one other file."""

    def __init__(self, text: bytes, *, by_calls: bool) -> None:
        self._text = text
        self._by_calls = by_calls
        self._starts: list[int] = []  # of the parts between changes of the file
        self._files: list[_File] = []  # of each part

    def readers(self) -> set[bytes]:
        """The position-reading builtins in the text, as whole words."""
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
        """The names of declarations that mention a name outside bodies; raises UnknownError."""
        for position in _positions(self._text, name):
            if not self._is_marker(position):
                if not self._starts:
                    self._split()
                yield from self._files[bisect.bisect_right(self._starts, position) - 1].declared_at(position)

    def _split(self) -> None:
        open_files: list[_File] = []
        end = 0
        for marker in (*re.finditer(_CHANGE, self._text), None):
            start, end = end, marker.start() if marker else len(self._text)
            if not open_files:
                open_files.append(_File(by_calls=self._by_calls))  # entered before the stretch, or the first
            open_files[-1].add(start, self._text[start:end])
            self._starts.append(start)
            self._files.append(open_files[-1])
            if marker and marker[1] == b"2":
                open_files.pop()
            elif marker:
                open_files.append(_File(by_calls=self._by_calls))

    def _is_marker(self, position: int) -> bool:
        return self._text.startswith(b"# ", self._text.rfind(b"\n", 0, position) + 1)


class _File:
    """A header or a part of one, without the headers that it includes.

    The scope in which it begins is unknown. If it is a class, constructors look like functions of the same
    name, which is harmless; if it is a body, nothing is declared.
    """

    def __init__(self, *, by_calls: bool) -> None:
        self._by_calls = by_calls
        self._parts: list[bytes] = []
        self._shifts: list[tuple[int, int]] = []  # of each part: its offset in the stretch, and here
        self._length = 0
        self._text = b""
        self._declarations: list[_Declaration] = []

    def add(self, start: int, part: bytes) -> None:
        self._shifts.append((start, self._length))
        self._parts.append(part)
        self._length += len(part)

    def declared_at(self, position: int) -> Iterator[bytes]:
        """The names declared at this position of the stretch, outside bodies."""
        if not self._text:
            self._text = b"".join(self._parts)
            self._declarations = _declarations(self._text)
        start, here = self._shifts[bisect.bisect_right(self._shifts, (position, self._length)) - 1]
        position += here - start
        index = bisect.bisect_right([each.start for each in self._declarations], position) - 1
        declaration = self._declarations[index] if index >= 0 else None
        if not declaration or position >= declaration.end:
            raise UnknownError
        yield from self._names_of(declaration, position)

    def _names_of(self, declaration: _Declaration, position: int) -> Iterator[bytes]:
        head = self._text[declaration.start : declaration.block]
        if declaration.is_odd and not declaration.within:
            raise UnknownError
        if not declaration.is_odd and position >= declaration.block:
            if not declaration_heads.is_function(head):
                raise UnknownError
        elif not declaration.is_odd and position - declaration.start >= declaration_heads.initializers(head):
            return
        elif declaration.within:
            if b"friend" in head:
                raise UnknownError
            may_be_called = self._by_calls and not declaration.is_odd and not declaration.is_class
            yield declaration.within.use_of(head) if may_be_called else declaration.within.name()
        elif declaration.is_class:
            yield _Class(head).name()
        else:
            yield from declaration_heads.names_declared(head)


def _mentions(text: bytes, name: bytes) -> bool:
    return next(_positions(text, name), -1) >= 0


def _positions(text: bytes, name: bytes) -> Iterator[int]:
    """The positions of a name as a whole word, or of its calls."""
    is_call = name.endswith(_CALLED)
    name = name.removesuffix(_CALLED)
    position = text.find(name)
    while position >= 0:
        start, end = _word_around(text, position)
        if text[start:end] == name and (not is_call or _CALL.match(text, end)):
            yield position
        position = text.find(name, end)


def _word_around(text: bytes, position: int) -> tuple[int, int]:
    start, word = position, re.compile(_WORD)
    while start and word.match(text, start - 1):
        start -= 1
    rest = word.match(text, position)
    return start, rest.end() if rest else position + 1


def _declarations(text: bytes) -> list[_Declaration]:
    """The declarations in namespaces and classes, in order; raises UnknownError."""
    scanner = _Scanner(text)
    for kind, position in _braces(text):
        scanner.take(kind, position)
    return scanner.end()


class _Scanner:
    """Collects the declarations between the braces and semicolons of a text."""

    __slots__ = ("_around", "_block", "_closed", "_depth", "_found", "_is_odd", "_start", "_text", "_within")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._found: list[_Declaration] = []
        # For each open block of a namespace or class: the outermost enclosing class.
        self._around: list[_Class | None] = []
        self._within: _Class | None = None
        self._closed: _Class | None = None  # just ended; objects may be declared after its block
        self._start = 0  # of the declaration
        self._block = 0  # the start of its body
        self._depth = 0  # of blocks in the body
        self._is_odd = False  # inside parentheses, where a block does not end a declaration

    def take(self, kind: bytes, position: int) -> None:
        if self._depth and kind != b"}":
            self._depth += kind == b"{"
            return
        head = self._text[self._start : position]
        if kind == b"{":
            is_between = self._opens(head, position)
        elif kind == b";":
            is_between = self._ends_at_semicolon(head, position)
        elif self._depth:
            is_between = self._ends_block(head, position)
        else:
            is_between = self._ends_scope()
        if is_between:  # the next declaration follows
            self._start = position + 1

    def end(self) -> list[_Declaration]:
        """All declarations, at the end of the text."""
        if self._around or self._depth:
            raise UnknownError
        return self._found

    def _opens(self, head: bytes, position: int) -> bool:
        """Start of a block: of a namespace or class, which contains declarations, or of anything else."""
        self._closed = None
        is_whole = declaration_heads.is_balanced(head)
        if not is_whole or self._is_odd:
            self._is_odd = True
        elif re.search(_IS_NAMESPACE, declaration_heads.plain(head) if b"namespace" in head else head):
            self._around.append(self._within)
            return True
        elif declaration_heads.opens_class(head):
            self._add(position, position, self._within, is_class=True)
            self._around.append(self._within)
            if self._within:
                self._within.heads.append(head)
            self._within = self._within or _Class(head)
            return True
        self._depth, self._block = 1, position
        return False

    def _ends_at_semicolon(self, head: bytes, position: int) -> bool:
        """A semicolon outside a body."""
        if self._closed and declaration_heads.plain(head).strip():
            self._closed.has_objects = True
        self._closed = None
        is_whole = declaration_heads.is_balanced(head)
        self._is_odd = self._is_odd or not is_whole
        self._add(position, position, self._within if is_whole else None)
        self._is_odd = False
        return True

    def _ends_block(self, head: bytes, position: int) -> bool:
        """A brace that ends a body or a block in it."""
        self._depth -= 1
        if self._depth or (self._is_odd and not declaration_heads.is_balanced(head)):
            return False
        self._add(position if self._is_odd else self._block, position, self._within)
        self._is_odd = False
        return True

    def _ends_scope(self) -> bool:
        """A brace that ends a namespace or class."""
        if not self._around:
            raise UnknownError
        self._closed, self._within = self._within, self._around.pop()
        self._is_odd = False
        return True

    def _add(self, block: int, end: int, within: _Class | None, *, is_class: bool = False) -> None:
        is_odd = self._is_odd
        self._found.append(_Declaration(self._start, block, end, within, is_class=is_class, is_odd=is_odd))


def _braces(text: bytes) -> Iterator[tuple[bytes, int]]:
    """The braces and semicolons of a text, with their positions."""
    done = 0
    for token in re.finditer(_TOKEN, text):
        position = token.start()
        if position < done:
            continue
        first = token[0][:1]
        if first in b"{};":
            yield first, position
        elif first in b"/<%":
            raise UnknownError  # comments, kept by -C, or digraphs for braces
        elif first == b'"' and text.startswith(b"R", position - 1):
            raw = re.compile(_RAW_STRING).match(text, position - 1)
            if not raw:
                raise UnknownError
            done = raw.end()
