"""What an observed process depends on besides the files that it read. The kind of its program decides:

                     CUDA tool           host compiler         shell                anything else
    variables        those it read       those it read         all unless simple    all
    directory        no                  `as` that reads PWD   unless simple        yes
    machine          no                  no                    if it asks           if it asks
    user, limits     if it reads /proc   if it reads /proc     unless simple        yes
    file status      no                  no                    of files looked up   of files looked up

A shell whose text is simple (shell_text.py) only sets variables and starts programs. These rules, and those
of uncacheable.py, come from observing CUDA 11.8 to 13.5, gcc 11 and 12, and clang 14.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping

from nvccache import environment
from nvccache.observation import shell_text
from nvccache.observation.observed_process import COMPILERS, HOST, OTHER, SHELL, Process
from nvccache.observation.shell_text import text_of
from nvccache.records import facts

_MACHINE = frozenset(
    "uname gethostname __gethostname_chk sysconf get_nprocs get_nprocs_conf sched_getaffinity".split()
)
# Ignored variables: those for colours and links in messages, and PWD, which is in keys where it matters.
_NOISE = frozenset(("TERM", "GCC_COLORS", "GCC_URLS", "TERM_URLS", "NOCOLOR", "NO_COLOR", "COLUMNS", "PWD"))
_COLOURS = _NOISE - {"PWD", "COLUMNS"}
_CALLER_FILES = {
    f"/proc/{whose}/{name}" for whose in ("self", "thread-self") for name in ("status", "limits")
}
_PROCESSOR_FILES = ("/proc/cpuinfo", "/sys/devices/system/cpu")
# Arguments that may mean this machine's processor: `native`, what gcc makes of it, or a file of options.
_NATIVE = re.compile(r"=native\b|^@|\bl1-cache-size=")
# Options of gcc and clang, and variables that they read, which name directories with headers.
_INCLUDE_OPTIONS = ("-I", "-iquote", "-isystem", "-idirafter")
_INCLUDE_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def facts_needed(process: Process) -> Iterator[tuple[str, str]]:
    """The facts about machine and caller on which a process depends, as pairs of topic and argument."""
    if _depends_on_processor(process):
        yield facts.NATIVE, ""
    if process.kind not in COMPILERS and any(name in _MACHINE for name, _ in process.questions):
        yield facts.HOST, ""
    if may_choose(process) or not _CALLER_FILES.isdisjoint(process.others):
        yield facts.CALLER, ""
    # An assembler reads PWD only if an option or a `.loc` makes it write the directory into its output.
    is_assembler = process.kind == HOST and "as" in process.name.split("-")
    if may_choose(process) or (is_assembler and "PWD" in process.variables):
        yield facts.DIRECTORY, ""


def _depends_on_processor(process: Process) -> bool:
    """Whether a process asks for the type of processor, or has an argument that may select it."""
    return (
        any(path.startswith(_PROCESSOR_FILES) for path in (*process.files, *process.others))
        or any(map(_NATIVE.search, process.arguments))
        or (process.kind in COMPILERS and any(path.endswith(".cfg") for path in process.files))  # clang's
    )


def may_choose(process: Process) -> bool:
    """Whether a process may do more with its arguments than pass them on."""
    if process.kind == SHELL:
        return not shell_text.is_simple(process, shell_text.texts_of(process))
    return process.kind == OTHER


def variables_of(process: Process, environ: Mapping[str, str], requests_colours: bool) -> set[str]:
    """The variables on which a process depends, except PATH; environment.WHOLE stands for all variables."""
    read = process.variables - {"PATH"}
    if process.kind in COMPILERS:
        noise = _NOISE - (_COLOURS if requests_colours else set())
        return {name for name in read if not environment.is_ignored(name) and name not in noise}
    read = {name for name in read if not name.startswith(environment.OWN)}
    # bash expands the values of these two variables, which may contain any other variable.
    expands = any(sign in environ.get(name, "") for name in ("BASH_ENV", "PATH") for sign in "$`~")
    if not expands and not may_choose(process):
        return read | shell_text.OF_SHELLS
    texts = [*map(os.fsencode, process.arguments), *map(text_of, process.files)]
    return {environment.WHOLE, *read, *shell_text.ignored_variables_in(texts)}


def files_of_status(process: Process, has_program: bool) -> list[str]:
    """The regular files whose status, such as the date, a process may have used; none for a compiler.

    `has_program` says whether the run has a program of kind OTHER. Such a program may ask for the status of
    each file that it opens, or that a shell opens for it.
    """
    if process.kind in COMPILERS:
        return []
    found = {path for path, mode in process.found.items() if stat.S_ISREG(mode)}
    found.update(filter(os.path.isfile, process.permissions))
    return sorted(found.union(process.files) if has_program else found)


def include_paths(process: Process, environ: Mapping[str, str]) -> list[str]:
    """The directories in which a compiler may search headers: those that it was given, and all that it found.

    The working directory counts only if given, since compilers compare it with PWD, too.
    """
    following = [*process.arguments[1:], ""]
    paths = [
        argument.removeprefix(option) or value
        for argument, value in zip(process.arguments, following, strict=False)
        for option in _INCLUDE_OPTIONS
        if argument.startswith(option)
    ]
    for name in _INCLUDE_VARIABLES:
        paths += [path or "." for path in environ[name].split(":")] if name in environ else []
    found = {path for path, mode in process.found.items() if stat.S_ISDIR(mode)}
    paths += sorted(found - {os.getcwd(), environ.get("PWD", "")})
    return list(dict.fromkeys(paths))


def reads_null_input(process: Process) -> bool:
    """Whether nvccache's standard input is /dev/null, and a process may have read it."""
    try:
        status, nothing = os.fstat(0), os.stat(os.devnull)
    except OSError:
        return False
    return status.st_rdev == nothing.st_rdev and (status.st_dev, status.st_ino) in process.inputs
