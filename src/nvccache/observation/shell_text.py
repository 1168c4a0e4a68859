"""The commands that a shell runs, and whether they are simple.

It cannot be observed which variables a shell reads. A simple text only sets variables and starts programs,
with plain words and perhaps all arguments, `"$@"`. So a shell that runs it depends only on variables
that shells themselves use. Any other text is assumed to depend on the whole environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence

from nvccache import environment
from nvccache.observation.observed_process import COMPILERS, Process

# Regular expressions are compiled where they are used, because most compiles start no shell.
_LARGEST_SCRIPT = 1 << 20
_LARGEST_ARGUMENT = 4096  # bytes; the observer cuts off longer arguments
_PLAIN_OPTIONS = r"-[efhuvx]+"  # with other options a shell may read the user's files or its input
_WORD = rb"(?:\"(?:[^\"`$\\]|\\[^\n])*\"|'[^']*'|[^\s\"'`$;&|()<>\\~*?\[{]|\\[^\n])+"
_COMMAND = rb"\s*(exec\s+)?(" + _WORD + rb")((?:\s+(?:" + _WORD + rb'|"\$@"))*)\s*'
_SETTING = rb"\s*(?:#.*|set -[eu]+|(?:export\s+)?(?!PATH=)[A-Za-z_]\w*=(?:" + _WORD + rb")?)?\s*"
# Matches `$$`, and `\$\$` as in `eval "echo \$\$"`, but not `\$$name`: a dollar sign and a variable.
_PROCESS_ID = rb"(?<!\\)(?:\\\\)*\$\$|\$\$(?![\w{])|\$\\+\$"
# Matches where `\` ends a line without continuing it, as in a comment, and null characters.
_NOT_CONTINUED = rb"\0|#.*\\\n|\\\\\n"
_CHANGING = _PROCESS_ID + rb"|\b(?:S?RANDOM|BASHPID|PPID|SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b"
OF_SHELLS = frozenset(  # variables that shells themselves use
    """
    BASHOPTS BASH_COMPAT BASH_ENV BASH_FUNC_* BASH_LOADABLES_PATH BASH_XTRACEFD ENV GLOBIGNORE GLOBSORT
    POSIXLY_CORRECT PS4 SHELLOPTS
    """.split()
)
_IGNORED = (
    rb"(?<!\w)(?:"
    + b"|".join(sorted((name.encode() for name in environment.OF_OTHERS - {"_"}), reverse=True))
    + rb")|(?<=[\"'{])_(?=[\"'}])|(?<=\$)_(?!\w)"
)
_PREVIOUS_DIRECTORY = rb"~-|\bcd\s+(?:-[LP]\s+)?[\"']?-(?![\w-])"


def text_of(path: str) -> bytes:
    """The text of a regular file; empty for others, such as `/dev/stdin`, since reading could block."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as stream:
                return stream.read(_LARGEST_SCRIPT)
    except OSError:
        pass
    return b""


def texts_of(process: Process) -> list[bytes]:
    """The texts of the files that a shell read and of its `-c` command; empty if not all are known."""
    texts, arguments = list(map(text_of, process.files)), process.arguments[1:]
    if arguments[:1] == ["-c"] and len(arguments) > 1 and len(os.fsencode(arguments[1])) < _LARGEST_ARGUMENT:
        texts.append(os.fsencode(arguments[1]))
    else:
        script = arguments[1:2] if arguments and re.fullmatch(_PLAIN_OPTIONS, arguments[0]) else arguments[:1]
        if not script or script[0][:1] in ("", "-", "+"):
            return []
        name = os.path.basename(script[0])  # bash also searches PATH for a script
        if not any(os.path.basename(path) == name for path in process.files):
            return []
    return texts if all(len(text) < _LARGEST_SCRIPT for text in texts) else []


def is_simple(process: Process, texts: Sequence[bytes]) -> bool:
    """Whether a shell that runs these texts only sets variables and starts programs."""
    if not texts:
        return False
    name = process.arguments[0]
    # For a command over ssh, bash reads ~/.bashrc, unless it was called as `sh`.
    reads_home = name[:1] == "-" or (process.arguments[1:2] == ["-c"] and os.path.basename(name) == "bash")
    return not reads_home and all(_commands(text) is not None for text in texts)


def _commands(text: bytes) -> list[tuple[str, bool, bytes]] | None:
    """Each command's program, whether `exec` starts it, and its words; None if the text is not simple."""
    if re.search(_NOT_CONTINUED, text):
        return None
    found = []
    for line in text.replace(b"\\\n", b"").split(b"\n"):
        if re.fullmatch(_SETTING, line):
            continue
        command = re.fullmatch(_COMMAND, line)
        if not command:
            return None
        program = os.fsdecode(command[2]).strip("\"'")
        # The program must not be a command of the shell itself, nor a word that may become one.
        is_program = re.fullmatch(r"[^\"'\\=]*/[^\"'\\=]*", program) or Process(program).kind in COMPILERS
        if not command[1] and not is_program:
            return None
        found.append((program, bool(command[1]), command[3]))
    return found


def ignored_variables_in(texts: Collection[bytes]) -> set[str]:
    """The variables that environment.WHOLE leaves out although these texts name them."""
    names = {name.decode() for text in texts for name in re.findall(_IGNORED, text)}
    return names | {"OLDPWD" for text in texts if re.search(_PREVIOUS_DIRECTORY, text)}


def changing_variable(texts: Iterable[bytes]) -> str:
    """The first variable in these texts whose value differs each time; empty if there is none."""
    found = (re.search(_CHANGING, text) for text in texts)
    return next((match[0].decode().lstrip("\\") for match in found if match), "")


def command_started(path: str) -> list[str]:
    """The program and words of a script with only assignments and `exec PROGRAM words "$@"`; else empty."""
    text = text_of(path)
    commands = _commands(text) if re.match(rb"#!.*\b(?:ba|da)?sh\n", text) else None
    if not commands or len(commands) > 1:
        return []
    program, by_exec, words = commands[0]
    command = [program, *(os.fsdecode(word).strip("\"'") for word in words.split())]
    is_plain = not any(re.search(r"[\"'\\]", word) for word in command)  # quotation marks may hide an option
    return command if by_exec and b'"$@"' in words and is_plain else []
