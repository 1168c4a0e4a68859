"""nvlink: links the device code of objects, archives and libraries into one image per architecture.

With -dlto it compiles their code, with libnvvm.so below -nvvmpath. What it searches for and reads is
observed. That includes libraries of its toolkit, so its results are only valid for a toolkit at this path.
"""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never

_COMPILER_PATH = "-nvvmpath"


def grammar_of(argv: Sequence[str]) -> Grammar:
    registration = {"--register-link-binaries": "reg.c"}
    makes_ptx = "-emit-ptx" in argv  # then it ends before it registers anything
    return Grammar(
        kind="nvlink",
        writes={"-o": "cubin"} | ({} if makes_ptx else registration),
        names={"--host-ccbin": "host compiler"} | (registration if makes_ptx else {}),
        ignored=frozenset(registration.values()),
        is_cached=not any(token.startswith(("-optf", "--options-file")) for token in argv),
        dates_linked_sources=compiles(argv),
    )


def compiles(argv: Sequence[str]) -> bool:
    """Whether it compiles what it links: only then does it get the path of libnvvm."""
    return argv[0].rpartition("/")[2] == "nvlink" and any(token.startswith(_COMPILER_PATH) for token in argv)


TOOL = Tool(
    kind="nvlink",
    program="nvlink",
    grammar_of=grammar_of,
    folds_mathematics=True,
    lines_matter=never,
    reports_user_errors=True,
)
