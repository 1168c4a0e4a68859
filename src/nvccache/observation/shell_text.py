"""What a shell may depend on by the text of its scripts: it takes variables from its environment unseen.

A variable can only reach a script that names it. Where text makes up names, or has others look, all of the
environment counts.
"""

from __future__ import annotations

import re

from nvccache import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(rb"[A-Za-z_]\w*")
_MADE_UP = re.compile(
    rb"\beval\b|\$\{!|\b(?:declare|typeset|compgen|printenv|env)\b"
    rb"|\b(?:(?:export|readonly)[ \t]+-\w*p|local[ \t]+-\w*n)\b"
    rb"|\b(?:set|export|readonly)[ \t]*(?:$|[;|&<>)`#}]|\d+[<>])"
    rb"|@P\}",  # expands what a value names
    re.MULTILINE,
)
# Known to a shell since it began: asking anew makes no call.
_ANEW = re.compile(rb"\$\$|\b(?:S?RANDOM|BASHPID|PPID|SECONDS|EPOCHSECONDS|EPOCHREALTIME)\b")
_MOST_NAMES = 3000
# What shells heed without a script that says so.
OF_SHELLS = (
    "BASHOPTS",
    "BASH_COMPAT",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "GLOBIGNORE",
    "HOME",
    "POSIXLY_CORRECT",
    "PS4",
    "SHELLOPTS",
)


def variables_in(texts: Iterable[bytes]) -> set[str]:
    """The variables that these texts may depend on; environment.WHOLE among them if that is not known."""
    text = b"\n".join(texts).replace(b"\\\n", b"")
    names = {name.decode() for name in _NAME.findall(text)}
    if not text or _MADE_UP.search(text) or len(names) > _MOST_NAMES:
        return {environment.WHOLE}
    return {name for name in names if not environment.is_ignored(name) and name != "PATH"} | {*OF_SHELLS}


def asks_anew(texts: Iterable[bytes]) -> str:
    """The first word in these texts that stands for something else each time; empty if there is none."""
    found = (_ANEW.search(text) for text in texts)
    return next((match[0].decode() for match in found if match), "")
