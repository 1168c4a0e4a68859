"""Hides values of macros in command lines that are stored, logged or shown.

Builds pass API keys and passwords to compilers as macros (`-DAPI_KEY=...`), also through options for other
programs. Unaware of where command lines are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nvccache.commandline import tokens
from nvccache.commandline.tokens import Argument

HIDDEN = "…"
_FILES = tuple(".cu .c .cc .cpp .cxx .ptx .cubin .fatbin .o .obj .a .so .ltoir".split())
# A macro's name with its parameters; a blank or "=" separates it from its value.
_MACRO = re.compile(r"""(?<![^\s,"'=])-D[\s"']*[^\s"'=(]*(?:\([\w\s,.$]*\))?=?""")
_OWN_MACROS = ("-D__CUDA", "-D__NVCC")
_SHORTEST_SECRET = 4  # characters; replacing shorter ones would make a text unreadable


def hide(text: str) -> str:
    """A text up to the value of its first macro."""
    macro = _MACRO.search(text)
    return text[: macro.end()] + HIDDEN if macro and macro.end() < len(text) else text


def hide_detail(detail: str) -> str:
    """What a bypass is due to; of an option that may be unknown, only the name."""
    name = re.match(r"[^=\s]*=?", detail) if detail.startswith("-") else None
    return name[0] + HIDDEN if name and name.end() < len(detail) else hide(detail)


def hide_values(text: str, argv: Iterable[str]) -> str:
    """A text without what is hidden of this call's arguments."""
    pairs = [(" ".join(argument.tokens), shown(argument)) for argument in arguments_of(argv)]
    secrets = [whole[len(visible) - 1 :] for whole, visible in pairs if visible.endswith(HIDDEN)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return text


def shown(argument: Argument) -> str:
    text = " ".join(argument.tokens)
    if argument.name != "define-macro" or not argument.value:
        return hide(text)
    return text.removesuffix(argument.value) + hide(f"-D{argument.value}")[2:]


def redacted_argument(parts: Sequence[str]) -> tuple[str, str]:
    """An argument in the key of a call (records/direct.py), redacted; and in full."""
    whole = tokens.spelled(*parts) if len(parts) > 1 else parts[0]
    return hide(whole), whole


def files_in(argv: Iterable[str]) -> list[str]:
    """Tokens that name inputs, by their suffixes, whether or not the command line is valid."""
    inputs = (argument.tokens[0] for argument in arguments_of(argv) if argument.name == tokens.INPUT)
    return [name for name in inputs if name.endswith(_FILES)]


def redacted_command(argv: Iterable[str]) -> list[tuple[str, str]]:
    """A tool's tokens, each option joined with its value: redacted, with macros in one word; and in full."""
    found: list[tuple[str, str]] = []
    option = ""
    for token in argv:
        is_value = option and token[:1] not in ("-", "<") and not token.endswith(_FILES)
        whole = f"{option} {token}" if is_value else token
        if is_value:
            del found[-1]
        visible = whole if whole.startswith(_OWN_MACROS) else hide(whole)
        found.append((f"-D{visible[3:]}" if visible.startswith("-D ") else visible, whole))
        option = token if token.startswith("-") else ""
    return found


def arguments_of(argv: Iterable[str]) -> list[Argument]:
    """Split as by nvcc, without the tokens that it would reject."""
    argv = list(argv)
    while isinstance(scanned := tokens.scan(argv), tokens.UnknownOption):
        argv = [token for token in argv if token != scanned.token]
    return scanned
