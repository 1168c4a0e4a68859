"""How a tool's command line is read: which options name files it writes, reads, or merely mentions.

Everything is read by name: an option that is not listed is an argument like any other, and goes into
the key as it stands. Knows no tool.
"""

from __future__ import annotations

from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WRITES = "writes"
READS = "reads"
MENTIONS = "mentions"  # copied into an output, which thereby includes the intermediate of that name
NAMES = "names"  # a name only: nothing of that name is read
WORD = "word"

# Stands for the name of the stub file in what is stored, since that name differs with the number of
# architectures. The length and the digits keep it from meeting anything in a user's source.
STUB_PLACEHOLDER = "nvccache-stub-51d0c2f3a86e4b79.c"


@dataclass(frozen=True, slots=True)
class Grammar:
    """What one command line says. The mappings go from option to the role of the file it names."""

    kind: str
    writes: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)  # role -> what is passed instead
    ignored: frozenset[str] = frozenset()  # roles whose value does not reach any output
    told: frozenset[str] = frozenset()  # roles of names that reach messages, and an id by their base name
    unread: frozenset[str] = frozenset()  # roles of outputs that nothing reads
    unwritten: frozenset[str] = frozenset()  # those of them that the tool is asked for, but does not write
    sees_directory: bool = False  # the working directory reaches the outputs
    joins_directory: bool = False  # but only in front of relative names of files in preprocessed text
    sees_names: bool = False  # the base names of intermediates that are read reach the outputs
    sees_output_names: bool = False  # so do, beside them, those of the outputs
    dates_sources: bool = False  # date and size of the sources that its input names reach the outputs
    dates_what_it_names: bool = False  # as above, of sources that only its outputs name; see line_table.py
    runs_programs: bool = False  # others than its own: then its content does not stand for what it does
    is_cached: bool = True
    may_include: bool = False  # reads headers again, which no option names
    stays_in_order: bool = False  # runs when all before it in nvcc's order is done

    def use_of(self, option: str) -> tuple[str, str]:
        """What an option's value is, and its role: (WRITES, "ptx")."""
        for use, roles in (
            (WRITES, self.writes),
            (READS, self.reads),
            (MENTIONS, self.mentions),
            (NAMES, self.names),
        ):
            if option in roles:
                return use, roles[option]
        return WORD, ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One word of a command: `prefix` as it stands, then `value`, whose meaning is `use`, then `suffix`."""

    prefix: str
    value: str
    use: str
    role: str
    suffix: str = ""


def pieces(argv: Sequence[str], grammar: Grammar, scratch: str) -> Iterator[Piece]:
    """The words after the tool's name, each with its meaning."""
    pending: tuple[str, str] | None = None
    for word in argv[1:]:
        if pending:
            yield Piece("", word, *pending)
            pending = None
            continue
        option, equals, value = word.partition("=")
        use, role = grammar.use_of(option)
        if use != WORD and equals:
            yield Piece(option + equals, value, use, role)
        elif use != WORD:
            pending = (use, role)
            yield Piece(word, "", WORD, "")
        elif scratch + "/" in word:
            start = word.index(scratch + "/")
            prefix, value = word[:start], word[start:]
            suffix = '"' if prefix.endswith('"') and value.endswith('"') else ""  # -DFATBINFILE="..."
            yield Piece(prefix, value.removesuffix(suffix), READS, "input", suffix)
        else:
            yield Piece(word, "", WORD, "")
