"""ptxas: assembles PTX for one real architecture. Newer toolkits also run it only to check PTX."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never

_LINE_INFORMATION = frozenset({"-g", "--device-debug", "-lineinfo", "--generate-line-info"})
_OUTPUTS = {"-o": "cubin", "--output-file": "cubin"}
_ONLY_CHECKS = "-arch=compute_"
_VERSION = rb"(?m)^\s*\.version\s+(\d+)\.(\d+)"
_FILE = rb'(?m)^\s*\.file\s+\d+\s+"([^"\n]*)"'
_FIRST_VERSION_WITHOUT_DATES = (9, 5)  # the PTX version of CUDA 13.5


def grammar_of(argv: Sequence[str]) -> Grammar:
    # If no option names the output, ptxas writes `elf.o` in the working directory.
    names_output = any(token.partition("=")[0] in _OUTPUTS for token in argv)
    has_known_output = names_output or any(token.startswith(_ONLY_CHECKS) for token in argv)
    is_debug = "-g" in argv or "--device-debug" in argv
    return Grammar(
        kind="ptxas",
        writes=_OUTPUTS,
        is_cached=has_known_output,
        stays_in_order=not has_known_output,
        # From 13.0 on, a debug cubin contains ptxas's arguments with base names (section .note.nv.tkinfo).
        sees_names=is_debug,
        sees_output_names=is_debug,
        dates_sources=not _LINE_INFORMATION.isdisjoint(argv),
    )


def dated_sources(ptx: bytes) -> list[str]:
    """The files whose date and size ptxas writes into the line table for this PTX.

    On CUDA 11.8 to 13.2, the cubin changes with these dates even if the PTX is the same; not on 13.5.
    """
    version = re.search(_VERSION, ptx)
    if version and (int(version[1]), int(version[2])) >= _FIRST_VERSION_WITHOUT_DATES:
        return []
    return [os.fsdecode(name) for name in re.findall(_FILE, ptx)]


TOOL = Tool(
    kind="ptxas",
    program="ptxas",
    grammar_of=grammar_of,
    priority=4,
    # Most builds list architectures from old to new, and ptxas takes longest for new ones. If the longest
    # run started last, the other cores would be idle meanwhile.
    starts_in_reverse=True,
    memory_factor=256,
    is_heavy=True,
    # ptxas reads only the PTX. If it writes dates of sources into line information, its key contains them.
    may_run_elsewhere=True,
    variables=("DUMP_KNOBS_TO_FILE", "OPENSSL_ia32cap"),
    is_located_anywhere=True,
    folds_mathematics=True,
    dated_sources=dated_sources,
    lines_matter=never,
)
