"""Command lines as they may be shown and kept: without the values of macros and of words for other programs.

Builds hand keys, tokens and passwords to compilers as macros (`-DAPI_KEY=...`) and to what they start
as options (`-Xcompiler --token=...`). What is known to be harmless is shown: names, paths, and the values of
nvcc's own options. Knows which options these are, and nothing of where command lines are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nvccache.commandline import tokens
from nvccache.commandline.tokens import Argument

HIDDEN = "…"
# nvcc's options whose values are somebody else's business.
_OPEN = frozenset(
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
# The name alone, with its parameters: a blank separates it from its value as "=" does.
_MACRO = r"\s*[^\s=(]*(?:\([\w\s,.$]*\))?"
_OPTIONS = r"(?:[, ]*-[^, =]*)*[, ]*"
_BETWEEN = r"""[,\s"'\\]+"""
# In the text of a command: the words of option files are in no argument of the call.
_MACRO_IN_QUOTES = r"""(-D\s*["'][A-Za-z_][^\s"'=]*[=\s])[^"'\\]*(?:\\.[^"'\\]*)*"""
_MACRO_IN_TEXT = (
    r"""(-D\s*[A-Za-z_](?:[^\s"'=\\]|\\\S)*(?:=|\\\s))(?:"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*'|\\.|[^\s"'\\])+"""
)
# Options of the tools that nvcc starts whose values are nvcc's own words, architectures and paths. What a
# user hands to a tool comes among them.
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
_SHORTEST_SECRET = 4  # characters; replacing shorter ones in a text would leave nothing of it


def shown(argument: Argument) -> str:
    """The words of an argument; of what follows an open option only what must be an option itself."""
    if argument.name not in _OPEN:
        return " ".join(argument.tokens)
    *before, last = argument.tokens
    value = argument.value if argument.name != tokens.FORWARDED and argument.value else last
    shown_value = _beginning(_MACRO if argument.name == "define-macro" else _OPTIONS, value)
    return " ".join([*before, last[: len(last) - len(value)] + shown_value])


def _beginning(pattern: str, text: str) -> str:
    """What of a text the pattern matches, and a sign that there is more."""
    match = re.match(pattern, text)
    kept = match[0] if match else ""
    sign = "=" if text[len(kept) :].startswith("=") else ""
    return kept + sign + (HIDDEN if len(kept) < len(text) else "")


def line(argv: Iterable[str]) -> list[str]:
    """A command line word by word, whether or not nvcc would understand it."""
    found = []
    is_before_value = False  # of an option that nvcc does not know, and which may have one
    for argument in _arguments(list(argv)):
        is_value = (
            is_before_value and argument.name == tokens.INPUT and not argument.tokens[0].endswith(_FILES)
        )
        found.append(HIDDEN if is_value else shown(argument))
        is_before_value = argument.name == tokens.FORWARDED
    return found


def files_in(argv: Iterable[str]) -> list[str]:
    """The words that name inputs by their endings, whether or not nvcc would understand the line."""
    return [
        argument.tokens[0]
        for argument in _arguments(list(argv))
        if argument.name == tokens.INPUT and argument.tokens[0].endswith(_FILES)
    ]


def of_tool(argv: Iterable[str]) -> list[tuple[str, str]]:
    """The words of a tool's command line, each option with its value: as it may be shown, and all of it."""
    found = []
    words = iter(argv)
    for word in words:
        whole = word
        if word == "-D":
            whole += next(words, "")
        elif word in _OWN_VALUES:
            whole = f"{word} {next(words, '')}"
        found.append((_shown_of_tool(whole), whole))
    return found


def _shown_of_tool(word: str) -> str:
    name = re.split("[= ]", word, maxsplit=1)[0]
    if name in _OWN_VALUES or word.startswith(_GLUED_VALUES) or word.endswith(_FILES) or word[:1] == "<":
        return word
    return f"-D{_beginning(_MACRO, word[2:])}" if word.startswith("-D") else _beginning(_NAME, word)


def hide(text: str, argv: Iterable[str], environ: Mapping[str, str]) -> str:
    """A text without the values of macros, and without what else `line` leaves out of this call's words."""
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
    """As nvcc splits them; a word that it would reject, and one that may belong to it, by themselves."""
    found: list[Argument] = []
    while argv:
        scanned = tokens.scan(argv)
        if not isinstance(scanned, tokens.UnknownOption):
            return [*found, *scanned]
        position = argv.index(scanned.word)
        before = tokens.scan(argv[:position])
        found += [] if isinstance(before, tokens.UnknownOption) else before
        found.append(tokens.Argument(tokens.FORWARDED, scanned.word, (scanned.word,)))
        argv = argv[position + 1 :]
    return found
