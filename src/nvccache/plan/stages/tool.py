"""The types `Tool` and `Grammar`: all that other modules need to know about one kind of stage.

A Grammar describes one command line, a Tool what is true of all its command lines. Knows no particular tool.
test_check.py finds contradictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nvccache.values import dataclass, field

Argv = Sequence[str]

WRITES = "writes"
READS = "reads"
MENTIONS = "mentions"  # copied into an output, which thereby includes the intermediate of that name
NAMES = "names"  # only a name: no such file is read
PLAIN = "plain"  # any other argument

# Replaces the name of the stub file in stored results, since that name depends on the number of
# architectures. Long and random enough not to occur in a user's source.
STUB_PLACEHOLDER = "nvccache-stub-51d0c2f3a86e4b79.c"
# For tools that read a source's text. The file with the module id is written before they run, see
# module_id.py, so it is only a name to them.
SOURCE_NAMES = {
    "--orig_src_file_name": "source name",
    "--orig_src_path_name": "source path",
    "--module_id_file_name": "module id",
}
GENERATES_ID = "--gen_module_id_file"  # the option that makes a tool write that file instead


@dataclass(frozen=True, slots=True)
class Grammar:
    """One command line. Each maps an option to the role of the file that it names."""

    kind: str
    writes: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)  # role -> what is passed instead
    ignored: frozenset[str] = frozenset()  # roles of names that do not affect any output
    unread: frozenset[str] = frozenset()  # roles of outputs that no stage reads
    sees_directory: bool = False  # outputs depend on the working directory
    joins_directory: bool = False  # but only as a prefix of relative file names in preprocessed text
    sees_names: bool = False  # outputs depend on the base names of the intermediates read
    sees_output_names: bool = False  # outputs depend on their own names
    dates_sources: bool = False  # outputs contain date and size of the sources that the input names
    dates_linked_sources: bool = False  # the same for sources that only line information in the output names
    is_cached: bool = True
    may_include: bool = False  # reads headers, which no option names
    reads_source: bool = False  # compiles a source of the user, without a pass before
    writes_beside: bool = False  # writes further files beside its object, see host_options.side_files
    stays_in_order: bool = False  # starts only when all stages before it in nvcc's order are done

    def use_of(self, option: str) -> tuple[str, str]:
        """How an option's value is used, and the value's role: (WRITES, "ptx")."""
        for use, roles in (
            (WRITES, self.writes),
            (MENTIONS, self.mentions),
            (NAMES, self.names),
        ):
            if option in roles:
                return use, roles[option]
        return PLAIN, ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One argument of a command: literal `prefix`, then `value`, whose meaning is `use`, then `suffix`."""

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
    """The safe default for a tool."""
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

    # Its function in the pipeline.
    is_preprocessor: bool = False  # writes text with line markers, which is not stored
    is_host_compiler: bool = False  # compiles C++ text that includes the outputs of other stages to an object

    # When it runs. The priority is roughly the time from its start to the end of a Thrust compile, in tenths:
    # the critical path comes first. The host's side precedes the device's, since it finds errors sooner.
    priority: int = 0
    starts_in_reverse: bool = False  # among equal priorities, the last in nvcc's order starts first
    waits_for_passes: bool = False  # even those whose output it does not read
    # Bytes of memory per byte of input: measured on Thrust, CUTLASS and template-heavy TUs (CUDA 13.0, g++
    # 12), and rounded up.
    memory_factor: int = 64
    is_heavy: bool = False  # may take as much memory for any input as the largest tool so far
    may_run_elsewhere: bool = False  # on another machine; the tool's module gives the reasons
    # If it may: the environment variables that it queries. If one of them is set, it runs here.
    variables: tuple[str, ...] = ()

    # Its key.
    is_located_anywhere: bool = False  # identified by content, not by path
    folds_mathematics: bool = False  # evaluates functions of the libm that it loads
    dated_sources: Callable[[bytes], list[str]] | None = None  # sources named in its input whose dates count

    # Whether its results can be reused.
    is_found_by_meaning: bool = False  # also for text with other line numbers, unless lines matter
    lines_matter: Callable[[Argv], bool] = always  # whether its result depends on line numbers
    shows_lines: bool = False  # its messages quote the source, whose lines other stages may have moved
    names_directory: Callable[[Argv, str, str], bool] = never  # (argv, cwd, PWD): outputs may contain it

    # Running it.
    added_options: Callable[[Argv, str], Sequence[str]] = _none  # (argv, scratch): options that we add
    reports_user_errors: bool = False  # a failure with a message is the user's error; no product is left
    unlinks_output: bool = False  # it unlinks an existing product before writing
