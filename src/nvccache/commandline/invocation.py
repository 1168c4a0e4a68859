"""Parses nvcc's arguments and environment into an Invocation or a Bypass.

Decides which calls bypass the cache because of their arguments. Constructs no commands, since stages come
from nvcc's own dry run of the same arguments. How nvcc combines options such as `-c -ptx` was found by `nvcc
--dryrun` of CUDA 11.2 to 13.5.
"""

from __future__ import annotations

import os
import stat

from nvccache import environment
from nvccache.commandline.host_options import (
    host_argv,
    uncacheable_device_option,
    uncacheable_host_option,
    writes_beside_object,
)
from nvccache.commandline.options import ALIASES
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

# A mode overrides later ones: with `-c -ptx` or `-cubin -ptx` nvcc writes PTX, with `-dc -cuda` a .cu.cpp.ii.
MODES = tuple(
    """
    ltoir optix-ir tilebc tilecubin tilefatbin ptx cubin fatbin cuda device-c device-w compile
    """.split()
)
LINKS = ("device-link", "link")  # modes of calls with none of these options
# Modes of calls that compile nothing, with their options; each mode is also a bypass reason
# (outcomes.REASONS). An option overrides later ones: with `--version -M` nvcc prints its version, with `-M
# -E` the dependencies.
QUERY_OPTIONS = {
    "information": ("version", "help", "list-gpu-code", "list-gpu-arch"),
    "preprocess_only": ("preprocess", "generate-dependencies", "generate-nonsystem-dependencies"),
}
QUERIES = tuple(QUERY_OPTIONS)
DEPENDENCY_OPTIONS = ("generate-dependencies-with-compile", "generate-nonsystem-dependencies-with-compile")
_DEPENDENCIES = (*DEPENDENCY_OPTIONS, "generate-dependencies", "generate-nonsystem-dependencies")
_OF_LINKS = frozenset({"cubin", "fatbin"})  # modes that combine with -dlink; other modes override -dlink

# Bypass reason -> the options that cause it; the most specific reason first.
_BYPASSING = (
    # A dry run prints unique names of temporary files, since the caller may run the printed commands. Never
    # replay a dry run.
    ("information", ("dryrun",)),
    ("verbose", ("verbose", "verbose2")),
    ("time_report", ("time", "fdevice-time-trace")),
    ("keeps_intermediates", ("objdir-as-tempdir",)),
    ("run", ("run", "clean-targets")),
    ("library", ("lib",)),
)
_LATE_BYPASSING = (
    ("source_in_ptx", ("source-in-ptx",)),
    ("keeps_intermediates", ("keep", "keep-dir")),
    ("device_tool_files", ("apply-controls",)),
)

# Files whose content may differ when they are read again.
_DESCRIPTOR_PATHS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# Options that do not change the product, but break a dry run (CUDA 12.4), which is made without them.
_REMOVED = frozenset(["jobserver", "threads"])
_MAX_OPTION_FILE = 1 << 20
_MOST_LINKS = 40  # the kernel's limit
_SHELL_SPECIAL = '$`\\"\n'  # special in the double quotes that nvcc puts around file names


class Bypass:
    """The decision that the real nvcc runs the call."""

    reason: str  # a key of outcomes.REASONS
    detail: str  # the option or file that decided, for the log

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail


class Dependencies:
    """The depfile of -MD or -MMD."""

    targets: tuple[str, ...]  # the value of the last -MT, if any; nvcc puts -odir before it
    output: str  # the value of the last -MF, or empty
    phony: bool  # whether -MP is given
    omit_system: bool  # whether -MMD is given, which overrides -MD

    def __init__(self, arguments: Sequence[Argument], options: frozenset[str]) -> None:
        target = last_value(arguments, "dependency-target-name")
        self.targets = () if target is None else (target,)
        self.output = last_value(arguments, "dependency-output") or ""
        self.phony = "generate-dependency-targets" in options
        self.omit_system = "generate-nonsystem-dependencies-with-compile" in options


class Invocation:
    """A call that compiles, or a query."""

    arguments: tuple[Argument, ...]  # all, including those of variables and option files, in nvcc's order
    mode: str  # one of MODES, LINKS or QUERIES
    inputs: tuple[str, ...]
    output: str  # the value of -o as typed, or empty; for a query, the file that it writes
    output_directory: str  # the value of -odir as typed, or empty
    options: frozenset[str]  # canonical names of the given options, except those set to `false`
    option_files: tuple[str, ...]  # files named by --options-file
    host_flags: tuple[str, ...]  # options for the host compiler, from -Xcompiler or forwarded
    dryrun_arguments: tuple[str, ...]  # arguments for `nvcc --dryrun`
    threads: int  # the value of -t; 0 if it is not given, or if it asks for one thread per CPU
    dependencies: Dependencies | None
    typed_paths: Mapping[bytes, bytes]  # by the relative paths that nvcc gets; see base_dir.py

    @property
    def is_query(self) -> bool:
        return self.mode in QUERIES

    @property
    def has_absolute_inputs(self) -> bool:
        """Whether all inputs were typed as absolute paths."""
        names = map(os.fsencode, self.inputs)
        return all(os.path.isabs(self.typed_paths.get(name, name)) for name in names)


class _CommandLine:
    """All arguments of a call."""

    def __init__(self) -> None:
        self.arguments: list[Argument] = []  # including those of variables and option files
        self.option_files: list[str] = []
        self.typed: list[Argument] = []  # only those of the command line itself


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Invocation | Bypass:
    """Parse a call; `arguments` are argv[1:]."""
    line = _collect(arguments, environ)
    if isinstance(line, Bypass):
        return line
    options = _options(line.arguments)
    query = next((mode for mode, names in QUERY_OPTIONS.items() if not options.isdisjoint(names)), "")
    if query != "information" and not _inputs(line.arguments):
        return Bypass("information", "no input file")
    resolved = resolve(line.arguments)
    if isinstance(resolved, UnknownOption):
        return Bypass("information" if query == "information" else "unknown_option", resolved.token)
    bypass = _bypass_of(_BYPASSING, options) or _names(line.arguments)
    if bypass:
        return bypass
    if "dependency-output" in options and query != "information" and options.isdisjoint(_DEPENDENCIES):
        return Bypass("dryrun_failed", "-MF without -MD")
    if query:
        return (
            _bypass_of([(query, ("keep", "keep-dir"))], options)
            or _files(line.arguments, may_discard=False)
            or _environment(environ)
            or _check_removable(line, environ)
            or _build(line, options, query, ())
        )
    mode = _mode(line.arguments, options)
    forwarded = [argument.tokens[0] for argument in line.arguments if argument.name == FORWARDED]
    host_flags = host_argv(line.arguments, forwarded)
    if host_flags is None:
        return Bypass("shell_expansion", "-Xcompiler")
    return (
        _files(line.arguments, may_discard=mode not in LINKS)
        or _tools(line.arguments, host_flags, mode)
        or _bypass_of(_LATE_BYPASSING, options)
        or _environment(environ)
        or _check_removable(line, environ)
        or _build(line, options, mode, host_flags)
    )


def _build(line: _CommandLine, options: frozenset[str], mode: str, host_flags: tuple[str, ...]) -> Invocation:
    invocation = Invocation()
    invocation.arguments = tuple(line.arguments)
    invocation.mode = mode
    invocation.inputs = _inputs(line.arguments)
    invocation.output = _output(line.arguments, mode)
    invocation.output_directory = last_value(line.arguments, "output-directory") or ""
    invocation.options = options
    invocation.option_files = tuple(line.option_files)
    invocation.host_flags = host_flags
    invocation.dryrun_arguments = tuple(
        token for argument in line.typed if argument.name not in _REMOVED for token in argument.tokens
    )
    invocation.threads = int(last_value(line.typed, "threads") or 0)
    has_depfile = mode not in QUERIES and not options.isdisjoint(DEPENDENCY_OPTIONS)
    invocation.typed_paths = {}
    invocation.dependencies = Dependencies(line.arguments, options) if has_depfile else None
    return invocation


def _output(arguments: Sequence[Argument], mode: str) -> str:
    """The output file as typed, or empty; with `-M -MF a -o b` it is `b`."""
    options = {"information": (), "preprocess_only": ("output-file", "dependency-output")}
    named = (last_value(arguments, name) for name in options.get(mode, ("output-file",)))
    return next(filter(None, named), "")


def _collect(arguments: Sequence[str], environ: Mapping[str, str]) -> _CommandLine | Bypass:
    line = _CommandLine()
    before = split_variable(environ.get("NVCC_PREPEND_FLAGS", ""))
    after = split_variable(environ.get("NVCC_APPEND_FLAGS", ""))
    if before is None or after is None:
        return Bypass("unreadable_environment", "NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS")
    for part in (before, arguments, after):
        scanned = scan(part)
        if isinstance(scanned, UnknownOption):
            return Bypass("unknown_option", scanned.token)
        if part is arguments:
            line.typed = scanned
        for argument in scanned:
            line.arguments.append(argument)
            if argument.name == "options-file" and (bypass := _expand(argument, line)):
                return bypass
    return line


def _expand(argument: Argument, line: _CommandLine) -> Bypass | None:
    """Append the arguments in option files, where nvcc would insert them."""
    paths = split_list(argument.value or "", escapes=False)
    if not paths or '"' in (argument.value or ""):
        return Bypass("unreadable_option_file", argument.tokens[0])
    return next(filter(None, [_expand_file(path, line) for path in paths]), None)


def _expand_file(path: str, line: _CommandLine) -> Bypass | None:
    if _is_stream(path) or not os.path.isfile(path):
        return Bypass("unreadable_option_file", path)  # reading a pipe would take its content from nvcc
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
        return Bypass("unknown_option", scanned.token)
    if any(argument.name == "options-file" for argument in scanned):
        return Bypass("unreadable_option_file", "named in another option file")
    line.option_files.append(path)
    line.arguments += scanned
    return None


def _options(arguments: Sequence[Argument]) -> frozenset[str]:
    last = {argument.name: argument.value for argument in arguments}
    names = {ALIASES.get(name, name) for name, value in last.items() if value != "false"}
    if "device-c" in names:
        names.add("relocatable-device-code")  # according to nvcc's help, -dc means `-rdc=true -c`
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
        if variable in environ:  # empty values count, too, since some of them affect GCC
            return Bypass("environment_side_output", variable)
    return None


def _mode(arguments: Sequence[Argument], options: frozenset[str]) -> str:
    modes = [mode for mode in MODES if mode in options]
    if "device-link" in options and _OF_LINKS.issuperset(modes):
        return "device-link"
    if modes == ["ltoir"] and any(argument.tokens == ("-ltoir",) for argument in arguments):
        return "link"  # CUDA before 13 reads this as `-l toir`, so that the call links
    return modes[0] if modes else "link"


def _files(arguments: Sequence[Argument], may_discard: bool) -> Bypass | None:
    """Bypass if a path is a stream or device; with `may_discard`, an output may be /dev/null."""
    for path in _read(arguments):
        if _is_stream(path):
            return Bypass("standard_input", path)  # nvcc could not read it again after nvccache has read it
    for name in ("output-file", "dependency-output"):
        value = last_value(arguments, name)
        if value == os.devnull and may_discard:
            continue
        if value is not None and _is_stream(value):
            return Bypass("standard_output", value)
        if value == "":
            return Bypass("unwritable_output", f"--{name}")
    asked = {argument.name for argument in arguments}
    is_discarded = last_value(arguments, "output-file") == os.devnull
    if is_discarded and "dependency-output" not in asked and not asked.isdisjoint(DEPENDENCY_OPTIONS):
        return Bypass("standard_output", "no path for the depfile of /dev/null")
    for argument in arguments:
        for token in argument.tokens:
            if any(name in token for name in _DESCRIPTOR_PATHS):
                return Bypass(
                    "standard_input", token
                )  # several passes would read it, but it can be read only once
    return None


def _names(arguments: Sequence[Argument]) -> Bypass | None:
    """Bypass for names of outputs that nvcc's shell would expand."""
    for name in ("output-file", "output-directory"):
        value = last_value(arguments, name) or ""
        if any(character in value for character in _SHELL_SPECIAL):
            return Bypass("shell_expansion", value)
    return None


def _read(arguments: Sequence[Argument]) -> list[str]:
    """The files that the command line names and that nvcc or the host compiler reads."""
    found = list(_inputs(arguments))
    for argument in arguments:
        if argument.name in ("pre-include", "compiler-options") and argument.value:
            found += [path for path in argument.value.replace(" ", ",").split(",") if path[:1] != "-"]
    return found


def _is_stream(path: str) -> bool:
    """Whether a path is, or would be, a device, a pipe or an open descriptor; links are followed."""
    if path == "-":
        return True
    try:
        for _ in range(_MOST_LINKS):
            is_special = path.startswith(("/dev/", "/proc/"))
            if is_special and "/fd/" in path:
                return True
            if not os.path.lexists(path):
                return is_special and not _is_below_plain_directory(path)
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                is_file = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
                return not is_file or (is_special and not _is_below_plain_directory(path))
            directory = os.path.realpath(os.path.dirname(path))
            if directory.startswith("/proc/") and directory.endswith("/fd"):
                return True
            path = os.path.join(directory, os.readlink(path))
    except (OSError, ValueError):
        pass
    return True


def _is_below_plain_directory(path: str) -> bool:
    """Whether a path below /dev or /proc leads to ordinary files, as /dev/shm and /proc/self/cwd do."""
    real_path = os.path.realpath(path)
    return real_path.startswith("/dev/shm/") or not real_path.startswith(("/dev/", "/proc/"))


def _tools(arguments: Sequence[Argument], host_flags: Sequence[str], mode: str) -> Bypass | None:
    uncacheable = uncacheable_host_option(host_flags)
    if uncacheable:
        return Bypass(*uncacheable)
    if mode in LINKS and writes_beside_object(host_flags):
        return Bypass("host_side_output", "files next to a temporary object")
    option = uncacheable_device_option(arguments)
    return Bypass("device_tool_files", option) if option else None


def _check_removable(line: _CommandLine, environ: Mapping[str, str]) -> Bypass | None:
    """Bypass for an option that a dry run must not have, but whose removal would change nvcc's messages."""
    removed = [argument for argument in line.arguments if argument.name in _REMOVED]
    if len(removed) != sum(argument.name in _REMOVED for argument in line.typed):
        return Bypass("irremovable_option", "from an option file or a variable")
    threads = {argument.value or "" for argument in removed if argument.name == "threads"}
    if len(threads) > 1 or not all(len(value) < 5 and value.isdecimal() for value in threads):
        return Bypass("irremovable_option", "--threads")  # nvcc warns about different values
    jobserver = any(argument.name == "jobserver" for argument in removed)
    if jobserver and "--jobserver" not in environ.get("MAKEFLAGS", ""):
        return Bypass("irremovable_option", "--jobserver")  # nvcc warns that there is no jobserver
    return None
