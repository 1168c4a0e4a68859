"""What a tool is: all that the rest of the program needs to know of one kind of stage.

What a single command line says is in its Grammar; what holds for every command of the tool is here. Knows no
tool. What does not fit together is found by the tests (tool_checks.py).
"""

from __future__ import annotations

from nvccache.files import keys
from nvccache.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nvccache.plan.stages.grammar import Grammar
    from nvccache.store.store import Store

    Argv = Sequence[str]
    Environ = Mapping[str, str]

# The tags of key components that do not depend on the tool, see stage_key.py.
TAGS = frozenset(
    {"stage", "tool", "arguments", "inputs", "files", "wrapper", "sources", "directory", "names", "dates"}
)  # fmt: skip


def always(argv: Argv) -> bool:
    """The answer for a tool of which nothing better is known."""
    return True


def never(argv: Argv) -> bool:
    return False


def _is_unnamed(argv: Argv, cwd: str, pwd: str) -> bool:
    return False


def _finds_none(argv: Argv, environ: Environ) -> list[str]:
    return []


def _no_options(argv: Argv, scratch: str) -> tuple[str, ...]:
    return ()


def _no_obstacle(argv: Argv, environ: Environ, named: Sequence[str]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One kind of stage. The defaults are for a tool of which only its command line is known.

    `grammar_of` reads a command line, or gives None for one that is not the tool's. `program` is the name
    that nvcc starts it by; empty for host compilers, which can have any.
    """

    kind: str
    grammar_of: Callable[[Argv], Grammar | None]
    program: str = ""
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
    found_files: Callable[[Argv, Environ], list[str]] = _finds_none  # which no word names, and it reads
    digest_of_named: Callable[[str], str] = keys.digest_file  # of a file named by a word; raises OSError
    # By tag, the parts of further components; raise OSError.
    key_components: Mapping[str, Callable[[Argv, Environ, Store], list[str]]] = field(default_factory=dict)
    dated_sources: Callable[[bytes], list[str]] | None = None  # named by what it reads: their dates count

    # Whether what it makes can be taken from elsewhere.
    is_found_by_meaning: bool = False  # also for text whose lines are elsewhere, unless lines matter
    lines_matter: Callable[[Argv], bool] = always  # whether its result shows where a line is
    shows_lines: bool = False  # its messages tell lines of the user's, which have gone through other stages
    names_directory: Callable[[Argv, str, str], bool] = _is_unnamed  # by cwd and PWD, what it makes may
    obstacle: Callable[[Argv, Environ, Sequence[str]], str] = _no_obstacle  # why not, if so; by files named

    # How it is run, and what becomes of its result.
    added_options: Callable[[Argv, str], Sequence[str]] = _no_options  # that nvcc does not give; by scratch
    complains: bool = False  # a failure with a message is the user's error, and leaves no product behind
    unlinks_output: bool = False  # a product of its is unlinked before it is written
