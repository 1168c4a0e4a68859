"""Below a base directory nvcc gets relative paths, as with ccache, and so sees the same in every checkout.

`__FILE__`, messages, depfiles and line tables name what the compiler was given. Absolute paths of inputs and
include directories below NVCCACHE_BASE_DIR become relative to the working directory; all other arguments stay
as they are. Part of the hot path where a base directory is set.
"""

from __future__ import annotations

import itertools

from nvccache.commandline.tokens import INPUT, Argument, UnknownOption, scan
from nvccache.records.base_dir import base_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTS = frozenset(["include-path", "system-include", "pre-include"])


def relative_arguments(arguments: Sequence[str], base_dir: str, cwd: str) -> list[str]:
    """The arguments for nvcc: as typed if the working directory is not below the base directory."""
    base, scanned = base_of(base_dir, cwd), scan(arguments)
    if isinstance(scanned, UnknownOption) or not base:
        return list(arguments)
    bases = (base_dir.rstrip("/"), base)
    return [token for argument in scanned for token in _tokens(argument, bases, cwd)]


def _tokens(argument: Argument, bases: tuple[str, str], cwd: str) -> tuple[str, ...]:
    value = argument.value
    if argument.name == INPUT:
        return (_relative(argument.tokens[0], bases, cwd),)
    if argument.name not in _LISTS or not value or '"' in value:
        return argument.tokens
    changed = ",".join(_relative(path, bases, cwd) for path in value.split(","))
    return (*argument.tokens[:-1], argument.tokens[-1].removesuffix(value) + changed)


def _relative(path: str, bases: tuple[str, str], cwd: str) -> str:
    """The path from the working directory; behind the directories above both, it is as typed.

    So links in it, and `..` behind them, still lead where they lead.
    """
    for base in bases:
        if _is_below(path, base):
            parts, own = (bases[1] + path[len(base) :]).split("/"), cwd.split("/")
            pairs = zip(parts, own, strict=False)
            common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            relative = "/".join([".."] * (len(own) - common) + parts[common:]) or "."
            return path if relative[0] in "-/" else relative
    return path


def _is_below(path: str, base: str) -> bool:
    return len(base) > 1 and f"{path}/".startswith(f"{base}/")
