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
class Survey:
    """What was found in some files; paths are as the line markers have them.

    `asked` and `included` are (file that asks, name), `time_words` (file, word), `objections` sentences.
    """

    asked: list[tuple[str, str]] = field(default_factory=list)
    included: list[tuple[str, str]] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    time_words: list[tuple[str, bytes]] = field(default_factory=list)
    objections: list[str] = field(default_factory=list)


def survey(contents: Mapping[str, bytes], is_system: Mapping[str, bool]) -> Survey:
    """Look through files. Includes are listed for those of the user alone: the system's find their own."""
    found = Survey()
    joined = {path: _join_lines(content) for path, content in contents.items()}
    asking = {path: content for path, content in joined.items() if b"__has_include" in content}
    wrappers = _wrappers(asking.values())
    calls = _calls(wrappers)
    for path, content in joined.items():
        for word in _TIME_WORDS:
            if word in content:
                found.time_words.append((path, word))
        if any(word in content for word in _UNFOLLOWED_WORDS):
            found.objections += [
                f"`{path}` uses `{_shown(match)}`" for match in _UNFOLLOWED.finditer(content)
            ]
        if not is_system.get(path):
            found.included += [(path, _name(match)) for match in _INCLUDE.finditer(content)]
            if _ONCE.search(content):
                found.once.add(path)
        if path in asking:
            _collect(path, content, _ASK, wrappers, found)
            found.asked += [(path, _name(match)) for match in _BARE_ASK.finditer(content)]
        if calls and any(name in content for name in wrappers):
            _collect(path, content, calls, wrappers, found)
    return found


def expands_time(found: Survey, text: bytes, is_date_fixed: bool) -> str:
    """The sentence that objects to a preprocessed text with the time in it, or empty.

    `is_date_fixed` says that SOURCE_DATE_EPOCH decides on time and date; not on a file's time stamp.
    """
    for path, word in found.time_words:
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
    path: str, content: bytes, pattern: re.Pattern[bytes], wrappers: Mapping[bytes, bytes], found: Survey
) -> None:
    """Take down the names asked for; a name that macros make cannot be known."""
    for match in pattern.finditer(content):
        computed = match[3]
        if computed is None:
            found.asked.append((path, _name(match)))
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
