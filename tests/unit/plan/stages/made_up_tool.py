"""A made-up tool, described like the real ones: see test_made_up_tool.py."""

from __future__ import annotations

from nvccache.plan.stages.tool import Grammar, Tool, never


def grammar_of(argv):
    return Grammar(kind="weave", writes={"-o": "woven"})


TOOL = Tool(
    kind="weave",
    program="weaver",
    grammar_of=grammar_of,
    priority=31,
    starts_in_reverse=True,
    memory_factor=5000,
    is_heavy=True,
    lines_matter=never,
    reports_user_errors=True,
)
