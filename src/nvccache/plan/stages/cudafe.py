"""cudafe++: turns the preprocessed text of a TU into C++ for the host compiler."""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages import line_options
from nvccache.plan.stages.tool import STUB_PLACEHOLDER, Grammar, Tool

_GENERATES_ID = "--gen_module_id_file"


def grammar_of(argv: Sequence[str]) -> Grammar:
    writes = {"--gen_c_file_name": "cudafe1.cpp"}
    reads: dict[str, str] = {}
    (writes if _GENERATES_ID in argv else reads)["--module_id_file_name"] = "module_id"
    return Grammar(
        kind="cudafe",
        writes=writes,
        reads=reads,
        mentions={"--stub_file_name": "stub"},
        placeholders={"stub": STUB_PLACEHOLDER},
        names={"--orig_src_file_name": "source name", "--orig_src_path_name": "source path"},
    )


TOOL = Tool(
    kind="cudafe",
    program="cudafe++",
    grammar_of=grammar_of,
    priority=29,
    memory_factor=64,
    is_heavy=True,
    own_roles=("cudafe1.cpp",),
    is_located_anywhere=True,
    is_found_by_meaning=True,
    lines_matter=line_options.matter_to_cuda_tool,
    reports_user_errors=True,
)
