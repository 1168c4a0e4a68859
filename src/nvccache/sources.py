"""What the text of sources and headers says about reading that line markers do not tell.

Line markers name the files that were entered. They are silent about names that `__has_include` asked
for, about includes that were skipped because the file had been read before, and about words whose
meaning is the time of day. All of these are looked for in the text itself, branches not taken included:
that is never too little.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

# What surveys.py remembers is of these rules: to be changed with whatever here decides what is found.
RULES = "1"
TIME_WORDS = (b"__TIME__", b"__DATE__", b"__TIMESTAMP__")
# How each of them reads once it has been expanded; both compilers write it as a string literal.
_EXPANDED = {
    b"__TIME__": re.compile(rb'"(?:\d\d:\d\d:\d\d|\?\?:\?\?:\?\?)"'),
    b"__DATE__": re.compile(rb'"(?:[A-Z][a-z]{2} [ \d]\d \d{4}|\?\?\? \?\? \?\?\?\?)"'),
    b"__TIMESTAMP__": re.compile(
        rb'"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|\?\?\? \?\?\?[^"\n]*)"'
    ),
}
# Searches of megabytes are fast where they begin with one plain and rare character.
_TIME = re.compile(rb"E(?:(?<=__TIME)(?:__|STAMP__)|(?<=__DATE)__)")
# What is included, and directives whose reading is not followed: a file's bytes, a file's date, a module.
_DIRECTIVE = re.compile(
    rb'#[ \t]*(?:include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)'
    rb"|((?:embed|import|pragma[ \t]+(?:once|GCC[ \t]+dependency))\b))"
)
_EMBED = re.compile(rb"\b__has_embed\b")
_ASKING = frozenset([b"__has_include", b"__has_include_next"])
_HAS = b"__has_"  # all of these begin like that, and so does `__has_embed`
_COMMENT = re.compile(rb'/\*.*?\*/|//[^\n]*|("(?:[^"\\\n]|\\.)*")', re.DOTALL)
_LITERAL = re.compile(rb'[ \t]*\(?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_TESTED = re.compile(
    rb"(?:^[ \t]*#[ \t]*(?:ifdef|ifndef|undef)[ \t]+|\bdefined[ \t]*\(?[ \t]*)$", re.MULTILINE
)
_CONTINUED = re.compile(rb"\\[ \t]*\n")
_PARAMETERS = re.compile(rb"[ \t]*#[ \t]*define[ \t]+\w+\(([^)]*)\)")
_DEFINED = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+$", re.MULTILINE)
_WRAPPER = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\([ \t]*(\w+)[ \t]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Questions:
    """What a file asks for in certain words; `wrappers` are macros of its own that are further such words."""

    asked: tuple[str, ...] = ()
    wrappers: tuple[bytes, ...] = ()
    is_questionable: bool = False


_NONE = Questions()


@dataclass(slots=True)
class Findings:
    """What was found in one file. `included` are names, `unfollowed` directives.

    Which words ask is only known when all files have been looked through. The text was searched for those
    in `looked_for` and holds those in `mentioned`; `answers` are the questions in some of these words.
    """

    path: str
    included: list[str] = field(default_factory=list)
    is_once: bool = False
    time_words: list[bytes] = field(default_factory=list)
    unfollowed: list[str] = field(default_factory=list)
    looked_for: frozenset[bytes] = frozenset()
    mentioned: frozenset[bytes] = frozenset()
    answers: dict[frozenset[bytes], Questions] = field(default_factory=dict)
    questions: Questions = _NONE

    @property
    def asked(self) -> list[str]:
        return list(self.questions.asked)

    @property
    def objections(self) -> list[str]:
        """Why there can be no reading of a pass with this file, clauses."""
        clauses = [f"`{self.path}` uses `{directive}`" for directive in self.unfollowed]
        if self.questions.is_questionable:
            clauses.append(f"`{self.path}` asks `__has_include` for a name that is made by macros")
        return clauses


class Survey:
    """Looks through files, each once, however many passes of a call entered it."""

    def __init__(self) -> None:
        self.files: dict[str, Findings] = {}  # by path
        self._texts: dict[str, bytes] = {}
        self._asking = set(_ASKING)  # `__has_include`, and macros that hand their argument to it
        self._settled: frozenset[bytes] = _ASKING  # what all files but the new ones have been asked in
        self._new: list[Findings] = []

    @property
    def ways_to_ask(self) -> int:
        """How many there are: as long as this stays the same, so does what was found in a file."""
        return len(self._asking)

    def learn(self, found: Findings) -> None:
        """Take what was found in a file that has not changed since."""
        self.files[found.path] = found
        self._new.append(found)

    def of(self, paths: Collection[str], read: Callable[[str], bytes]) -> dict[str, Findings]:
        """The findings in these files; `read` gives the content of one."""
        for path in paths:
            if path not in self.files:
                self._texts[path] = _joined(read(path))
                self.learn(_findings(path, self._texts[path]))
        self._ask(read)
        self._texts = {}
        return {path: self.files[path] for path in paths}

    def _ask(self, read: Callable[[str], bytes]) -> None:
        """Find the questions in new files; in all of them again when one defines a further way to ask."""
        while self._new or self._settled != self._asking:
            files = self._new if self._settled == self._asking else self.files.values()
            known = frozenset(self._asking)
            for found in files:
                found.questions = self._questions_of(found, known, read)
                self._asking.update(found.questions.wrappers)
            self._settled, self._new = known, []

    def _questions_of(
        self, found: Findings, asking: frozenset[bytes], read: Callable[[str], bytes]
    ) -> Questions:
        if not asking <= found.looked_for:
            text = self._text_of(found.path, read)
            more = asking - found.looked_for
            found.mentioned |= {name for name in more if name in text}
            found.looked_for |= more
        if not found.mentioned:
            return _NONE
        words = asking & found.mentioned
        if words not in found.answers:
            found.answers[words] = _questions(self._text_of(found.path, read), words) if words else _NONE
        return found.answers[words]

    def _text_of(self, path: str, read: Callable[[str], bytes]) -> bytes:
        if path not in self._texts:
            self._texts[path] = _joined(read(path))
        return self._texts[path]


def _findings(path: str, text: bytes) -> Findings:
    """Everything but the questions, save that there are none in most files."""
    found = Findings(path)
    written = {text[match.start() - 5 : match.end()] for match in _TIME.finditer(text)}
    found.time_words = [word for word in TIME_WORDS if word in written]
    for match in _DIRECTIVE.finditer(text):
        if match.lastindex != 3:
            found.included.append(_name(match))
        elif _begins_line(text, match.start()):
            directive = b" ".join(match[3].split()).decode()
            if directive == "pragma once":
                found.is_once = True
            else:
                found.unfollowed.append("#" + directive)
    if _HAS not in text:
        found.looked_for = _ASKING
    elif _EMBED.search(text):
        found.unfollowed.append("__has_embed")
    return found


def _begins_line(text: bytes, position: int) -> bool:
    return not text[text.rfind(b"\n", 0, position) + 1 : position].strip(b" \t")


def _questions(content: bytes, asking: frozenset[bytes]) -> Questions:
    """What a text asks for by one of the names in `asking`.

    Each mention must be understood: a question with a literal name, a test whether the word is defined, a
    macro that hands on its argument, or the definition of the word.
    """
    asked, wrappers = [], []
    is_questionable = False
    text = _plain(content)
    mention = re.compile(rb"\b(?:" + b"|".join(map(re.escape, sorted(asking))) + rb")\b")
    for match in mention.finditer(text):
        start = text.rfind(b"\n", 0, match.start()) + 1
        before, after = text[start : match.start()], text[match.end() : _end_of_line(text, match.end())]
        literal = _LITERAL.match(after)
        wrapper = _WRAPPER.match(before)
        if literal and not _holds_parameter(before, literal[2] or b""):
            asked.append(_name(literal))
        elif wrapper and re.match(rb"[ \t]*\([ \t]*" + re.escape(wrapper[2]) + rb"[ \t]*\)", after):
            wrappers.append(wrapper[1])
        elif not _TESTED.search(before) and not _DEFINED.search(before):
            is_questionable = True
    return Questions(tuple(asked), tuple(wrappers), is_questionable)


def _holds_parameter(before: bytes, name: bytes) -> bool:
    """Whether a bracketed name in the definition of a macro is made of one of its parameters."""
    definition = _PARAMETERS.match(before)
    return definition is not None and not set(re.findall(rb"\w+", definition[1])).isdisjoint(
        re.findall(rb"\w+", name)
    )


def _end_of_line(text: bytes, position: int) -> int:
    end = text.find(b"\n", position)
    return end if end >= 0 else len(text)


def _plain(content: bytes) -> bytes:
    """Text without comments."""
    return _COMMENT.sub(lambda match: match[1] or b" ", content)


def _joined(content: bytes) -> bytes:
    """Text with lines joined: a word can stretch over two of them."""
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    count = int(b"\\" in content)
    while count:  # what has been joined can end in a backslash again
        content, count = _CONTINUED.subn(b"", content)
    return content


def expands_time(used: Collection[tuple[str, bytes]], text: bytes, is_date_fixed: bool) -> str:
    """The clause that objects to a preprocessed text with the time in it, or empty.

    `used` are (file, word); `is_date_fixed` says that SOURCE_DATE_EPOCH decides on time and date, not on
    a file's time stamp.
    """
    if is_date_fixed:
        used = [(path, word) for path, word in used if word == b"__TIMESTAMP__"]
    written = {word for word in {word for _, word in used} if _EXPANDED[word].search(text)}
    return next((f"`{path}` uses `{word.decode()}`" for path, word in used if word in written), "")


def time_words_in(words: Iterable[str]) -> list[bytes]:
    """The words for the time that a command line brings in: `-DBUILT=__DATE__`."""
    return [word for word in TIME_WORDS if any(word.decode() in argument for argument in words)]


def _name(match: re.Match[bytes]) -> str:
    return (match[1] or match[2]).decode(errors="surrogateescape")
