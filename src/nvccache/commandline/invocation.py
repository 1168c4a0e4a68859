"""What a call asks for: from nvcc's arguments and environment to an Invocation, or to a Bypass.

Owns the decision which calls are left to nvcc on sight. Knows nothing of the stages: they are read from
nvcc's own dryrun of the same arguments, so what is found here steers the cache but makes no command.
How options of one phase combine was learnt from `nvcc --dryrun` of CUDA 11.2 to 13.5.
"""

from __future__ import annotations

import os
import stat

from nvccache import environment
from nvccache.commandline.host_options import (
    flatten,
    uncacheable_device_option,
    uncacheable_host_option,
    writes_beside_object,
)
from nvccache.commandline.options import ALIASES, ARITIES, OPTIONAL
from nvccache.commandline.tokens import (
    FORWARDED,
    INPUT,
    Argument,
    UnknownOption,
    last_value,
    resolve,
    scan,
    split_file,
    split_list,
    split_variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Highest first: with `-c -ptx` nvcc writes PTX, with `-cubin -ptx` too, with `-dc -cuda` a .cu.cpp.ii.
MODES = tuple(
    """
    ltoir optix-ir tilebc tilecubin tilefatbin ptx cubin fatbin cuda device-c device-w compile
    """.split()
)
LINKS = ("device-link", "link")  # what a call does without one of these
# Calls that nvcc answers and that compile nothing. Each mode is also the reason for which it may be left to
# nvcc (outcomes.REASONS). Highest first: with `--version -M` nvcc tells its version, with `-M -E` it lists.
OPTIONS_OF_QUERIES = {
    "information": ("version", "help", "list-gpu-code", "list-gpu-arch"),
    "preprocess_only": ("preprocess", "generate-dependencies", "generate-nonsystem-dependencies"),
}
QUERIES = tuple(OPTIONS_OF_QUERIES)
ASK_FOR_DEPENDENCIES = (
    "generate-dependencies-with-compile",
    "generate-nonsystem-dependencies-with-compile",
)
_OF_LINKS = frozenset({"cubin", "fatbin"})  # what -dlink may make; beside other modes it has no effect

# Reason -> the options that mean it, most telling reason first.
_BYPASSING = (
    # Its commands name temporary files: who runs them relies on names that nvcc tells nobody else.
    ("information", ("dryrun",)),
    ("verbose", ("verbose", "verbose2")),
    ("time_report", ("time", "fdevice-time-trace")),
    ("keeps_intermediates", ("objdir-as-tempdir",)),
    ("run", ("run", "clean-targets")),
    ("library", ("lib",)),
)
_LATE_BYPASSING = (
    ("source_in_ptx", ("source-in-ptx",)),
    ("device_tool_files", ("apply-controls",)),
)

# Whose content is not the same when it is read again.
_OF_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# They say how nvcc runs, not what it makes; but they scatter its dryrun, or break it (CUDA 12.4). The last
# three are in our dryrun already, and nvcc would warn of another directory.
_REMOVED = frozenset(["jobserver", "threads", "time", "keep", "save-temps", "keep-dir"])
_MAX_OPTION_FILE = 1 << 20
_MAX_NESTING = 8


class Bypass:
    """The call is left to nvcc."""

    __slots__ = ("detail", "reason")

    reason: str  # a key of outcomes.REASONS
    detail: str  # the word that decided, for the log

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail


class Dependencies:
    """The dependency file that -MD or -MMD asks for."""

    targets: tuple[str, ...]  # the last -MT, verbatim, none without it; -odir goes in front of it
    output: str  # the last -MF, or empty
    phony: bool  # -MP
    omit_system: bool  # -MMD, also beside -MD

    def __init__(self, arguments: Sequence[Argument], options: frozenset[str]) -> None:
        target = last_value(arguments, "dependency-target-name")
        self.targets = () if target is None else (target,)
        self.output = last_value(arguments, "dependency-output") or ""
        self.phony = "generate-dependency-targets" in options
        self.omit_system = "generate-nonsystem-dependencies-with-compile" in options


class Invocation:
    """A call that compiles, or a query."""

    arguments: tuple[Argument, ...]  # all of them, those of variables and option files in their place
    mode: str  # one of MODES, LINKS or QUERIES
    inputs: tuple[str, ...]
    output: str  # -o as typed, or empty; of a query the file that it writes
    keeps_in: str | None  # where -keep puts intermediate files: a directory with its slash, or empty for here
    output_directory: str  # -odir as typed, or empty
    options: frozenset[str]  # canonical names in force; without those set to false
    option_files: tuple[str, ...]  # --options-file files, which the call reads
    host_flags: tuple[str, ...]  # what -Xcompiler and forwarding give to the host compiler
    dryrun_arguments: tuple[str, ...]  # the caller's arguments, for `nvcc --dryrun`
    replaces_variables: bool  # whether these hold those of NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS, too
    threads: int  # -t; 0: not given, or as many as there are CPUs
    dependencies: Dependencies | None

    @property
    def is_query(self) -> bool:
        return self.mode in QUERIES


class _Words:
    """All arguments of a call, and those among them that stand in no option file."""

    arguments: list[Argument]
    own: list[Argument]  # on the command line itself
    in_variables: tuple[list[Argument], list[Argument]]  # before those and after them
    option_files: list[str]


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Invocation | Bypass:
    """What this call asks for; `arguments` come without the compiler."""
    argv = _collect(arguments, environ)
    if isinstance(argv, Bypass):
        return argv
    options = _options(argv.arguments)
    query = next((mode for mode, names in OPTIONS_OF_QUERIES.items() if not options.isdisjoint(names)), "")
    if query != "information" and not _inputs(argv.arguments):
        return Bypass("information", "no input file")
    resolved = resolve(argv.arguments)
    if isinstance(resolved, UnknownOption):
        return Bypass("information" if query == "information" else "unknown_option", resolved.word)
    bypass = _bypass_of(_BYPASSING, options)
    if bypass:
        return bypass
    if query:
        return (
            _bypass_of([(query, ("keep",))], options)
            or _files(argv.arguments)
            or _environment(environ)
            or _irremovable(argv, environ)
            or _build(argv, options, query, ())
        )
    mode = _mode(argv.arguments, options)
    forwarded = [argument.tokens[0] for argument in argv.arguments if argument.name == FORWARDED]
    host_flags = flatten(argv.arguments, forwarded)
    if host_flags is None:
        return Bypass("shell_expansion", "-Xcompiler")
    return (
        _files(argv.arguments)
        or _tools(argv.arguments, host_flags, mode)
        or _bypass_of(_LATE_BYPASSING, options)
        or _environment(environ)
        or _irremovable(argv, environ)
        or _build(argv, options, mode, host_flags)
    )


def _build(argv: _Words, options: frozenset[str], mode: str, host_flags: tuple[str, ...]) -> Invocation:
    invocation = Invocation()
    invocation.arguments = tuple(argv.arguments)
    invocation.mode = mode
    invocation.inputs = _inputs(argv.arguments)
    invocation.output = _output(argv.arguments, mode)
    invocation.output_directory = last_value(argv.arguments, "output-directory") or ""
    invocation.options = options
    invocation.option_files = tuple(argv.option_files)
    invocation.host_flags = host_flags
    invocation.keeps_in = _kept_in(argv.arguments) if "keep" in options else None
    before, after = argv.in_variables
    spelled = [*before, *argv.own, *after]
    invocation.replaces_variables = any(argument.name in _REMOVED for argument in (*before, *after))
    kept = spelled if invocation.replaces_variables else argv.own
    kept = [argument for argument in kept if argument.name not in _REMOVED]
    invocation.dryrun_arguments = tuple(token for argument in kept for token in argument.tokens)
    invocation.threads = int(last_value(spelled, "threads") or 0)
    asked = not options.isdisjoint(ASK_FOR_DEPENDENCIES)
    is_compile = asked and mode not in QUERIES  # which write no file beside their answer
    invocation.dependencies = Dependencies(argv.arguments, options) if is_compile else None
    return invocation


def _output(arguments: Sequence[Argument], mode: str) -> str:
    """The file that the call names for what it makes, or empty; with `-M -MF a -o b` that is `b`."""
    options = {"information": (), "preprocess_only": ("output-file", "dependency-output")}
    named = (last_value(arguments, name) for name in options.get(mode, ("output-file",)))
    return next(filter(None, named), "")


def _kept_in(arguments: Sequence[Argument]) -> str:
    """What nvcc puts before the names of intermediate files: the directory as typed, with one slash."""
    directory = last_value(arguments, "keep-dir") or ""
    return directory.rstrip("/") + "/" if directory else ""


def _collect(arguments: Sequence[str], environ: Mapping[str, str]) -> _Words | Bypass:
    argv = _Words()
    argv.arguments, argv.option_files = [], []
    before = split_variable(environ.get("NVCC_PREPEND_FLAGS", ""))
    after = split_variable(environ.get("NVCC_APPEND_FLAGS", ""))
    if before is None or after is None:
        return Bypass("unreadable_environment", "NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS")
    found: list[list[Argument]] = []
    for part, following in ((before, [*arguments, *after]), (arguments, after), (after, [])):
        scanned = scan(part)
        if isinstance(scanned, UnknownOption):
            # nvcc answers --version and --help before it minds the other words.
            asks = any(word in ("--version", "-V", "--help", "-h") for word in part)
            return Bypass("information" if asks else "unknown_option", scanned.word)
        if following and _lacks_value(scanned):
            return Bypass("unknown_option", scanned[-1].tokens[0])
        found.append(scanned)
        bypass = _expand(scanned, argv, 0)
        if bypass:
            return bypass
    argv.own, argv.in_variables = found[1], (found[0], found[2])
    return argv


def _lacks_value(scanned: list[Argument]) -> bool:
    """Whether the last option would take its value from words behind these: nvcc reads all of them as one."""
    return bool(scanned) and ARITIES.get(scanned[-1].name) == OPTIONAL and scanned[-1].value is None


def _expand(scanned: list[Argument], argv: _Words, depth: int) -> Bypass | None:
    """Append the arguments, each option file followed by what it holds, as nvcc reads it: in place."""
    for argument in scanned:
        argv.arguments.append(argument)
        if argument.name == "options-file":
            paths = split_list(argument.value or "", escapes=False)
            if not paths or depth == _MAX_NESTING or '"' in (argument.value or ""):
                return Bypass("unreadable_option_file", argument.tokens[0])
            for path in paths:
                bypass = _expand_file(path, argv, depth)
                if bypass:
                    return bypass
    return None


def _expand_file(path: str, argv: _Words, depth: int) -> Bypass | None:
    if not os.path.isfile(path):
        return Bypass("unreadable_option_file", path)  # what is read from a pipe, nvcc would miss
    try:
        with open(path, "rb") as stream:
            content = stream.read(_MAX_OPTION_FILE + 1)
    except OSError:
        return Bypass("unreadable_option_file", path)
    found = split_file(os.fsdecode(content))
    if found is None or len(content) > _MAX_OPTION_FILE:
        return Bypass("unreadable_option_file", path)
    scanned = scan(found)
    if isinstance(scanned, UnknownOption):
        return Bypass("unknown_option", scanned.word)
    if _lacks_value(scanned):
        return Bypass("unknown_option", scanned[-1].tokens[0])
    argv.option_files.append(path)
    return _expand(scanned, argv, depth + 1)


def _options(arguments: Sequence[Argument]) -> frozenset[str]:
    last = {argument.name: argument.value for argument in arguments}
    names = {ALIASES.get(name, name) for name, value in last.items() if value != "false"}
    if "device-c" in names:
        names.add("relocatable-device-code")  # nvcc's help: -dc is `-rdc=true -c`
    return frozenset(names - {INPUT, FORWARDED})


def _inputs(arguments: Sequence[Argument]) -> tuple[str, ...]:
    return tuple(argument.tokens[0] for argument in arguments if argument.name == INPUT)


def _bypass_of(bypassing: Sequence[tuple[str, tuple[str, ...]]], options: frozenset[str]) -> Bypass | None:
    for reason, names in bypassing:
        for name in names:
            if name in options:
                return Bypass(reason, f"--{name}")
    return None


def _environment(environ: Mapping[str, str]) -> Bypass | None:
    for variable in environment.OF_SIDE_OUTPUTS:
        if variable in environ:  # GCC heeds some of them even when they are empty
            return Bypass("environment_side_output", variable)
    return None


def _mode(arguments: Sequence[Argument], options: frozenset[str]) -> str:
    modes = [mode for mode in MODES if mode in options]
    if "device-link" in options and _OF_LINKS.issuperset(modes):
        return "device-link"
    if modes == ["ltoir"] and any(argument.tokens == ("-ltoir",) for argument in arguments):
        return "link"  # before CUDA 13 it names a library, and the call links
    return modes[0] if modes else "link"


def _files(arguments: Sequence[Argument]) -> Bypass | None:
    for path in _inputs(arguments):
        if _is_stream(path):
            return Bypass("standard_input", path)  # it could not be read again, should nvcc have to
    for name in ("output-file", "dependency-output"):
        value = last_value(arguments, name)
        if value is not None and _is_stream(value):
            return Bypass("standard_output", value)
        if value == "":
            return Bypass("unwritable_output", f"--{name}")
    for argument in arguments:
        for token in argument.tokens:
            if any(name in token for name in _OF_DESCRIPTORS):
                return Bypass("standard_input", token)  # several passes would read what is there once
    return None


def _is_stream(path: str) -> bool:
    """Whether a name is not that of a file, there or not: of a device, or of what a process has open."""
    if not path.startswith(("/dev/", "/proc/")):
        return path == "-"
    if path.startswith(("/dev/std", "/dev/fd")) or "/fd/" in path:
        return True
    from nvccache.files import signatures

    try:
        if os.path.lexists(path):
            status = os.stat(path)
            return not stat.S_ISREG(status.st_mode) or signatures.is_pseudo_file_system(status.st_dev)
        return signatures.is_pseudo_file_system(os.stat(os.path.dirname(path)).st_dev)
    except (OSError, ValueError):
        return True


def _tools(arguments: Sequence[Argument], host_flags: Sequence[str], mode: str) -> Bypass | None:
    uncacheable = uncacheable_host_option(host_flags)
    if uncacheable:
        return Bypass(*uncacheable)
    if mode in LINKS and writes_beside_object(host_flags):
        return Bypass("host_side_output", "beside a temporary object")
    word = uncacheable_device_option(arguments)
    return Bypass("device_tool_files", word) if word else None


def _irremovable(argv: _Words, environ: Mapping[str, str]) -> Bypass | None:
    """Object to options that a dryrun must not have but that cannot be left out without a trace."""
    removed = [argument for argument in argv.arguments if argument.name in _REMOVED]
    before, after = argv.in_variables
    spelled = [argument for argument in (*before, *argv.own, *after) if argument.name in _REMOVED]
    if len(removed) != len(spelled):
        return Bypass("irremovable_option", "in an option file")
    threads = {argument.value or "" for argument in spelled if argument.name == "threads"}
    if len(threads) > 1 or not all(len(value) < 5 and value.isdecimal() for value in threads):
        return Bypass("irremovable_option", "--threads")  # nvcc warns of it, or rejects it
    if len({argument.value for argument in spelled if argument.name == "keep-dir"}) > 1:
        return Bypass("irremovable_option", "--keep-dir")  # nvcc warns of it
    jobserver = any(argument.name == "jobserver" for argument in spelled)
    if jobserver and "--jobserver" not in environ.get("MAKEFLAGS", ""):
        return Bypass("irremovable_option", "--jobserver")  # nvcc warns of it
    return None
