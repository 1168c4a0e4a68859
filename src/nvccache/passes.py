"""What a preprocessor pass tells: which files it entered, and whether more went into its text than files.

Facts about a pass are kept in its stage entry (entries.py), since the text itself is not: most passes
that hit are read by nobody.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from nvccache import line_readers, meaning
from nvccache.markers import Entered, entered_files, listed_files, without_markers

# Each `asm` and the string literals behind it; the assembler takes directives in capitals, too.
_BLANK = rb'(?:\s|# \d+ "[^"\n]*"[ 0-9]*\n)*'
_QUALIFIERS = (
    rb"(?:" + _BLANK + rb"(?:volatile|__volatile__|__volatile|goto|inline|__inline__|__inline|const))*"
)
# To begin with one plain letter, and a rare one, makes a search of megabytes fast; so does `(?<=asm)`.
_ASSEMBLER = re.compile(
    rb"m(?<=asm)(?:(?<=\basm)|(?<=\b__asm)(?:__)?)\b" + _QUALIFIERS + _BLANK + rb"\(" + _BLANK
)
_LITERAL = re.compile(
    rb'(?:L|u8|u|U)?(?:R"(?P<mark>[^()\\\s"]{0,16})\((?P<raw>.*?)\)(?P=mark)"|"(?P<plain>(?:[^"\\]|\\.)*)")'
    + _BLANK,
    re.DOTALL,
)
_CODED = re.compile(rb"\\(?:[0-7xuUN]|\n)")
# Loops and macros of the assembler can put a directive together from parts.
_READS = re.compile(rb"\.\s*(?:incbin|include|macro|irpc?|altmacro)\b", re.IGNORECASE)
_PLAIN_NAME = re.compile(rb"[ !#-\[\]-~]+")  # it stands in markers as it is
_DEFINITION = re.compile(rb"^#(?:define|undef) [^\n]*", re.MULTILINE)
# `.incbin`, `".include` and `\t.include` wherever they stand. With IGNORECASE it would be tried at every
# byte and not only at dots.
_READS_ANYWHERE = re.compile(
    rb'\.[iI][nN][cC](?:[bB][iI][nN]|(?:(?<="....)|(?<=\\[tT]....))[lL][uU][dD][eE])', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Pass:
    """Facts about one pass.

    `entered` are its files, the source first, and `listed` what a dependency file lists, see markers.py:
    the same unless `#line` makes up names; `reads_in_assembler` says that its text may make the assembler
    read files; `free_of` is the base directory whose path the text does not contain or ask for; `meaning` is
    the digest of what it says apart from lines, or empty (meaning.py).
    """

    entered: tuple[Entered, ...]
    reads_in_assembler: bool
    free_of: str
    meaning: str = ""
    listed: tuple[tuple[bytes, bool], ...] = ()

    def facts(self) -> dict[str, object]:
        """The form in which an entry keeps them."""
        rows = [
            [_text(file.name), file.is_system, [_text(name) for name in file.includers]]
            for file in self.entered
        ]
        is_same = self.listed == _listed_by(self.entered)
        return {
            "entered": rows,
            "listed": None if is_same else [[_text(name), is_system] for name, is_system in self.listed],
            "reads_in_assembler": self.reads_in_assembler,
            "free_of": self.free_of,
            "meaning": self.meaning,
        }


def of_text(preprocessed: bytes, base: str, is_host: bool) -> Pass:
    """The facts about a pass from what it wrote; `base` is the base directory in force, or empty.

    Only the host's assembler reads files; ptxas has no directive for it.
    """
    said = meaning.digest_of(preprocessed)
    free_of = base if base and not _may_use(base, preprocessed, is_understood=said != "") else ""
    reads = is_host and reads_in_assembler(preprocessed)
    listed = tuple(listed_files(preprocessed))
    return Pass(tuple(entered_files(preprocessed)), reads, free_of, said, listed)


def _may_use(base: str, text: bytes, *, is_understood: bool) -> bool:
    """Whether what is made of a text may depend on the path of the base directory.

    The names of files, which stand in the markers, can be asked for. `is_understood` says that no text of the
    user's asks for lines, by which it would ask for names; a system header may do so in its functions.
    """
    needle = os.fsencode(base)
    if needle in without_markers(text):
        return True
    if not line_readers.are_in(text):
        return False
    if not _PLAIN_NAME.fullmatch(needle):
        return True
    if not is_understood:
        return needle in text
    of_system = rb'\n# \d+ "[^"\n]*' + re.escape(needle) + rb'[^"\n]*" [12] 3'
    return re.search(of_system, text) is not None


def of_facts(facts: dict[str, object]) -> Pass:
    """The inverse of `Pass.facts`; raises ValueError, KeyError or TypeError."""
    rows = facts["entered"]
    if not isinstance(rows, list):
        raise TypeError("the files are no list")
    entered = tuple(
        Entered(_bytes(name), bool(is_system), tuple(_bytes(includer) for includer in includers))
        for name, is_system, includers in rows
    )
    listed = _listed_by(entered)
    if facts["listed"] is not None:
        if not isinstance(facts["listed"], list):
            raise TypeError("what is listed is no list")
        listed = tuple((_bytes(name), bool(is_system)) for name, is_system in facts["listed"])
    reads = bool(facts["reads_in_assembler"])
    return Pass(entered, reads, str(facts["free_of"]), str(facts["meaning"]), listed)


def _listed_by(entered: tuple[Entered, ...]) -> tuple[tuple[bytes, bool], ...]:
    return tuple((file.name, file.is_system) for file in entered)


def reads_in_assembler(text: bytes) -> bool:
    """Whether assembly in the text may name a file: `.incbin`, also over split or coded literals."""
    code = _without_macros(text)
    if any(_literals_read(code, statement.end()) for statement in _ASSEMBLER.finditer(code)):
        return True
    # In case the literals were not where they were looked for.
    return _READS_ANYWHERE.search(text) is not None


def _without_macros(text: bytes) -> bytes:
    """The text without the definitions that -g3 adds: what is used of them stands there expanded.

    Raw strings apart, no line of preprocessed text that begins so is part of anything else.
    """
    return text if b"\n#define " not in text or b'R"' in text else _DEFINITION.sub(b"", text)


def _literals_read(text: bytes, start: int) -> bool:
    """Whether the string literals from here on may name a file, or are none."""
    assembly = b""
    literal = _LITERAL.match(text, start)
    if not literal:
        return True  # text made by an expression (C++26), or by what is not understood
    while literal:
        if literal["plain"] is not None and _CODED.search(literal["plain"].replace(b"\\\\", b"")):
            return True
        assembly += literal["raw"] or literal["plain"] or b""
        literal = _LITERAL.match(text, literal.end())
    return _READS.search(assembly) is not None


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _bytes(name: object) -> bytes:
    return str(name).encode("latin-1")
