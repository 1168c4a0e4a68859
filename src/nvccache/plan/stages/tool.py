"""The types `Tool` and `Grammar`: all that other modules need to know about one kind of stage.

A Grammar describes one command line; a Tool describes what is true of all command lines of that tool. This
module knows no particular tool; test_check.py checks that each tool's description is consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nvccache.values import dataclass, field

Argv = Sequence[str]

WRITES = "writes"
READS = "reads"
MENTIONS = "mentions"  # the name of an intermediate that an output includes
NAMES = "names"  # the name of a file that the tool does not read
PLAIN = "plain"  # any other argument

# Replaces the name of the stub file in stored results, since that name depends on the number of
# architectures. It is long and random, so that no user's source contains it.
STUB_PLACEHOLDER = "nvccache-stub-51d0c2f3a86e4b79.c"
# Names that are passed to the tools which read preprocessed text. The module id's file is one of them, since
# nvccache writes it before the tools run (module_id.py).
SOURCE_NAMES = {
    "--orig_src_file_name": "source name",
    "--orig_src_path_name": "source path",
    "--module_id_file_name": "module id",
}
GENERATES_ID = "--gen_module_id_file"  # the option that makes a tool write the file with the module id


@dataclass(frozen=True, slots=True)
class Grammar:
    """One command line. `writes`, `mentions` and `names` map an option to the role of the file it names."""

    kind: str
    writes: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)  # role -> the name that is passed instead
    ignored: frozenset[str] = frozenset()  # roles of names that do not affect any output
    unread: frozenset[str] = frozenset()  # roles of outputs that no stage reads
    sees_directory: bool = False  # outputs depend on the working directory
    joins_directory: bool = False  # the directory matters only as a prefix of relative names in the text
    sees_names: bool = False  # outputs depend on the base names of intermediates that it reads
    sees_output_names: bool = False  # outputs depend on their own names
    dates_sources: bool = False  # outputs contain the dates and sizes of sources named in the input
    dates_linked_sources: bool = False  # outputs contain dates of sources named only in their line tables
    is_cached: bool = True
    may_include: bool = False  # reads headers that no option names
    reads_source: bool = False  # compiles one of the user's sources, not preprocessed by a pass
    writes_beside: bool = False  # writes further files beside its object, see host_options.side_files
    stays_in_order: bool = False  # starts only when all stages before it in nvcc's order are done

    def use_of(self, option: str) -> tuple[str, str]:
        """How an option's value is used, and the value's role; for example, (WRITES, "ptx")."""
        for use, roles in ((WRITES, self.writes), (MENTIONS, self.mentions), (NAMES, self.names)):
            if option in roles:
                return use, roles[option]
        return PLAIN, ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One argument of a command: `prefix`, `value` and `suffix`; `use` says how the tool uses `value`."""

    prefix: str
    value: str
    use: str
    role: str
    suffix: str = ""


def pieces(argv: Sequence[str], grammar: Grammar, scratch: str) -> Iterator[Piece]:
    """The arguments after the tool's name, each with its meaning."""
    pending: tuple[str, str] | None = None
    for token in argv[1:]:
        if pending:
            yield Piece("", token, *pending)
            pending = None
            continue
        option, equals, value = token.partition("=")
        use, role = grammar.use_of(option)
        if use != PLAIN and equals:
            yield Piece(option + equals, value, use, role)
        elif use != PLAIN:
            pending = (use, role)
            yield Piece(token, "", PLAIN, "")
        elif scratch + "/" in token:
            start = token.index(scratch + "/")
            prefix, value = token[:start], token[start:]
            suffix = '"' if prefix.endswith('"') and value.endswith('"') else ""  # -DFATBINFILE="..."
            yield Piece(prefix, value.removesuffix(suffix), READS, "input", suffix)
        else:
            yield Piece(token, "", PLAIN, "")


def always(argv: Argv) -> bool:
    """The safe default for a tool: line numbers matter with any arguments."""
    return True


def never(*_: object) -> bool:
    return False


def _none(*_: object) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One kind of stage. The defaults suit a tool of which only the command line is known."""

    kind: str
    grammar_of: Callable[[Argv], Grammar | None]  # None for a command line of another tool
    program: str = ""  # the program that nvcc starts; empty for host compilers, which can have any name
    is_counted: bool = True  # in `nvccache stats`

    # What the tool does in the pipeline.
    is_preprocessor: bool = False  # writes text with line markers, which is not stored
    is_host_compiler: bool = False  # compiles C++ text, which includes outputs of other stages, to an object

    # When the tool runs. `priority` is how much of a Thrust compile remains when the stage starts, roughly
    # in tenths, so that the critical path comes first. Stages for the host come before all others, since they
    # find errors sooner.
    priority: int = 0
    starts_in_reverse: bool = False  # among equal priorities, the last in nvcc's order starts first
    waits_for_passes: bool = False  # starts after all passes, even those whose output it does not read
    # Bytes of memory per byte of input: measured on Thrust, CUTLASS and template-heavy TUs (CUDA 13.0, g++
    # 12), and rounded up.
    memory_factor: int = 64
    is_heavy: bool = False  # may need as much memory as the largest tool so far, for any input
    may_run_elsewhere: bool = False  # may run on another machine; the tool's module says why
    # The variables that a tool with `may_run_elsewhere` queries. If one is set, the tool runs here.
    variables: tuple[str, ...] = ()

    # Its key.
    is_located_anywhere: bool = False  # the key has the program's content, but not its path
    folds_mathematics: bool = False  # evaluates constant expressions with functions of the libm that it loads
    dated_sources: Callable[[bytes], list[str]] | None = None  # files whose dates affect its outputs

    # Whether its results can be reused.
    is_found_by_meaning: bool = False  # a result is also used for text that differs only in line numbers
    lines_matter: Callable[[Argv], bool] = always  # whether its result depends on line numbers
    shows_lines: bool = False  # its messages contain line numbers; a reused input may have outdated ones
    names_directory: Callable[[Argv, str, str], bool] = never  # (argv, cwd, PWD): outputs may name cwd

    # Running it.
    added_options: Callable[[Argv, str], Sequence[str]] = _none  # (argv, scratch): options that nvccache adds
    reports_user_errors: bool = False  # a failure with a message is the source's fault, and leaves no product
    unlinks_output: bool = False  # it unlinks an existing product before it writes the new one
