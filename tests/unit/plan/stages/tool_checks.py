"""Whether the descriptions of tools fit together."""

from __future__ import annotations

import re

from nvccache.plan.stages import OPAQUE
from nvccache.plan.stages.tool import TAGS, Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nvccache.plan.stages.tool import Tool

_WORD = re.compile(r"[a-z][a-z0-9_]*")  # as it stands in journals, where a tab or a point would divide it
_FLAG = ("is_", "tells_", "links_", "compiles_", "goes_", "waits_", "may_", "folds_", "shows_", "unlinks_")
_FUNCTIONS = (
    "grammar_of",
    "found_files",
    "digest_of_named",
    "lines_matter",
    "names_directory",
    "obstacle",
    "added_options",
)


def problems(tools: Sequence[Tool]) -> list[str]:
    """What is wrong with these descriptions, a clause each."""
    found: list[str] = []
    for attribute in ("kind", "program"):
        named = [value for tool in tools if (value := getattr(tool, attribute))]
        found += [
            f"{value!r} is the {attribute} of two" for value in sorted({*named}) if named.count(value) > 1
        ]
    kinds = {tool.kind for tool in tools}
    for tool in tools:
        found += [f"{tool.kind!r}: {problem}" for problem in (*_of_values(tool), *_of_sense(tool, kinds))]
    return found


def _of_values(tool: Tool) -> Iterator[str]:
    """Values that are none for their field; what the type checker knows may come from elsewhere."""
    kind: object = tool.kind
    if not isinstance(kind, str) or not _WORD.fullmatch(kind) or kind == OPAQUE:
        yield "its kind is no word, or taken"
    if "/" in tool.program:
        yield "its program is a path"
    if type(tool.memory_factor) is not int or tool.memory_factor < 1:
        yield "its memory factor is no positive number"
    if type(tool.priority) is not int or tool.priority < 0:
        yield "its priority is no number from 0 up"
    for name in tool.__slots__:
        if (name.startswith(_FLAG) or name == "complains") and not isinstance(getattr(tool, name), bool):
            yield f"{name} is neither true nor false"
    for name in _FUNCTIONS:
        if not callable(getattr(tool, name)):
            yield f"{name} cannot be called"
    for what, names in (("own roles", tool.own_roles), ("variables", tool.variables)):
        yield from _of_names(what, names)
    if type(tool.seconds_per_mib) is not float or not 0 <= tool.seconds_per_mib < 1000:
        yield "its seconds for a MiB are no number from 0.0 up"
    components: Mapping[str, object] = tool.key_components
    for tag, parts_of in components.items():
        if tag in TAGS or not _WORD.fullmatch(tag):
            yield f"the tag {tag!r} of a key component is no word, or taken"
        if not callable(parts_of):
            yield f"the key component {tag!r} cannot be called"


def _of_names(what: str, names: object) -> Iterator[str]:
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
        yield f"its {what} are no names"


def _of_sense(tool: Tool, kinds: set[str]) -> Iterator[str]:
    """Statements that contradict each other."""
    grammar: object = tool.grammar_of((tool.program or "c++",)) if callable(tool.grammar_of) else None
    kind = grammar.kind if isinstance(grammar, Grammar) else None
    if kind is None and (grammar is not None or tool.program):
        yield "what it reads a command line by is no Grammar"
    elif tool.program and kind != tool.kind:
        yield "its command lines are read as another kind"
    elif kind and kind not in kinds:
        yield f"its command lines are read as the unknown kind {kind!r}"
    if tool.may_run_elsewhere and not tool.is_located_anywhere:
        yield "it may run elsewhere, but where it lies counts"
    if tool.may_run_elsewhere != bool(tool.seconds_per_mib):
        yield "what it takes has to be known where it may run elsewhere, and only there"
    if tool.is_preprocessor and tool.is_found_by_meaning:
        yield "it cannot be found by the meaning of what it makes itself"
    if tool.links_program and tool.is_counted:
        yield "a link of programs runs each time, and would count as a miss"
