"""What a shell runs, and the variables its text may depend on: a shell's reads of variables are not observed.

Usually a script can depend only on variables that it names. If its text builds names or code, or lists
variables, it may depend on the whole environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from nvccache import environment
from nvccache.observation.observed_process import Process, for_all
from nvccache.values import dataclass

_LARGEST_SCRIPT = 1 << 20
_LARGEST_ARGUMENT = 4096  # the observer cuts longer ones
_NAME = rb"[A-Za-z_]\w*"
_DYNAMIC = (
    rb"(?m)\beval\b|\$\{!|\b(?:declare|typeset|compgen|printenv|env)\b"
    rb"|\b(?:(?:export|readonly)(?:[ \t]+[-+]\w+)*[ \t]+-\w*p|local(?:[ \t]+[-+]\w+)*[ \t]+-\w*n)"
    rb"|\b(?:set|export|readonly)[ \t]*(?:$|[;|&<>)`#}]|\d+[<>])"
    rb"|@P\}"  # expands names in a value
    # Code that runs later, unless it is a literal.
    rb"|\balias\b|\b(?:mapfile|readarray)\b[^\n]*[ \t]-\w*C"
    rb"|\btrap\b[\"']?[ \t]+(?:--[ \t]+)?"
    rb"(?!(?:'[^']*'|\"[^\"$`\\]*\"|[\w.:/=+,-]+)(?:[\s;&|)}]|$))"
    # A command whose name is built.
    rb"|(?:^|[;&|({`!]|\b(?:then|do|else|elif|if|while|until|time|builtin|command)\b)[ \t]*"
    rb"(?:\w+\$|\$\w+\$|\$\{\w[^}\s]*\}[\w$])[^\s/]*(?:\s|$)"
    rb"|(?:^|[;&|{!]|\b(?:then|do|else|elif|if|while|until)\b)[ \t]*(?:\$\(|`)(?![^\n]*[)`]/)|\$'[^'\n]*\\"
    # Arithmetic, in which values of variables are names of others; not in `(( $# ))`.
    rb"|\(\((?![ \t]*\$#[ \t]*(?:[<>=!]=?[ \t]*\d+[ \t]*)?\)\))|\$\[|\blet\b|\w\[[^\]\n]*[^\]@*\d\n]"
    rb"|\[\[[^\n]*[ \t]-(?:eq|ne|l[te]|g[te])\b|(?:\[|\btest)[ \t](?:[^\n]*[ \t])?-v\b|\$\{\w+:[^-=+?}]"
)
_QUOTES = rb"[\"'\\]"  # allowed within the name of a command
# Variables that change each time, and that a shell expands without an observed call.
_CHANGING = rb"\$\$|\b(?:S?RANDOM|BASHPID|PPID|SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b"
# Uses of a script's arguments, apart from lines that `exec` another program with all of them.
_ARGUMENTS = rb"\$[@*#1-9]|\$\{[@*#!1-9]|\b(?:for|shift|getopts|set|eval|select|BASH_ARG\w*)\b|/proc/|[<>]\("
# Matches only the first letter of a name: matching all of it took exponential time.
_EXEC_OF_ALL = rb'(?m)^[ \t]*exec[ \t](?:[^\n;&|`()$]|\$\{?[A-Za-z_])*"\$@"[ \t]*$'
_MOST_NAMES = 3000
# Variables that shells use by themselves.
OF_SHELLS = (
    "BASHOPTS",
    "BASH_COMPAT",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "FUNCNEST",
    "GLOBIGNORE",
    "GLOBSORT",
    "POSIXLY_CORRECT",
    "PS3",
    "PS4",
    "SHELLOPTS",
    "TIMEFORMAT",
    "TMOUT",
)
# Uses of the home directory in a script that does not name HOME.
_HOME = rb"~|\b(?:cd|dirs|popd|pushd)\b"
_OLD_DIRECTORY = rb"~-|\bcd[ \t]+(?:-\w+[ \t]+)*-(?!\w)"
_WITHOUT_HOME = frozenset("cefhuvx")  # options that do not make a shell read the user's files
_OF_REMOTE_COMMANDS = (
    "SSH_CLIENT",
    "SSH2_CLIENT",
)  # may make bash read ~/.bashrc, if no other shell started it
_EXPANDED = ("BASH_ENV", "ENV")
_OF_OTHERS = (
    rb"(?<!\w)(?:"
    + b"|".join(sorted((name.encode() for name in environment.OF_OTHERS - {"_"}), reverse=True))
    + rb")|(?<=[\"'{])_(?=[\"'}])"
)
_LONG_OPTIONS = frozenset(
    (
        *("debug", "debugger", "dump-po-strings", "dump-strings", "help", "init-file", "login", "noediting"),
        *("noprofile", "norc", "posix", "pretty-print", "rcfile", "restricted", "verbose", "version"),
    )
)
_WITH_A_FILE = ("init-file", "rcfile")


def text_of(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(_LARGEST_SCRIPT)
    except OSError:
        return b""


def scripts_of(process: Process) -> list[bytes]:
    """The text that a shell read from files or arguments; empty if it is not completely known."""
    argv = process.arguments[1:]
    texts = [text_of(path) for path in process.files]
    is_whole = all(len(text) < _LARGEST_SCRIPT for text in texts)
    is_whole = is_whole and all(len(os.fsencode(argument)) < _LARGEST_ARGUMENT for argument in argv)
    begun = shell_command(argv)
    if not is_whole or not begun or not (begun.is_command or _has_read(process, begun.operand)):
        return []
    return [*texts, *map(os.fsencode, argv)]


def own_texts(process: Process) -> list[bytes]:
    """The text that a shell runs, without the arguments of its script."""
    begun = shell_command(process.arguments[1:])
    texts = [text_of(path) for path in process.files]
    return texts + ([os.fsencode(begun.operand)] if begun and begun.is_command else [])


def _has_read(process: Process, script: str) -> bool:
    """Whether a shell has read the script of this name, which bash also searches for on PATH."""
    script = for_all(script, process.directory)
    path = os.path.join(process.directory, script)
    if not {script, path, os.path.normpath(path)}.isdisjoint(process.files):
        return True
    return "/" not in script and any(os.path.basename(path) == script for path in process.files)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """What a shell runs: the text of `-c`, or a script by name."""

    is_command: bool
    operand: str


def shell_command(arguments: Sequence[str]) -> ShellCommand | None:
    """What a shell runs with these arguments; None if it reads standard input."""
    rest = _after_long_options(arguments)
    letters = ""
    while rest and rest[0] and rest[0][0] in "-+":
        option = rest.pop(0)
        if option in ("-", "--"):
            break
        letters += option[1:]
        del rest[: option.count("o") + option.count("O")]  # each takes an argument
    if not rest or "s" in letters:  # dash runs both the command and standard input
        return None
    return ShellCommand("c" in letters, rest[0])


def _after_long_options(arguments: Sequence[str]) -> list[str]:
    """The arguments after bash's long options, which come first, with one dash or two."""
    rest = list(arguments)
    while rest:
        name = rest[0][2:] if rest[0].startswith("--") else rest[0][1:]
        if rest[0][:1] != "-" or name not in _LONG_OPTIONS:
            break
        del rest[: 2 if name in _WITH_A_FILE else 1]
    return rest


def variables_in(texts: Iterable[bytes]) -> set[str]:
    """The variables that these texts may depend on, with environment.WHOLE if any is possible."""
    text = b"\n".join(texts).replace(b"\\\n", b"")
    names = {name.decode() for name in re.findall(_NAME, text)}
    bare = re.sub(_QUOTES, b"", text)
    if re.search(_OLD_DIRECTORY, bare):
        names.add("OLDPWD")
    names = {name for name in names if not name.startswith(environment.OWN)}
    if not text or re.search(_DYNAMIC, text) or re.search(_DYNAMIC, bare) or len(names) > _MOST_NAMES:
        return {environment.WHOLE, *filter(environment.is_ignored, names)}
    return names.union(OF_SHELLS, ("HOME",) if re.search(_HOME, text) else ())


def variables_at_start(
    arguments: Sequence[str], is_remote_command: bool, environ: Mapping[str, str]
) -> set[str]:
    """Variables that a shell may use when it starts, by its arguments and its environment."""
    names = set()
    if is_remote_command or "~" in environ.get("PATH", "") or _may_be_users(arguments):
        names.add("HOME")  # for ~/.bashrc, ~/.profile, or directories of PATH
    if any(sign in environ.get(name, "") for name in _EXPANDED for sign in "$`"):
        names.add(environment.WHOLE)
    if is_remote_command:
        names.update(_OF_REMOTE_COMMANDS)
        if any(name in environ for name in _OF_REMOTE_COMMANDS):
            names.add("SHLVL")
    return names


def _may_be_users(arguments: Sequence[str]) -> bool:
    """Whether a shell with these arguments may read the user's startup files."""
    if arguments[:1] and arguments[0].startswith("-"):
        return True  # a login shell
    return any(each[:1] in ("-", "+") and not _WITHOUT_HOME.issuperset(each[1:]) for each in arguments[1:2])


def ignored_variables_in(texts: Iterable[bytes]) -> set[str]:
    """The variables named in any texts that environment.WHOLE leaves out."""
    return {name.decode() for text in texts for name in re.findall(_OF_OTHERS, text)}


def uses_arguments(texts: Iterable[bytes]) -> bool:
    """Whether a script may do more with its arguments than `exec` another program with all of them."""
    return any(re.search(_ARGUMENTS, re.sub(_EXEC_OF_ALL, b"", text)) for text in texts)


def changing_variable(texts: Iterable[bytes]) -> str:
    """The first variable in these texts that has another value each time; empty if there is none."""
    found = (re.search(_CHANGING, text) for text in texts)
    return next((match[0].decode() for match in found if match), "")
