"""What a shell runs, and the variables that its text may depend on: its reads of variables are not observed.

A script depends on the variables that its text names; on all of them if the text may build a name or code, or
lists variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from nvccache import environment
from nvccache.observation.observed_process import Process, for_all

# Regular expressions are compiled where they are used: most compiles start no shell.
_LARGEST_SCRIPT = 1 << 20
_LARGEST_ARGUMENT = 4096  # the observer cuts longer ones
_PLAIN_OPTIONS = r"-[efhuvx]+"  # with others a shell may read the user's files or its input
_NAME = rb"[A-Za-z_]\w*"
_QUOTES = rb"[\"'\\]"  # allowed within the name of a command
_LISTS_OR_BUILDS = (
    rb"\b(?:eval|declare|typeset|compgen|printenv|env|local|alias|trap|mapfile|readarray|let)\b"
    rb"|\b(?:set(?![ \t]+[-+A-Za-z_])|(?:export|readonly)(?![ \t]+[A-Za-z_]))\b"
    # Arithmetic, in which values of variables are names of others, and other expansions of values.
    rb"|\(\(|\[\[|\$\[|\$\{!|@P\}|`|\$'|\w\[[^\]\n]*[^\]@*\d\n]|(?:\[|\btest)[ \t][^\n]*-v\b|\$\{\w+:[^-=+?}]"
    # A command whose name is built, in part or whole.
    rb"|(?m:^|[;&|({!]|\b(?:then|do|else|elif|if|while|until|time|builtin|command)\b)[ \t]*"
    rb"(?:(?:\w+\$|\$\w+\$|\$\{\w[^}\s]*\}[\w$])[^\s/]*(?:\s|$)|\$\((?![^\n]*\)/))"
)
_CHANGING = rb"\$\$|\b(?:S?RANDOM|BASHPID|PPID|SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b"
# Uses of a script's arguments, apart from lines that `exec` another program with all of them.
_ARGUMENTS = rb"\$[@*#1-9]|\$\{[@*#!1-9]|\b(?:for|shift|getopts|set|eval|select|BASH_ARG\w*)\b|/proc/|[<>]\("
_WORDS = rb"(?:[^\n;&|`()<>$]|\$\{?[A-Za-z_])*"
_EXEC_OF_ALL = rb"(?m)^[ \t]*exec[ \t](" + _WORDS + rb')"\$@"' + _WORDS + rb"$"
_WORD = rb"(?:\"(?:[^\"`$\\]|\$\{?[A-Za-z_])*\"|'[^']*'|[^\s\"'`$;&|()<>\\]|\$\{?[A-Za-z_])*"
_PLAIN_LINE = rb"\s*(?:#.*|set -[eu]+|(?:export\s+)?(?!PATH=)[A-Za-z_]\w*=" + _WORD + rb")?\s*"
OF_SHELLS = frozenset(  # shells use them by themselves
    """
    BASHOPTS BASH_COMPAT BASH_ENV BASH_FUNC_* BASH_LOADABLES_PATH BASH_XTRACEFD CDPATH ENV FUNCNEST GLOBIGNORE
    GLOBSORT POSIXLY_CORRECT PS3 PS4 SHELLOPTS TIMEFORMAT TMOUT
    """.split()
)
_OF_HOME = rb"~|\b(?:cd|dirs|popd|pushd)\b"
_IGNORED = (
    rb"(?<!\w)(?:"
    + b"|".join(sorted((name.encode() for name in environment.OF_OTHERS - {"_"}), reverse=True))
    + rb")|(?<=[\"'{])_(?=[\"'}])"
)


def text_of(path: str) -> bytes:
    """The text of a regular file: reading anything else, such as `/dev/stdin`, could block."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                return stream.read(_LARGEST_SCRIPT)
    except OSError:
        pass
    return b""


def texts_of(process: Process) -> list[bytes]:
    """The text that a shell ran, without its script's arguments; empty if it is not completely known."""
    shell, *arguments = process.arguments
    texts = list(map(text_of, process.files))
    if arguments[:1] == ["-c"] and len(arguments) > 1 and len(os.fsencode(arguments[1])) < _LARGEST_ARGUMENT:
        texts.append(os.fsencode(arguments[1]))
    else:
        script = arguments[1:2] if arguments and re.fullmatch(_PLAIN_OPTIONS, arguments[0]) else arguments[:1]
        if not script or script[0][:1] in ("", "-", "+") or not _has_read(process, script[0]):
            return []
    is_whole = all(len(text) < _LARGEST_SCRIPT for text in texts) and shell[:1] != "-"
    return texts if is_whole else []


def _has_read(process: Process, script: str) -> bool:
    """Whether a shell has read the script of this name, which bash also searches for on PATH."""
    script = for_all(script, process.directory)
    path = os.path.join(process.directory, script)
    if not {script, path, os.path.normpath(path)}.isdisjoint(process.files):
        return True
    return "/" not in script and any(os.path.basename(path) == script for path in process.files)


def variables_of(process: Process, texts: Iterable[bytes], environ: Mapping[str, str]) -> set[str]:
    """The variables that a shell with these texts may depend on; environment.WHOLE stands for all."""
    text = b"\n".join(texts).replace(b"\\\n", b"")
    bare = re.sub(_QUOTES, b"", text)
    names = {name.decode() for name in re.findall(_NAME, text)}
    names = {name for name in names if not name.startswith(environment.OWN)}
    if process.arguments[1:2] == ["-c"] and os.path.basename(process.program) == "bash":
        names |= {"HOME", "SSH_CLIENT", "SSH2_CLIENT"}  # of a remote command, which reads ~/.bashrc
        names |= {"SHLVL"} if "SSH_CLIENT" in environ or "SSH2_CLIENT" in environ else set()
    if re.search(_OF_HOME, bare) or "~" in environ.get("PATH", ""):
        names |= {"HOME", "OLDPWD"}
    reads_built_name = any(sign in environ.get(name, "") for name in ("BASH_ENV", "ENV") for sign in "$`")
    if not text or reads_built_name or any(re.search(_LISTS_OR_BUILDS, one) for one in (text, bare)):
        return {environment.WHOLE, *filter(environment.is_ignored, names)}
    return names | OF_SHELLS


def ignored_variables_in(texts: Iterable[bytes]) -> set[str]:
    """The variables named in any texts that environment.WHOLE leaves out."""
    return {name.decode() for text in texts for name in re.findall(_IGNORED, text)}


def changing_variable(texts: Iterable[bytes]) -> str:
    """The first variable in these texts that has another value each time; empty if there is none."""
    found = (re.search(_CHANGING, text) for text in texts)
    return next((match[0].decode() for match in found if match), "")


def uses_arguments(texts: Iterable[bytes]) -> bool:
    """Whether a script may do more with its arguments than `exec` another program with all of them."""
    return any(re.search(_ARGUMENTS, re.sub(_EXEC_OF_ALL, b"", text)) for text in texts)


def program_started(path: str) -> str:
    """The program that a script of only assignments and `exec PROGRAM words "$@"` starts; or empty."""
    first, _, text = text_of(path).replace(b"\\\n", b" ").partition(b"\n")
    command = re.search(_EXEC_OF_ALL, text)
    if not re.match(rb"#!.*\b(?:ba|da)?sh$", first) or not command:
        return ""
    others = text[: command.start()] + text[command.end() :]
    if not all(re.fullmatch(_PLAIN_LINE, line) for line in others.splitlines()):
        return ""
    program = os.fsdecode(command[1].strip().partition(b" ")[0]).strip("\"'")
    return "" if re.search(r"[$\"'\\]", program) else program
