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
    from collections.abc import Iterable, Mapping

_TIME_WORDS = (b"__TIME__", b"__DATE__", b"__TIMESTAMP__")
# How each of them reads once it has been expanded; both compilers write it as a string literal.
_EXPANDED = {
    b"__TIME__": re.compile(rb'"(?:\d\d:\d\d:\d\d|\?\?:\?\?:\?\?)"'),
    b"__DATE__": re.compile(rb'"(?:[A-Z][a-z]{2} [ \d]\d \d{4}|\?\?\? \?\? \?\?\?\?)"'),
    b"__TIMESTAMP__": re.compile(
        rb'"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|\?\?\? \?\?\?[^"\n]*)"'
    ),
}
# Directives whose reading is not followed: a file's bytes, a file's date, a module.
_UNFOLLOWED = re.compile(
    rb"^[ \t]*#[ \t]*(embed\b|import\b|pragma[ \t]+GCC[ \t]+dependency\b)|\b(__has_embed)\b", re.MULTILINE
)
_UNFOLLOWED_WORDS = (b"embed", b"import", b"dependency")
_INCLUDE = re.compile(rb'#[ \t]*include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_ONCE = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
_ASKING = (b"__has_include", b"__has_include_next")
_COMMENT = re.compile(rb'/\*.*?\*/|//[^\n]*|("(?:[^"\\\n]|\\.)*")', re.DOTALL)
_LITERAL = re.compile(rb'[ \t]*\(?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_TESTED = re.compile(
    rb"(?:^[ \t]*#[ \t]*(?:ifdef|ifndef|undef)[ \t]+|\bdefined[ \t]*\(?[ \t]*)$", re.MULTILINE
)
_CONTINUED = re.compile(rb"\\[ \t]*\n")
_PARAMETERS = re.compile(rb"[ \t]*#[ \t]*define[ \t]+\w+\(([^)]*)\)")
_DEFINED = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+$", re.MULTILINE)
_WRAPPER = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)\([ \t]*(\w+)[ \t]*\)", re.MULTILINE)


@dataclass(slots=True)
class Findings:
    """What was found in one file. `asked` and `included` are names."""

    asked: list[str] = field(default_factory=list)
    included: list[str] = field(default_factory=list)
    is_once: bool = False
    time_words: list[bytes] = field(default_factory=list)
    unfollowed: list[str] = field(default_factory=list)
    questionable: list[str] = field(default_factory=list)

    @property
    def objections(self) -> list[str]:
        """Why there can be no reading of a pass with this file, clauses."""
        return self.unfollowed + self.questionable


class Survey:
    """Looks through files, each once, however many passes of a call entered it."""

    def __init__(self) -> None:
        self._files: dict[str, Findings] = {}
        self._texts: dict[str, bytes] = {}
        self._asking = set(_ASKING)  # `__has_include`, and macros that hand their argument to it

    def of(self, contents: Mapping[str, bytes]) -> dict[str, Findings]:
        """The findings in these files."""
        fresh = {path: _joined(text) for path, text in contents.items() if path not in self._files}
        self._texts |= fresh
        for path, text in fresh.items():
            self._files[path] = _findings(path, text)
        self._ask(fresh)
        return {path: self._files[path] for path in contents}

    def _ask(self, fresh: Mapping[str, bytes]) -> None:
        """Find the questions in new files; in all of them again when one defines a further way to ask."""
        known = set(self._asking)
        for path, text in fresh.items():
            if any(name in text for name in known):
                questions = _questions(path, text, self._asking)
                self._files[path].asked = questions.asked
                self._files[path].questionable = questions.questionable
        if self._asking != known:
            self._ask(self._texts)


def _findings(path: str, text: bytes) -> Findings:
    """Everything but the questions."""
    found = Findings()
    found.time_words = [word for word in _TIME_WORDS if word in text]
    if any(word in text for word in _UNFOLLOWED_WORDS):
        found.unfollowed = [f"`{path}` uses `{_shown(match)}`" for match in _UNFOLLOWED.finditer(text)]
    found.included = [_name(match) for match in _INCLUDE.finditer(text)]
    found.is_once = b"once" in text and bool(_ONCE.search(text))
    return found


def _questions(path: str, content: bytes, asking: set[bytes]) -> Findings:
    """What a file asks for by one of the names in `asking`, to which it may add macros of its own.

    Each mention must be understood: a question with a literal name, a test whether the word is defined, a
    macro that hands on its argument, or the definition of the word.
    """
    found = Findings()
    text = _plain(content)
    mention = re.compile(rb"\b(?:" + b"|".join(map(re.escape, sorted(asking))) + rb")\b")
    for match in mention.finditer(text):
        start = text.rfind(b"\n", 0, match.start()) + 1
        before, after = text[start : match.start()], text[match.end() : _end_of_line(text, match.end())]
        literal = _LITERAL.match(after)
        wrapper = _WRAPPER.match(before)
        if literal and not _holds_parameter(before, literal[2] or b""):
            found.asked.append(_name(literal))
        elif wrapper and re.match(rb"[ \t]*\([ \t]*" + re.escape(wrapper[2]) + rb"[ \t]*\)", after):
            asking.add(wrapper[1])
        elif not _TESTED.search(before) and not _DEFINED.search(before):
            found.questionable = [f"`{path}` asks `__has_include` for a name that is made by macros"]
    return found


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
    content = content.replace(b"\\\n", b"")
    return _CONTINUED.sub(b"", content) if b"\\ " in content or b"\\\t" in content else content


def expands_time(used: Iterable[tuple[str, bytes]], text: bytes, is_date_fixed: bool) -> str:
    """The clause that objects to a preprocessed text with the time in it, or empty.

    `used` are (file, word); `is_date_fixed` says that SOURCE_DATE_EPOCH decides on time and date, not on
    a file's time stamp.
    """
    for path, word in used:
        is_fixed = is_date_fixed and word != b"__TIMESTAMP__"
        if not is_fixed and _EXPANDED[word].search(text):
            return f"`{path}` uses `{word.decode()}`"
    return ""


def time_words_in(words: Iterable[str]) -> list[bytes]:
    """The words for the time that a command line brings in: `-DBUILT=__DATE__`."""
    return [word for word in _TIME_WORDS if any(word.decode() in argument for argument in words)]


def _name(match: re.Match[bytes]) -> str:
    return (match[1] or match[2]).decode(errors="surrogateescape")


def _shown(match: re.Match[bytes]) -> str:
    return " ".join(("#" + match[1].decode() if match[1] else match[2].decode()).split())
