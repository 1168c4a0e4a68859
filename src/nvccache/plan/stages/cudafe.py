"""cudafe++: turns the preprocessed text of a TU into C++ for the host compiler."""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages import line_options
from nvccache.plan.stages.tool import SOURCE_NAMES, STUB_PLACEHOLDER, Grammar, Tool


def grammar_of(argv: Sequence[str]) -> Grammar:
    return Grammar(
        kind="cudafe",
        writes={"--gen_c_file_name": "cudafe1.cpp"},
        mentions={"--stub_file_name": "stub"},
        placeholders={"stub": STUB_PLACEHOLDER},
        names=SOURCE_NAMES,
        ignored=frozenset({"module id", "source path"}),  # the path is only part of the id (tried on 13.0)
    )


TOOL = Tool(
    kind="cudafe",
    program="cudafe++",
    grammar_of=grammar_of,
    priority=29,
    memory_factor=64,
    is_heavy=True,
    is_located_anywhere=True,
    is_found_by_meaning=True,
    lines_matter=line_options.matter_to_cuda_tool,
    reports_user_errors=True,
)
