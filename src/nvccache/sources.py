"""What the text of sources and headers says about reading that line markers do not tell.

Line markers name the files that were entered. They are silent about names that `__has_include` asked
for, about includes that were skipped because the file had been read before, and about words whose
meaning is the time of day. All of these are looked for in the text itself, comments and branches not
taken included: that is never too little.
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
_ASK = re.compile(rb'\b__has_include(?:_next)?[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^)\n]*))')
_BARE_ASK = re.compile(rb'\b__has_include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_WRAPPER = re.compile(rb"#[ \t]*define[ \t]+(\w+)\([ \t]*(\w+)[ \t]*\)([^\n]*)")


@dataclass(slots=True)
class Findings:
    """What was found in one file. `asked` and `included` are names, `objections` clauses."""

    asked: list[str] = field(default_factory=list)
    included: list[str] = field(default_factory=list)
    is_once: bool = False
    time_words: list[bytes] = field(default_factory=list)
    objections: list[str] = field(default_factory=list)


class Survey:
    """Looks through files, each once, however many passes of a call entered it."""

    def __init__(self) -> None:
        self._files: dict[str, Findings] = {}
        self._joined: dict[str, bytes] = {}
        self._asking: dict[str, bytes] = {}
        self._wrappers: dict[bytes, bytes] = {}

    def of(self, contents: Mapping[str, bytes]) -> dict[str, Findings]:
        """The findings in these files."""
        fresh = {path: _join_lines(text) for path, text in contents.items() if path not in self._files}
        self._joined |= fresh
        self._asking |= {path: text for path, text in fresh.items() if b"__has_include" in text}
        for path, text in fresh.items():
            self._files[path] = _findings(path, text)
        known = set(self._wrappers)
        self._wrappers = _wrappers(self._asking.values())
        calls = _calls(self._wrappers)
        for path, text in (fresh if known == set(self._wrappers) else self._joined).items():
            if path in self._asking and path in fresh:
                _collect(path, text, _ASK, self._wrappers, self._files[path])
            if calls and any(name in text for name in self._wrappers):
                _collect(path, text, calls, self._wrappers, self._files[path])
        return {path: self._files[path] for path in contents}


def _findings(path: str, text: bytes) -> Findings:
    """Everything but questions by way of macros."""
    found = Findings()
    found.time_words = [word for word in _TIME_WORDS if word in text]
    if any(word in text for word in _UNFOLLOWED_WORDS):
        found.objections = [f"`{path}` uses `{_shown(match)}`" for match in _UNFOLLOWED.finditer(text)]
    found.included = [_name(match) for match in _INCLUDE.finditer(text)]
    found.is_once = b"once" in text and bool(_ONCE.search(text))
    if b"__has_include" in text:
        found.asked = [_name(match) for match in _BARE_ASK.finditer(text)]
    return found


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


def _join_lines(content: bytes) -> bytes:
    return content.replace(b"\\\n", b" ") if b"\\\n" in content and b"__has_include" in content else content


def _wrappers(contents: Iterable[bytes]) -> dict[bytes, bytes]:
    """Macros that hand their argument to `__has_include`: name -> parameter."""
    definitions = [match.groups() for content in contents for match in _WRAPPER.finditer(content)]
    wrappers: dict[bytes, bytes] = {}
    grew = True
    while grew:
        grew = False
        for name, parameter, body in definitions:
            asked = _ASK if not wrappers else re.compile(_ASK.pattern + b"|" + _calls_pattern(wrappers))
            arguments = [group for match in asked.finditer(body) for group in match.groups()]
            if name not in wrappers and parameter in [part.strip() for part in arguments if part]:
                wrappers[name] = parameter
                grew = True
    return wrappers


def _calls_pattern(wrappers: Iterable[bytes]) -> bytes:
    names = b"|".join(re.escape(name) for name in wrappers)
    return rb"\b(?:" + names + rb')[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^)\n]*))'


def _calls(wrappers: Mapping[bytes, bytes]) -> re.Pattern[bytes] | None:
    return re.compile(_calls_pattern(wrappers)) if wrappers else None


def _collect(
    path: str, content: bytes, pattern: re.Pattern[bytes], wrappers: Mapping[bytes, bytes], found: Findings
) -> None:
    """Take down the names asked for; a name that macros make cannot be known."""
    for match in pattern.finditer(content):
        computed = match[3]
        if computed is None:
            found.asked.append(_name(match))
        elif not _defines_wrapper(content, match.start(), wrappers):
            found.objections.append(f"`{path}` asks `__has_include` for a name that is made by macros")


def _defines_wrapper(content: bytes, position: int, wrappers: Mapping[bytes, bytes]) -> bool:
    """Whether this is where a wrapper is defined: what it asks for is said where it is used."""
    definition = _WRAPPER.match(content[content.rfind(b"\n", 0, position) + 1 :].lstrip()[:4096])
    return definition is not None and definition[1] in wrappers


def _name(match: re.Match[bytes]) -> str:
    return (match[1] or match[2]).decode(errors="surrogateescape")


def _shown(match: re.Match[bytes]) -> str:
    return " ".join(("#" + match[1].decode() if match[1] else match[2].decode()).split())
