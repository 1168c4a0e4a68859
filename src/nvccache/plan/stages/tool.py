"""What a tool is: all that the rest of the program needs to know of one kind of stage.

What a single command line says is in its Grammar; what holds for every command of the tool is here. Knows no
tool. What does not fit together is found by the tests (test_check.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nvccache.files import keys
from nvccache.store.store import Store
from nvccache.values import dataclass, field

Argv = Sequence[str]

Environ = Mapping[str, str]

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
    unread: frozenset[str] = frozenset()  # roles of outputs that nothing reads
    unwritten: frozenset[str] = frozenset()  # those of them that the tool is asked for, but does not write
    sees_directory: bool = False  # the working directory reaches the outputs
    joins_directory: bool = False  # but only in front of relative names of files in preprocessed text
    sees_names: bool = False  # the base names of intermediates that are read reach the outputs
    sees_output_names: bool = False  # so do those of the outputs
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


def always(argv: Argv) -> bool:
    """The answer for a tool of which nothing better is known."""
    return True


def never(*_: object) -> bool:
    return False


def _none(*_: object) -> tuple[str, ...]:
    return ()


def _no_obstacle(*_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One kind of stage. The defaults are for a tool of which only its command line is known."""

    kind: str
    grammar_of: Callable[[Argv], Grammar | None]  # reads a command line; None for one that is not the tool's
    program: str = ""  # the name that nvcc starts it by; empty for host compilers, which can have any
    tells_version: bool = True  # when asked with --version
    is_counted: bool = True  # in `nvccache stats`
    own_roles: tuple[str, ...] = ()  # of outputs that tell a result of its from those of the tools before it

    # What it does in the pipeline.
    is_preprocessor: bool = False  # makes text with line markers, which is not kept in the store
    is_host_compiler: bool = False  # makes the object of C++ text that includes what other stages made
    links_program: bool = False  # reads what cannot be listed: it runs each time, and records lead up to it
    compiles_device_code: bool = False  # makes device code, in which a module id may be or not

    # When it runs. Its priority is what the whole takes after it, roughly, in tenths of a Thrust compile: the
    # longest way goes first. The host's side goes before, since it is the one that tells of errors first.
    priority: int = 0
    goes_last_first: bool = False  # of several of equal priority the last in nvcc's order starts first
    waits_for_passes: bool = False  # even for those that it reads nothing of
    # Bytes of memory per byte of input: measured on Thrust, CUTLASS and template-heavy units (CUDA 13.0,
    # g++ 12), and rounded up.
    memory_factor: int = 64
    is_heavy: bool = False  # whatever its input is, it may take as much as the largest tool so far
    may_run_elsewhere: bool = False  # on another machine: the tool's file says why
    # For one that may: the variables that it asks for. Where one of them is set it runs here.
    variables: tuple[str, ...] = ()
    seconds_per_mib: float = 0.0  # of input, where it never ran before: measured as `memory_factor`

    # What its key holds.
    is_located_anywhere: bool = False  # its content and what it loads stand for it, wherever it lies
    folds_mathematics: bool = False  # computes by functions of the libm that it loads
    found_files: Callable[[Argv, Environ], Sequence[str]] = _none  # which no word names, and it reads
    digest_of_named: Callable[[str], str] = keys.digest_file  # of a file named by a word; raises OSError
    # By tag, the parts of further components; raise OSError.
    key_components: Mapping[str, Callable[[Argv, Environ, Store], list[str]]] = field(default_factory=dict)
    dated_sources: Callable[[bytes], list[str]] | None = None  # named by what it reads: their dates count

    # Whether what it makes can be taken from elsewhere.
    is_found_by_meaning: bool = False  # also for text whose lines are elsewhere, unless lines matter
    lines_matter: Callable[[Argv], bool] = always  # whether its result shows where a line is
    shows_lines: bool = False  # its messages tell lines of the user's, which have gone through other stages
    names_directory: Callable[[Argv, str, str], bool] = never  # by cwd and PWD, what it makes may
    obstacle: Callable[[Argv, Environ, Sequence[str]], str] = _no_obstacle  # why not, if so; by files named

    # How it is run, and what becomes of its result.
    added_options: Callable[[Argv, str], Sequence[str]] = _none  # that nvcc does not give; by scratch
    complains: bool = False  # a failure with a message is the user's error, and leaves no product behind
    unlinks_output: bool = False  # a product of its is unlinked before it is written
