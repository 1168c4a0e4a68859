"""What a shell runs, and what it may depend on by that text: it takes variables from its environment unseen.

A variable can only reach a script that names it. Where text makes up names or other text, or has others look,
all of the environment counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from nvccache import environment
from nvccache.observation.observed_process import Process, for_all
from nvccache.values import dataclass

_LARGEST_SCRIPT = 1 << 20
_LARGEST_ARGUMENT = 4096  # where the observer cuts them
_NAME = rb"[A-Za-z_]\w*"
_MADE_UP = (
    rb"(?m)\beval\b|\$\{!|\b(?:declare|typeset|compgen|printenv|env)\b"
    rb"|\b(?:(?:export|readonly)(?:[ \t]+[-+]\w+)*[ \t]+-\w*p|local(?:[ \t]+[-+]\w+)*[ \t]+-\w*n)"
    rb"|\b(?:set|export|readonly)[ \t]*(?:$|[;|&<>)`#}]|\d+[<>])"
    rb"|@P\}"  # expands what a value names
    # Text for later, unless all of it is written here.
    rb"|\balias\b|\b(?:mapfile|readarray)\b[^\n]*[ \t]-\w*C"
    rb"|\btrap\b[\"']?[ \t]+(?:--[ \t]+)?"
    rb"(?!(?:'[^']*'|\"[^\"$`\\]*\"|[\w.:/=+,-]+)(?:[\s;&|)}]|$))"
    # A command that is not written out.
    rb"|(?:^|[;&|({`!]|\b(?:then|do|else|elif|if|while|until|time|builtin|command)\b)[ \t]*"
    rb"(?:\w+\$|\$\w+\$|\$\{\w[^}\s]*\}[\w$])[^\s/]*(?:\s|$)"
    rb"|(?:^|[;&|{!]|\b(?:then|do|else|elif|if|while|until)\b)[ \t]*(?:\$\(|`)(?![^\n]*[)`]/)|\$'[^'\n]*\\"
    # Where words are arithmetic, values of variables are names of others; not in `(( $# ))`.
    rb"|\(\((?![ \t]*\$#[ \t]*(?:[<>=!]=?[ \t]*\d+[ \t]*)?\)\))|\$\[|\blet\b|\w\[[^\]\n]*[^\]@*\d\n]"
    rb"|\[\[[^\n]*[ \t]-(?:eq|ne|l[te]|g[te])\b|(?:\[|\btest)[ \t](?:[^\n]*[ \t])?-v\b|\$\{\w+:[^-=+?}]"
)
_QUOTES = rb"[\"'\\]"  # which may stand within the name of a command
# Known to a shell since it began: asking anew makes no call.
_ANEW = rb"\$\$|\b(?:S?RANDOM|BASHPID|PPID|SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b"
# What may say something of the arguments, but for lines that become another program with all of them.
_ARGUMENTS = rb"\$[@*#1-9]|\$\{[@*#!1-9]|\b(?:for|shift|getopts|set|eval|select|BASH_ARG\w*)\b|/proc/|[<>]\("
# What follows the first letter of a name is like any other text: to tell it apart took exponential time.
_HANDED_ON = rb'(?m)^[ \t]*exec[ \t](?:[^\n;&|`()$]|\$\{?[A-Za-z_])*"\$@"[ \t]*$'
_MOST_NAMES = 3000
# What shells heed without a script that says so.
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
# What stands for the home directory, or is abbreviated by it, in a script that does not name HOME.
_HOME = rb"~|\b(?:cd|dirs|popd|pushd)\b"
_OLD_DIRECTORY = rb"~-|\bcd[ \t]+(?:-\w+[ \t]+)*-(?!\w)"
_WITHOUT_HOME = frozenset("cefhuvx")  # letters of options that have no shell read files of the user's
_OF_REMOTE_COMMANDS = (
    "SSH_CLIENT",
    "SSH2_CLIENT",
)  # may have bash read ~/.bashrc, where nothing else started it
_EXPANDED = ("BASH_ENV", "ENV")
_OF_OTHERS = (
    rb"(?<!\w)(?:"
    + b"|".join(sorted(name.encode() for name in environment.OF_OTHERS - {"_", "TMPDIR"}))
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
    """The text that a shell has read, or was given as an argument; none if that is not known."""
    argv = process.arguments[1:]
    texts = [text_of(path) for path in process.files]
    is_whole = all(len(text) < _LARGEST_SCRIPT for text in texts)
    is_whole = is_whole and all(len(os.fsencode(word)) < _LARGEST_ARGUMENT for word in argv)
    begun = begun_by(argv)
    if not is_whole or not begun or not (begun.is_command or _has_read(process, begun.operand)):
        return []
    return [*texts, *map(os.fsencode, argv)]


def own_texts(process: Process) -> list[bytes]:
    """The text that a shell runs, without the arguments of its script."""
    begun = begun_by(process.arguments[1:])
    texts = [text_of(path) for path in process.files]
    return texts + ([os.fsencode(begun.operand)] if begun and begun.is_command else [])


def _has_read(process: Process, script: str) -> bool:
    """Whether a shell has read the script of this name, for which bash looks along PATH as well."""
    script = for_all(script, process.directory)
    path = os.path.join(process.directory, script)
    if not {script, path, os.path.normpath(path)}.isdisjoint(process.files):
        return True
    return "/" not in script and any(os.path.basename(path) == script for path in process.files)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a shell was given to run: a command, or the script of this name."""

    is_command: bool
    operand: str


def begun_by(arguments: Sequence[str]) -> Begun | None:
    """What a shell runs with these arguments; None where it reads that from its standard input."""
    rest = _behind_long_options(arguments)
    letters = ""
    while rest and rest[0] and rest[0][0] in "-+":
        word = rest.pop(0)
        if word in ("-", "--"):
            break
        letters += word[1:]
        del rest[: word.count("o") + word.count("O")]  # each takes the name of an option
    if not rest or "s" in letters:  # of which dash has both, behind a command
        return None
    return Begun("c" in letters, rest[0])


def _behind_long_options(arguments: Sequence[str]) -> list[str]:
    """bash knows them before all others, with one dash or two."""
    rest = list(arguments)
    while rest:
        name = rest[0][2:] if rest[0].startswith("--") else rest[0][1:]
        if rest[0][:1] != "-" or name not in _LONG_OPTIONS:
            break
        del rest[: 2 if name in _WITH_A_FILE else 1]
    return rest


def variables_in(texts: Iterable[bytes]) -> set[str]:
    """The variables that these texts may depend on; environment.WHOLE among them if that is not known."""
    text = b"\n".join(texts).replace(b"\\\n", b"")
    names = {name.decode() for name in re.findall(_NAME, text)}
    bare = re.sub(_QUOTES, b"", text)
    if re.search(_OLD_DIRECTORY, bare):
        names.add("OLDPWD")
    names = {name for name in names if not environment.is_hidden(name)}
    if not text or re.search(_MADE_UP, text) or re.search(_MADE_UP, bare) or len(names) > _MOST_NAMES:
        return {environment.WHOLE, *filter(environment.is_ignored, names)}
    return names.union(OF_SHELLS, ("HOME",) if re.search(_HOME, text) else ())


def variables_at_start(
    arguments: Sequence[str], is_remote_command: bool, environ: Mapping[str, str]
) -> set[str]:
    """What a shell may heed apart from its text, by its arguments and by what it finds in the environment."""
    names = set()
    if is_remote_command or "~" in environ.get("PATH", "") or _may_be_users(arguments):
        names.add("HOME")  # of which it reads ~/.bashrc or ~/.profile, or looks for programs below it
    if any(sign in environ.get(name, "") for name in _EXPANDED for sign in "$`"):
        names.add(environment.WHOLE)
    if is_remote_command:
        names.update(_OF_REMOTE_COMMANDS)
        if any(name in environ for name in _OF_REMOTE_COMMANDS):
            names.add("SHLVL")
    return names


def _may_be_users(arguments: Sequence[str]) -> bool:
    """Whether a shell with these arguments may be one that reads the user's own files when it begins."""
    if arguments[:1] and arguments[0].startswith("-"):
        return True  # a login shell
    return any(word[:1] in ("-", "+") and not _WITHOUT_HOME.issuperset(word[1:]) for word in arguments[1:2])


def ignored_variables_in(texts: Iterable[bytes]) -> set[str]:
    """Those named in texts of any kind that all of the environment does not stand for."""
    return {name.decode() for text in texts for name in re.findall(_OF_OTHERS, text)}


def heeds_arguments(texts: Iterable[bytes]) -> bool:
    """Whether texts may do more with the arguments of a script than start another program with them."""
    return any(re.search(_ARGUMENTS, re.sub(_HANDED_ON, b"", text)) for text in texts)


def asks_anew(texts: Iterable[bytes]) -> str:
    """The first word in these texts that stands for something else each time; empty if there is none."""
    found = (re.search(_ANEW, text) for text in texts)
    return next((match[0].decode() for match in found if match), "")
