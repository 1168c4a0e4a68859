"""Which files of a text ask where they stand, so that where their lines are is part of what they say.

`__builtin_LINE()` and its likes tell where an expression stands. Inside a function's body, that is a line of
the body, wherever it is called from; in a default argument or the initializer of a member, it is the line of
the caller (tried with cudafe++, cicc and g++ 12: templates, lambdas, constant expressions, constructors that
nobody wrote). So a file asks if it names one of these words, or anything that was declared with them outside
of a body, in whatever file, or anything that was declared with that. Every use of a declaration names it: a
function by its name, a constructor or a member by its class, or by what hands out or takes an object of that
class. A member function is also named where it is called, and only a call evaluates a default argument.

What is declared is read off the text before a block or a semicolon, for a few plain forms of declarations
(declaration_heads.py). Whatever is none of these may be used without being named, as far as is known here.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence

from nvccache.preprocessed import declaration_heads
from nvccache.preprocessed.declaration_heads import UnknownError

# They ask where they stand; whatever else does so, as std::source_location, is declared with them.
_READERS = (b"__builtin_source_location", b"__builtin_LINE", b"__builtin_FILE", b"__builtin_COLUMN")
_WORD = rb"\w+"
_CALLED = b"("  # behind a name: only a call of it counts
# What stands behind a name that is called: `(f)()`, `f<1>()`; a comment or a marker may stand between.
_CALL = re.compile(rb"[\s)]*[(</#]")
_CHANGE = rb'\n# \d+ "[^\n]*" ([12])(?: 3)?(?: 4)?(?=\n)'
_MOST_NAMES = 64  # so many that most files will hold one of them, or that there is no end to it
# A separator between digits is no quotation mark.
_TOKEN = (
    rb"""[{};]|"(?:[^"\\\n]|\\.)*"|'(?<!\w')(?:[^'\\\n]|\\.)+'|'(?<=\b[uUL]')(?:[^'\\\n]|\\.)+'"""
    rb"""|'(?<=\bu8')(?:[^'\\\n]|\\.)+'|\n# [^\n]*|/[/*]|<%|%>"""
)
_RAW_STRING = rb'(?s)R"([^()\\\s]{0,16})\(.*?\)\1"'
_IS_NAMESPACE = rb'(?:^|\s)(?:namespace\b[^=;()]*|extern\s*"C(?:\+\+)?"\s*)$'


class _Class:
    """A class, or a template of one: `head` is what stands before its block, `heads` also those inside."""

    __slots__ = ("has_objects", "head", "heads")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.heads = [head]
        self.has_objects = False  # whether something is declared behind the block

    def name(self) -> bytes:
        """Raises UnknownError."""
        if self.has_objects:
            raise UnknownError
        return declaration_heads.name_of_class(self.head)

    def use_of(self, head: bytes) -> bytes:
        """The name by which a member is used: its own where it is a function; raises UnknownError."""
        try:
            name = declaration_heads.name_of_member(head)
        except UnknownError:
            return self.name()
        is_constructor = any(_mentions(each, name) for each in self.heads)
        return self.name() if is_constructor else name + _CALLED


class _Declaration:
    """What stands from `start` to its semicolon, or to the end of its block, which begins at `block`.

    `within` is the outermost class around it; a class is a declaration without its block.
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
        self.is_odd = is_odd  # it has blocks in parentheses, so that the start of its body is not certain


def are_in(text: bytes) -> bool:
    return any(word in text for word in _READERS)


def files_asking(of_system: Sequence[bytes], of_files: Mapping[bytes, bytes]) -> set[bytes]:
    """The names of the files that may ask where they stand; raises UnknownError if any may.

    `of_system` are stretches of system headers, and `of_files` is the text of each other file. CCCL can be
    followed by its classes, whose functions have names that others have as well, and PyTorch by its
    functions, since there is an operator for their class.
    """
    try:
        return _Followed(of_system, of_files, by_calls=False).asking()
    except UnknownError:
        return _Followed(of_system, of_files, by_calls=True).asking()


class _Followed:
    """The names that are followed through the text of system headers, and of other files that ask.

    A use of a member names its class. `by_calls`, one of a member function calls it by its name.
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

    def asking(self) -> set[bytes]:
        """The other files that name one of them; raises UnknownError."""
        found: set[bytes] = set()
        while more := {name for name, text in self._others.items() if self._is_asking(text)}:
            found |= more
            for name in more:
                self._add(self._others.pop(name))
        return found

    def _is_asking(self, text: bytes) -> bool:
        if are_in(text):
            return True
        self._follow()
        return any(_mentions(text, name) for name in self._names)

    def _follow(self) -> None:
        """Add what is declared with a name, until there is nothing new; raises UnknownError."""
        while todo := {(stretch, name) for stretch in self._stretches for name in self._names} - self._done:
            self._done |= todo
            self._names.update(word for stretch, name in todo for word in stretch.declared_with(name))
            if len(self._names) > _MOST_NAMES:
                raise UnknownError


class _Stretch:
    """Text without a break: that of several system headers, one inside the other, or of one other file."""

    def __init__(self, text: bytes, *, by_calls: bool) -> None:
        self._text = text
        self._by_calls = by_calls
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
        """The names of all that is declared with a name outside of bodies; raises UnknownError."""
        for position in _positions(self._text, name):
            if not self._is_marker(position):
                if not self._starts:
                    self._take_apart()
                yield from self._files[bisect.bisect_right(self._starts, position) - 1].declared_at(position)

    def _take_apart(self) -> None:
        open_files: list[_File] = []
        end = 0
        for marker in (*re.finditer(_CHANGE, self._text), None):
            start, end = end, marker.start() if marker else len(self._text)
            if not open_files:
                open_files.append(_File(by_calls=self._by_calls))  # was entered before, or is the first
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
    """A header, or a part of one, without those that it includes.

    Whether it begins in a namespace is not known. Inside a class its constructors look like functions,
    of the same names; inside a body there is nothing to declare.
    """

    def __init__(self, *, by_calls: bool) -> None:
        self._by_calls = by_calls
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
    """Where a name is a word of a text, or is called there."""
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
    """The declarations of namespaces and classes, in their order; raises UnknownError."""
    reading = _Reading(text)
    for kind, position in _braces(text):
        reading.take(kind, position)
    return reading.end()


class _Reading:
    """Goes through the braces and semicolons of a text, and collects the declarations between them."""

    __slots__ = ("_around", "_block", "_closed", "_depth", "_found", "_is_odd", "_start", "_text", "_within")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._found: list[_Declaration] = []
        # For each open block of a namespace or class: the outermost class around it.
        self._around: list[_Class | None] = []
        self._within: _Class | None = None
        self._closed: _Class | None = None  # ended just now, and may have objects declared behind it
        self._start = 0  # of the declaration
        self._block = 0  # where its body begins
        self._depth = 0  # inside of that
        self._is_odd = False  # a block stands in parentheses, where none ends a declaration

    def take(self, kind: bytes, position: int) -> None:
        if self._depth and kind != b"}":
            self._depth += kind == b"{"
            return
        head = self._text[self._start : position]
        if kind == b"{":
            is_between = self._opens(head, position)
        elif kind == b";":
            is_between = self._ends_plainly(head, position)
        elif self._depth:
            is_between = self._leaves_body(head, position)
        else:
            is_between = self._closes()
        if is_between:  # what comes next is another declaration
            self._start = position + 1

    def end(self) -> list[_Declaration]:
        """All of them, when the text has been gone through."""
        if self._around or self._depth:
            raise UnknownError
        return self._found

    def _opens(self, head: bytes, position: int) -> bool:
        """A block: of a namespace or class, which has declarations, or of anything else."""
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

    def _ends_plainly(self, head: bytes, position: int) -> bool:
        """A semicolon outside of a body."""
        if self._closed and declaration_heads.plain(head).strip():
            self._closed.has_objects = True
        self._closed = None
        is_whole = declaration_heads.is_balanced(head)
        self._is_odd = self._is_odd or not is_whole
        self._add(position, position, self._within if is_whole else None)
        self._is_odd = False
        return True

    def _leaves_body(self, head: bytes, position: int) -> bool:
        """A brace that ends a block inside of a body, or the body."""
        self._depth -= 1
        if self._depth or (self._is_odd and not declaration_heads.is_balanced(head)):
            return False
        self._add(position if self._is_odd else self._block, position, self._within)
        self._is_odd = False
        return True

    def _closes(self) -> bool:
        """A brace that ends the block of a namespace or class."""
        if not self._around:
            raise UnknownError
        self._closed, self._within = self._within, self._around.pop()
        self._is_odd = False
        return True

    def _add(self, block: int, end: int, within: _Class | None, *, is_class: bool = False) -> None:
        is_odd = self._is_odd
        self._found.append(_Declaration(self._start, block, end, within, is_class=is_class, is_odd=is_odd))


def _braces(text: bytes) -> Iterator[tuple[bytes, int]]:
    """The braces and semicolons of a text, and where they are."""
    done = 0
    for token in re.finditer(_TOKEN, text):
        position = token.start()
        if position < done:
            continue
        first = token[0][:1]
        if first in b"{};":
            yield first, position
        elif first in b"/<%":
            raise UnknownError  # comments, which -C keeps, or braces that are spelled otherwise
        elif first == b'"' and text.startswith(b"R", position - 1):
            raw = re.compile(_RAW_STRING).match(text, position - 1)
            if not raw:
                raise UnknownError
            done = raw.end()
