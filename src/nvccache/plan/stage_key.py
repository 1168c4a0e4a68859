"""What goes into a stage's key, by name: all that is known of it before it runs.

What its tool reads and asks for in addition is observed when it runs, and stands in an input record
(stage_inputs.py). Putting in too much only costs a hit.
"""

from __future__ import annotations

import os

from nvccache.files import keys, presence
from nvccache.toolkit import loader, processor, toolchain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nvccache.files.keys import KeyComponent
    from nvccache.plan.model import Stage
    from nvccache.store.store import Store

_FORBIDDEN = "forbidden"  # in place of a digest
# The role of a name that only messages have, and an id (tried on 13.0: PTX, stubs and C++ text are the same).
_SOURCE_NAME = "source name"


def of_stage(
    stage: Stage,
    input_digests: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    store: Store,
    dated_files: Sequence[str] = (),
    source_paths: Sequence[str] = (),
) -> list[KeyComponent]:
    """Everything a stage's result depends on, except what only running it reveals.

    `input_digests` are those of the intermediates it reads, included ones too, in a fixed order;
    `dated_files` are those whose date and size count; `source_paths` show in its inputs, but not in their
    digests. Raises OSError when its tool or one of its files cannot be read.
    """
    found: list[KeyComponent] = [
        ("stage", (stage.kind,)),
        ("tool", tuple(tool_parts(stage, environ, store))),
        ("arguments", stage.key_argv),
        ("inputs", tuple(input_digests)),
        ("files", tuple(_file_parts(stage))),
    ]
    if stage.becomes:
        found.append(("wrapper", stage.becomes))
    if source_paths:
        found.append(("sources", tuple(source_paths)))
    for tag, parts_of in stage.tool.key_components.items():
        found.append((tag, tuple(parts_of(stage.argv, environ, store))))
    if stage.grammar.sees_directory:
        # Compilers take the name of the working directory from PWD where that is right.
        found.append(("directory", (cwd, environ.get("PWD", ""))))
    if stage.grammar.sees_names:
        found.append(("names", tuple(_visible_names(stage))))
    limits = presence.tight_limits()
    if limits:
        found.append(("limits", limits))
    if dated_files:
        found.append(("dates", tuple(map(presence.date_and_size, dated_files))))
    return found


def _visible_names(stage: Stage) -> list[str]:
    """The base names of intermediates, and the path of a product that the tool itself writes in its place."""
    names = [os.path.basename(path) for path in stage.inputs]
    for output in stage.outputs if stage.grammar.sees_output_names else ():
        names.append(output.path if output.is_in_place else os.path.basename(output.path))
    return names


def tool_parts(stage: Stage, environ: Mapping[str, str], store: Store) -> list[str]:
    """What identifies the tool. Compilers and scripts find other files by where they lie themselves."""
    parts = [toolchain.identify(stage.argv[0], environ, store)]
    loaded = loaded_by(stage, environ, store)
    if loaded is None:
        program = toolchain.resolve(stage.argv[0], environ.get("PATH", ""))
        return [*parts, program, os.path.realpath(program)]
    parts += [toolchain.digest_of_program(path, store) for path in loaded.files]
    if stage.tool.folds_mathematics and loaded.has_libm:
        parts.append(processor.features(loaded.loader, environ, store, is_of_tool=True))
    elif stage.tool.folds_mathematics:
        parts.append(processor.unclassified(environ))
    return parts


def loaded_by(stage: Stage, environ: Mapping[str, str], store: Store) -> loader.Loaded | None:
    """What a tool loads whose content stands for it; None for other tools, and for a script in its place.

    Raises OSError.
    """
    if not stage.is_located_anywhere:
        return None
    known = loader.of_program(toolchain.resolve(stage.argv[0], environ.get("PATH", "")), environ, store)
    return known if known.is_known else None


def by_meaning(
    stage: Stage, components: Iterable[KeyComponent], digests: Sequence[str]
) -> list[KeyComponent]:
    """The same for a silent result: with these inputs, and without the name that only messages have."""
    others = {"inputs": ("meaning", *digests), "arguments": _without_source_name(stage)}
    return [(tag, others.get(tag, parts)) for tag, parts in components]


def _without_source_name(stage: Stage) -> tuple[str, ...]:
    roles = stage.grammar.names
    # Of a source that is a link, the id has the name of the link, and the checksum of the path it leads to.
    is_in_id = "source path" not in stage.grammar.ignored
    return tuple(
        f"<{_SOURCE_NAME}>{os.path.basename(word) if is_in_id else ''}"
        if roles.get(option) == _SOURCE_NAME
        else word
        for option, word in zip(("", *stage.key_argv), stage.key_argv, strict=False)
    )


def key_of(components: Sequence[KeyComponent]) -> str:
    return keys.key_of("stage", components)


def files_in_key(stage: Stage, environ: Mapping[str, str]) -> list[str]:
    """The files that a command names or finds whose content is in the key; of some only device code."""
    if not stage.is_located_anywhere:
        return []
    return [*stage.possible_files, *stage.tool.found_files(stage.argv, environ)]


def _file_parts(stage: Stage) -> list[str]:
    """The files that words of the command name, each with the digest of its content."""
    parts = []
    for path in stage.possible_files:
        if toolchain.is_regular_file(path):
            try:
                parts += [path, stage.tool.digest_of_named(path)]
            except PermissionError:
                parts += [path, _FORBIDDEN]  # to the tool as well
    return parts
