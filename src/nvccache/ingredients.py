"""What goes into a stage's key, by name: one walk that makes the key and can explain it.

Leaving something out hands somebody another compile's result; putting in too much only costs a hit.
The environment variables are those that the tools were seen to ask for (a getenv interposer on CUDA
11.8 to 13.5 and gcc 12) and that can reach an output. TERM, NOCOLOR and GCC_COLORS cannot, since no
tool that is run here has a terminal, unless an option asks for colours all the same; the names of
temporary directories reach nothing.
"""

from __future__ import annotations

import os

from nvccache import keys, toolchain
from nvccache.stages import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.plan import Stage
    from nvccache.store import Store

Ingredient = tuple[str, tuple[str, ...]]

_EDG = ("EDG_BASE", "EDG_MODULES_PATH", "USR_INCLUDE")
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
VARIABLES = {
    "cudafe": (*_EDG, *_LOCALE),
    "cicc": (
        *_EDG,
        *_LOCALE,
        "LIBNVVM_DISABLE_CONCURRENT_API",
        "LLVM_OVERRIDE_PRODUCER",
        "NVVMCCWIZ",
        "NVVM_IR_VER_CHK",
        "NV_NVVM_VERSION",
    ),
    "ptxas": (),
    "fatbinary": (),
    "host_compile": (
        *_LOCALE,
        "BINUTILS_ROOT",
        "COMPILER_PATH",
        "CPATH",
        "CPLUS_INCLUDE_PATH",
        "C_INCLUDE_PATH",
        "GCC_COMPARE_DEBUG",
        "GCC_EXEC_PREFIX",
        "GCC_EXTRA_DIAGNOSTIC_OUTPUT",
        "GCC_ROOT",
        "G++_ROOT",
        "SOURCE_DATE_EPOCH",
    ),
}
COLOUR_VARIABLES = ("GCC_COLORS", "GCC_URLS", "TERM", "TERM_URLS")


def of_stage(
    stage: Stage,
    input_digests: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    store: Store,
    dated_files: Sequence[str] = (),
) -> list[Ingredient]:
    """Everything a stage's result depends on, except headers that only running it reveals.

    `input_digests` are those of the intermediates it reads, included ones too, in a fixed order;
    `dated_files` are those whose date and size count. Raises OSError when its tool or one of its files
    cannot be read.
    """
    found: list[Ingredient] = [
        ("stage", (stage.kind,)),
        ("tool", (_identity(stage, environ, store),)),
        ("arguments", stage.key_words),
        ("inputs", tuple(input_digests)),
        ("files", tuple(_file_parts(stage))),
        ("environment", tuple(_variables(stage, environ))),
    ]
    if stage.grammar.sees_directory:
        # Compilers take the name of the working directory from PWD where that is right.
        found.append(("directory", (cwd, environ.get("PWD", ""))))
    if stage.grammar.sees_names:
        written = [output.path for output in stage.outputs] if stage.kind == "ptxas" else []
        found.append(("names", tuple(os.path.basename(path) for path in (*stage.inputs, *written))))
    if dated_files:
        found.append(("dates", tuple(map(toolchain.date_and_size, dated_files))))
    if stage.kind == "host_compile" and host.depends_on_processor(stage.words):
        found.append(("processor", (toolchain.describe_processor(),)))
    return found


def key_of(ingredients: Sequence[Ingredient]) -> str:
    builder = keys.KeyBuilder("stage")
    for tag, parts in ingredients:
        builder.add(tag, *parts)
    return builder.key()


def _identity(stage: Stage, environ: Mapping[str, str], store: Store) -> str:
    identify = toolchain.identify_host_compiler if stage.kind == "host_compile" else toolchain.identify
    return identify(stage.words[0], environ, store)


def _file_parts(stage: Stage) -> list[str]:
    """The files that words of the command name, each with the digest of its content."""
    parts = []
    for path in stage.possible_files:
        if toolchain.is_regular_file(path):
            parts += [path, keys.digest_file(path)]
    return parts


def _variables(stage: Stage, environ: Mapping[str, str]) -> list[str]:
    names = VARIABLES[stage.kind]
    if stage.kind == "host_compile" and host.asks_for_colours(stage.words):
        names += COLOUR_VARIABLES
    return [f"{name}={environ[name]}" for name in names if name in environ]
