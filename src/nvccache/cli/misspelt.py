"""Which command was most likely meant by a word that is none.

The launcher asks for words that may be a compiler's name, before it looks for such a program; this imports
nothing that costs until a word is in doubt.
"""

from __future__ import annotations

import re

from nvccache import real_nvcc
from nvccache.cli.names import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ALIKE = 0.75
# Parts of a name such as `x86_64-linux-gnu-g++-12`: whoever types one of these means a compiler.
_COMPILERS = (
    *("c++", "cc", "ccache", "cl", "clang", "clang++", "g++", "gcc", "hipcc", "icc", "icpc", "icpx", "icx"),
    *("mpic++", "mpicc", "mpicxx", "nvc", "nvc++", "nvcc", "sccache"),
)
_SEPARATORS = re.compile(r"[^a-z+]+")


def nearest(word: str, names: Iterable[str] = COMMANDS) -> str:
    """The command whose name is most like the word; empty if none is."""
    import difflib

    found = difflib.get_close_matches(word.lower(), list(names), 1, _ALIKE)
    return found[0] if found else ""


def is_command(word: str, environ: Mapping[str, str]) -> bool:
    """Whether a word that could name a compiler is none on PATH, and like the name of a command."""
    if not set(_COMPILERS).isdisjoint(_SEPARATORS.split(word.lower())):
        return False
    return bool(nearest(word)) and not real_nvcc.find(word, "", environ)
