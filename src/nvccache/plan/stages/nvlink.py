"""nvlink: links the device code of objects, archives and libraries into one image per architecture.

With -dlto, it also compiles code, using the libnvvm.so below -nvvmpath. The files it looks up and reads are
observed, including libraries of its toolkit, so a result is only valid for a toolkit at the same path.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never

_COMPILER_PATH = "-nvvmpath"


def grammar_of(argv: Sequence[str]) -> Grammar:
    registration = {"--register-link-binaries": "reg.c"}
    makes_ptx = "-emit-ptx" in argv  # nvlink then ends before it writes the file for --register-link-binaries
    return Grammar(
        kind="nvlink",
        writes={"-o": "cubin"} | ({} if makes_ptx else registration),
        names={"--host-ccbin": "host compiler"} | (registration if makes_ptx else {}),
        ignored=frozenset(registration.values()),
        is_cached=not any(token.startswith(("-optf", "--options-file")) for token in argv),
        dates_linked_sources=compiles(argv),
    )


def compiles(argv: Sequence[str]) -> bool:
    """Whether nvlink compiles what it links; only then does nvcc pass it the path of libnvvm."""
    return argv[0].rpartition("/")[2] == "nvlink" and any(token.startswith(_COMPILER_PATH) for token in argv)


TOOL = Tool(
    kind="nvlink",
    program="nvlink",
    grammar_of=grammar_of,
    folds_mathematics=True,
    lines_matter=never,
    reports_user_errors=True,
)
