"""Redacts command lines for display and storage: hides values of macros, and of options for other programs.

Builds pass API keys and passwords to compilers as macros (`-DAPI_KEY=...`), and to other programs as options
(`-Xcompiler --token=...`). Only what is known to be harmless is shown: names, paths, and values of nvcc's own
options. Unaware of where command lines are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nvccache.commandline import tokens
from nvccache.commandline.tokens import Argument

HIDDEN = "…"
# nvcc's options whose values may contain anything.
_OPAQUE = frozenset(
    [
        *"""
    archive-options compiler-options cudafe-options define-macro fatbin-options linker-options
    nvlink-options nvvm-options ptxas-options run-args
    """.split(),
        tokens.FORWARDED,
    ]
)
_FILES = tuple(
    """
    .cu .c .cc .cpp .cxx .ptx .cubin .fatbin .o .obj .a .so .ltoir
    """.split()
)
# A macro's name with its parameters; a blank or "=" separates it from its value.
_MACRO = r"\s*[^\s=(]*(?:\([\w\s,.$]*\))?"
_OPTIONS = r"(?:[, ]*-[^, =]*)*[, ]*"
_BETWEEN = r"""[,\s"'\\]+"""
# For the text of a command, since it may contain tokens of option files, which are not in the call's argv.
_MACRO_IN_QUOTES = r"""(-D\s*["'][A-Za-z_][^\s"'=]*[=\s])[^"'\\]*(?:\\.[^"'\\]*)*"""
_MACRO_IN_TEXT = (
    r"""(-D\s*[A-Za-z_](?:[^\s"'=\\]|\\\S)*(?:=|\\\s))(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*'|\\.|[^\s"'\\])+"""
)
# Options of tools whose values come from nvcc, or are architectures and paths. Those of users are among them.
_OWN_VALUES = frozenset(
    """
    -arch --arch --gpu-name -maxreg -maxrregcount --maxrregcount -O --opt-level -std --std -x -m -march
    -mtune -ftz -prec_div -prec_sqrt -fmad --gnu_version -I -isystem -iquote -idirafter -include
    -imacros -L -l -o --orig_src_file_name --orig_src_path_name --include_file_name --stub_file_name
    --module_id_file_name --gen_c_file_name --gen_device_file_name --create --image3 --embedded-fatbin
    --register-link-binaries
    """.split()
)
_GLUED_VALUES = ("-I", "-L", "-l", "-D__CUDA", "-D__NVCC")
_NAME = r"-[^, =]*"
_SHORTEST_SECRET = 4  # characters; replacing shorter ones would make a text unreadable


def shown(argument: Argument) -> str:
    """An argument's tokens; of an opaque option's value, only names of macros and options."""
    if argument.name not in _OPAQUE:
        return " ".join(argument.tokens)
    *before, last = argument.tokens
    value = argument.value if argument.name != tokens.FORWARDED and argument.value else last
    shown_value = _beginning(_MACRO if argument.name == "define-macro" else _OPTIONS, value)
    return " ".join([*before, last[: len(last) - len(value)] + shown_value])


def _beginning(pattern: str, text: str) -> str:
    """The part of a text that the pattern matches, and a sign if there is more."""
    match = re.match(pattern, text)
    kept = match[0] if match else ""
    sign = "=" if text[len(kept) :].startswith("=") else ""
    return kept + sign + (HIDDEN if len(kept) < len(text) else "")


def line(argv: Iterable[str]) -> list[str]:
    """A redacted command line, valid or not, with one string per argument."""
    found = []
    is_before_value = False  # after an option that nvcc does not know, which may have a value
    for argument in _arguments(list(argv)):
        is_value = (
            is_before_value and argument.name == tokens.INPUT and not argument.tokens[0].endswith(_FILES)
        )
        found.append(HIDDEN if is_value else shown(argument))
        is_before_value = argument.name == tokens.FORWARDED
    return found


def files_in(argv: Iterable[str]) -> list[str]:
    """Tokens that name inputs, by their suffixes, whether or not the command line is valid."""
    return [
        argument.tokens[0]
        for argument in _arguments(list(argv))
        if argument.name == tokens.INPUT and argument.tokens[0].endswith(_FILES)
    ]


def of_tool(argv: Iterable[str]) -> list[tuple[str, str]]:
    """A tool's tokens, each option joined with its value: redacted, and in full."""
    found = []
    rest = iter(argv)
    for token in rest:
        whole = token
        if token == "-D":
            whole += next(rest, "")
        elif token in _OWN_VALUES:
            whole = f"{token} {next(rest, '')}"
        found.append((_shown_of_tool(whole), whole))
    return found


def _shown_of_tool(token: str) -> str:
    name = re.split("[= ]", token, maxsplit=1)[0]
    if name in _OWN_VALUES or token.startswith(_GLUED_VALUES) or token.endswith(_FILES) or token[:1] == "<":
        return token
    return f"-D{_beginning(_MACRO, token[2:])}" if token.startswith("-D") else _beginning(_NAME, token)


def hide(text: str, argv: Iterable[str], environ: Mapping[str, str]) -> str:
    """Redact a text: values of macros, and what `line` hides of this call's arguments."""
    everything = list(argv)
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        everything += environ.get(name, "").split()
    secrets: set[str] = set()
    for argument in _arguments(everything):
        whole, visible = " ".join(argument.tokens), shown(argument).removesuffix(HIDDEN)
        if whole.startswith(visible):
            secrets.update(re.split(_BETWEEN, whole[len(visible) :]), [whole[len(visible) :].strip("\"'")])
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    text = re.sub(_MACRO_IN_QUOTES, rf"\1{HIDDEN}", text)
    return re.sub(_MACRO_IN_TEXT, rf"\1{HIDDEN}", text)


def _arguments(argv: list[str]) -> list[Argument]:
    """Split as by nvcc; a token that it would reject becomes a FORWARDED argument."""
    found: list[Argument] = []
    while argv:
        scanned = tokens.scan(argv)
        if not isinstance(scanned, tokens.UnknownOption):
            return [*found, *scanned]
        position = argv.index(scanned.token)
        before = tokens.scan(argv[:position])
        found += [] if isinstance(before, tokens.UnknownOption) else before
        found.append(tokens.Argument(tokens.FORWARDED, scanned.token, (scanned.token,)))
        argv = argv[position + 1 :]
    return found
