"""fatbinary: packs the images of all architectures into one container, binary or as C text to include."""

from __future__ import annotations

from collections.abc import Sequence

from nvccache.plan.stages.tool import Grammar, Tool, never


def grammar_of(argv: Sequence[str]) -> Grammar:
    is_embedded = any(token.startswith("--embedded-fatbin") for token in argv)
    return Grammar(
        kind="fatbinary",
        writes={"--create": "fatbin", "--embedded-fatbin": "fatbin.c"},
        names={"--ident": "identification"},
        # If the container is written as C text, its binary form is needed only with `-keep`.
        unread=frozenset({"fatbin"}) if is_embedded else frozenset(),
    )


TOOL = Tool(
    kind="fatbinary",
    program="fatbinary",
    grammar_of=grammar_of,
    memory_factor=4,
    is_located_anywhere=True,
    lines_matter=never,
)
