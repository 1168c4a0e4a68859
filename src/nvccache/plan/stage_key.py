"""The components of a stage's key: everything that its result depends on and that is known before the run.

Whatever else the tool reads and queries is observed while it runs, and stored as an input record
(stage_inputs.py). A superfluous component prevents hits, but never causes a wrong one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from nvccache.files import elf, keys, presence
from nvccache.files.keys import KeyComponent
from nvccache.plan.model import Stage
from nvccache.store.store import Store
from nvccache.toolkit import toolchain

MODULE_IDS = "module ids"
_FORBIDDEN = "forbidden"  # stands for the digest of a file that cannot be read
# The role of the source's name, which affects messages, but no PTX, stub or C++ text (tried on 13.0).
_SOURCE_NAME = "source name"


def of_stage(
    stage: Stage,
    input_digests: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    store: Store,
    dated_files: Sequence[str] = (),
    module_ids: Sequence[str] = (),
) -> list[KeyComponent]:
    """Everything on which a stage's result depends, as far as it is known before the stage runs.

    `input_digests` are the digests of the intermediates that it reads or includes, in a fixed order;
    `dated_files` are files whose date and size affect the result; `module_ids` are the ids in its inputs,
    which the digests leave out. Raises OSError if its tool or one of its files cannot be read.
    """
    program = toolchain.program_of(stage.argv[0], environ)
    is_known = is_known_by_content(stage, program)
    where = () if is_known else (program, os.path.realpath(program))
    found: list[KeyComponent] = [
        ("stage", (stage.kind,)),
        ("tool", (toolchain.digest_of_program(program, store), *where)),
        ("arguments", stage.key_argv),
        ("inputs", tuple(input_digests)),
        ("files", tuple(_file_parts(stage))),
    ]
    if is_known:
        # A record names the libraries that were loaded. The same tool in another place may load others.
        own = toolchain.own_directories(program, environ)
        found += [("library path", tuple(own))] if own else []
    if module_ids:
        found.append((MODULE_IDS, tuple(module_ids)))
    if stage.grammar.sees_directory:
        # Compilers take the name of the working directory from PWD if that variable is correct.
        found.append(("directory", (cwd, environ.get("PWD", ""))))
    if stage.grammar.sees_names:
        found.append(("names", tuple(_visible_names(stage))))
    if dated_files:
        found.append(("dates", tuple(map(presence.date_and_size, dated_files))))
    return found


def _visible_names(stage: Stage) -> list[str]:
    """The names that outputs may contain: base names, or the path of a product that is written in place."""
    names = [os.path.basename(path) for path in stage.inputs]
    for output in stage.outputs if stage.grammar.sees_output_names else ():
        names.append(output.path if output.is_in_place else os.path.basename(output.path))
    return names


def is_known_by_content(stage: Stage, program: str) -> bool:
    """Whether keys identify a stage's tool by its content alone, not by its path. Raises OSError.

    A script, or a tool that finds files relative to itself, is identified by its path, too.
    """
    return stage.tool.is_located_anywhere and elf.is_elf(program)


def by_meaning(
    stage: Stage, components: Iterable[KeyComponent], digests: Sequence[str]
) -> list[KeyComponent]:
    """The components of the meaning key: with `digests` for the inputs, and without the source's name.

    Such keys are only for results without messages, since messages contain that name.
    """
    others = {"inputs": ("meaning", *digests), "arguments": _without_source_name(stage)}
    return [(tag, others.get(tag, parts)) for tag, parts in components]


def _without_source_name(stage: Stage) -> tuple[str, ...]:
    roles = stage.grammar.names
    return tuple(
        f"<{_SOURCE_NAME}>" if roles.get(option) == _SOURCE_NAME else token
        for option, token in zip(("", *stage.key_argv), stage.key_argv, strict=False)
    )


def key_of(components: Sequence[KeyComponent]) -> str:
    return keys.key_of("stage", components)


def files_in_key(stage: Stage) -> tuple[str, ...]:
    """The files named by arguments, if they need not be observed since the key contains their content."""
    return stage.possible_files if stage.tool.is_located_anywhere else ()


def _file_parts(stage: Stage) -> list[str]:
    """The files named by arguments, each with the digest of its content."""
    parts = []
    for path in stage.possible_files:
        if toolchain.is_regular_file(path):
            try:
                parts += [path, keys.digest_file(path)]
            except PermissionError:
                parts += [path, _FORBIDDEN]  # the tool cannot read it either
    return parts
