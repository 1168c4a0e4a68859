"""ptxas: PTX to machine code for one real architecture; on newer toolkits also a check without output."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never

_LINE_INFORMATION = frozenset({"-g", "--device-debug", "-lineinfo", "--generate-line-info"})
_OUTPUTS = {"-o": "cubin", "--output-file": "cubin"}
_ONLY_CHECKS = "-arch=compute_"
_VERSION = re.compile(rb"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_FILE = re.compile(rb'^\s*\.file\s+\d+\s+"([^"\n]*)"', re.MULTILINE)
_FIRST_VERSION_WITHOUT_DATES = (9, 5)  # of PTX: that of CUDA 13.5


def grammar_of(argv: Sequence[str]) -> Grammar:
    # Machine code for which no name is given is written to `elf.o`, where ptxas is called.
    names_output = any(word.partition("=")[0] in _OUTPUTS for word in argv)
    has_known_output = names_output or any(word.startswith(_ONLY_CHECKS) for word in argv)
    is_debug = "-g" in argv or "--device-debug" in argv
    return Grammar(
        kind="ptxas",
        writes=_OUTPUTS,
        is_cached=has_known_output,
        stays_in_order=not has_known_output,
        # From 13.0 a debug cubin records ptxas's own command line, base names included (.note.nv.tkinfo).
        sees_names=is_debug,
        sees_output_names=is_debug,
        dates_sources=not _LINE_INFORMATION.isdisjoint(argv),
    )


def dated_sources(ptx: bytes) -> list[str]:
    """The files whose date and size ptxas writes into the line table of this text's cubin.

    Observed on CUDA 11.8 to 13.2: the cubin differs though the PTX is the same. 13.5 no longer does it.
    """
    version = _VERSION.search(ptx)
    if version and (int(version[1]), int(version[2])) >= _FIRST_VERSION_WITHOUT_DATES:
        return []
    return [os.fsdecode(name) for name in _FILE.findall(ptx)]


TOOL = Tool(
    kind="ptxas",
    program="ptxas",
    grammar_of=grammar_of,
    compiles_device_code=True,
    priority=4,
    # Architectures are mostly listed from old to new, ptxas takes longest for new ones, and a long one that
    # starts last leaves the other cores idle.
    goes_last_first=True,
    memory_factor=256,
    is_heavy=True,
    # It reads the PTX and nothing else; where line information dates sources, the dates are in its key.
    may_run_elsewhere=True,
    variables=("DUMP_KNOBS_TO_FILE", "OPENSSL_ia32cap"),
    seconds_per_mib=1.3,
    own_roles=("cubin",),
    is_located_anywhere=True,
    folds_mathematics=True,
    dated_sources=dated_sources,
    lines_matter=never,
)
