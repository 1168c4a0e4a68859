"""cicc: compiles the device half of a TU for one virtual architecture to PTX, LTO-IR or OptiX-IR.

Its `.cudafe1.c` and `.cudafe1.gpu` files (up to hundreds of MiB) are not stored, since no stage reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages import line_options
from nvccache.plan.stages.tool import SOURCE_NAMES, Grammar, Tool

_LINE_INFO = frozenset({"-generate-line-info", "--generate-line-info", "-lineinfo"})
_LINE_OR_DEBUG_INFO = _LINE_INFO | {"-g"}


def grammar_of(argv: Sequence[str]) -> Grammar:
    writes = {
        "-o": "code",
        "-olto": "lto_ir",
        "--stub_file_name": "stub",
        "--gen_c_file_name": "device_c",
        "--gen_device_file_name": "gpu",
        "--tile_bc_file_name": "tilebc",  # 13.5's --enable-tile
    }
    has_lines = _has_lines(argv)
    return Grammar(
        kind="cicc",
        writes=writes,
        mentions={"--include_file_name": "fatbin.c", "--include_alt_file_name": "alternative fatbin.c"},
        names=SOURCE_NAMES,
        # The source's path occurs in the outputs only as part of debug or line information.
        ignored=frozenset({"module id"} if has_lines else {"module id", "source path"}),
        unread=frozenset({"device_c", "gpu"}),
        sees_directory=has_lines,
        joins_directory=has_lines and _has_only_line_info(argv),
    )


def _has_lines(argv: Sequence[str]) -> bool:
    return not _LINE_OR_DEBUG_INFO.isdisjoint(argv)


def _has_only_line_info(argv: Sequence[str]) -> bool:
    """Whether the PTX has line information (`.file`, `.loc`), but no debug information (tried on 13.0)."""
    return not line_options.matter_to_cuda_tool([token for token in argv if token not in _LINE_INFO])


TOOL = Tool(
    kind="cicc",
    program="cicc",
    grammar_of=grammar_of,
    priority=8,
    memory_factor=72,
    is_heavy=True,
    # cicc reads only preprocessed text, the module id and libdevice. The processor affects its result only
    # because libm chooses functions by processor, and that choice is in the key.
    may_run_elsewhere=True,
    variables=(
        *("AS_SECURE_LOG_FILE", "EDG_BASE", "EDG_MODULES_PATH", "LIBNVVM_DISABLE_CONCURRENT_API"),
        *("LLVM_OVERRIDE_PRODUCER", "NOCOLOR", "NVVMCCWIZ", "NVVM_IR_VER_CHK", "USR_INCLUDE", "bar"),
    ),
    is_located_anywhere=True,
    folds_mathematics=True,
    is_found_by_meaning=True,
    lines_matter=line_options.matter_to_cuda_tool,
    names_directory=lambda argv, cwd, pwd: _has_lines(argv),
    reports_user_errors=True,
)
