"""How two keys differ, as clauses for `nvccache explain`, for calls and stages alike.

A key is a digest and cannot be taken apart, so its components, or digests of them, are kept next to it
(object_record.py). Only phrases differences; finds none.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nvccache import environment
from nvccache.commandline import redaction
from nvccache.records import facts
from nvccache.records.facts import Difference
from nvccache.records.input_records import LIBRARY, PROGRAM, InputRecord
from nvccache.values import dataclass

Part = tuple[str, str]  # what may be shown of a part, and what distinguishes it from parts that look the same

Component = tuple[str, Sequence[Part]]  # a tag, and the parts under it

BASE_DIRECTORY = "base directory"
_DIGITS = "0123456789"
LINE_OF_TOOL = "its command line"
_LISTS = ("--image", "-I", "-isystem", "-L", "-l")  # options that can be repeated


def of_arguments(difference: ComponentDifference, line: str) -> list[str]:
    """How the arguments of a command line changed; `line` names it.

    An option's old and new value are named together if both may be shown.
    """
    added, removed = list(difference.added), list(difference.removed)
    found = []
    for part in difference.added:
        option = _option(part[0])
        new = [other for other in added if _option(other[0]) == option]
        old = [other for other in removed if _option(other[0]) == option]
        is_one = len(new) == len(old) == 1 and not option.startswith(_LISTS)
        if is_one and redaction.HIDDEN not in part[0] + old[0][0]:
            clause = "{} replaced {}" if option else "its source is {} instead of {}"
            found.append(clause.format(f"`{part[0]}`", f"`{old[0][0]}`"))
            added.remove(part)
            removed.remove(old[0])
    new_ones, old_ones = (Counter([shown for shown, _ in parts]) for parts in (added, removed))
    changed = new_ones & old_ones  # they look the same, but their hidden values differ
    return [
        *found,
        *(f"`{shown}` was added to {line}" for shown in (new_ones - changed).elements()),
        *(f"`{shown}` was removed from {line}" for shown in (old_ones - changed).elements()),
        *(_with_other_value(shown, line) for shown in changed.elements()),
        *([f"{line} was reordered"] if difference.is_reordered else []),
    ]


def of_base_directory(difference: ComponentDifference) -> str:
    change = "changed" if difference.added and difference.removed else "was set"
    return f"`NVCCACHE_BASE_DIR` {change if difference.added else 'was unset'}"


def _option(shown: str) -> str:
    """The name of an option, without its value; empty for a file."""
    return shown.partition("=")[0].partition(" ")[0].rstrip(_DIGITS) if shown[:1] == "-" else ""


def _with_other_value(shown: str, line: str) -> str:
    name = shown.removesuffix(redaction.HIDDEN).removesuffix("=")
    return f"the value of `{name}` changed" if name else f"an argument of {line} changed"


def of_variables(difference: ComponentDifference) -> list[str]:
    """How variables changed, by name."""
    clauses = _of_names(difference, "was set", "was unset")
    return [f"the environment variable {clauses[name]}" for name in sorted(clauses)]


def of_files(difference: ComponentDifference, what: str = "") -> list[str]:
    """How files changed, by name; `what` is put before each."""
    clauses = _of_names(difference, "is now read", "is no longer read")
    return [f"{what}{clause}" for clause in clauses.values()]


def _of_names(difference: ComponentDifference, if_added: str, if_removed: str) -> dict[str, str]:
    new, old = dict(difference.added), dict(difference.removed)
    return {
        name: f"`{name}` {if_added if name not in old else 'changed' if name in new else if_removed}"
        for name in (*new, *old)
    }


def of_input_record(difference: Difference, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if difference.what == "variable":
        return _of_variable(difference.path, recorded, environ)
    clause = facts.sentence(difference.what).format(f"`{_shown(difference, recorded)}`")
    is_of_file = difference.what in ("changed", "gone")
    return _role_of(difference.path, recorded) + clause if is_of_file else clause


def _of_variable(name: str, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if name.endswith(environment.WHOLE):
        return "the environment changed, and all of it matters if a script or an unknown program takes part"
    if name not in environ:
        return f"the environment variable `{name}` was unset"
    was_set = any(is_name == name and environment.is_set(digest) for is_name, digest in recorded.variables)
    return f"the environment variable `{name}` {'changed' if was_set or name == 'PATH' else 'was set'}"


def _role_of(path: str, recorded: InputRecord) -> str:
    """The kind of the file, followed by a space; or empty."""
    kind = recorded.kinds[recorded.files.index(path)] if path in recorded.files else ""
    if kind == PROGRAM:
        return "the program "
    if kind == LIBRARY:
        is_libm = os.path.basename(path).startswith("libm.")
        return "the mathematics library " if is_libm else "the library "
    return ""


def _shown(difference: Difference, recorded: InputRecord) -> str:
    """The path to show: for a directory that has appeared, the header in it that is now found first."""
    path = difference.path
    if difference.what == "appeared" and os.path.isdir(path):
        for file in recorded.files:
            parts = file.split("/")
            for start in range(len(parts)):
                candidate = os.path.join(path, *parts[start:])
                if parts[start] and os.path.isfile(candidate) and candidate != file:
                    return candidate.removeprefix("./")
    return path.removeprefix("./").removesuffix("/.")


@dataclass(slots=True)
class ComponentDifference:
    """How the parts under one tag changed."""

    tag: str
    added: list[Part]
    removed: list[Part]
    is_reordered: bool  # whether the others are in another order

    @property
    def is_hidden(self) -> bool:
        """Whether it may only be shown that something changed."""
        return any(not shown for shown, _ in (*self.added, *self.removed))


def differences(now: Iterable[Component], before: Iterable[Component]) -> list[ComponentDifference]:
    """A difference for each tag whose parts differ, in the order of tags."""
    new, old = _by_tag(now), _by_tag(before)
    found = []
    for tag in dict.fromkeys((*new, *old)):
        parts, former = new.get(tag, []), old.get(tag, [])
        if parts != former:
            added, kept = _apart(parts, Counter(former))
            removed, kept_before = _apart(former, Counter(parts))
            found.append(ComponentDifference(tag, added, removed, kept != kept_before))
    return found


def _apart(parts: Iterable[Part], others: Counter[Part]) -> tuple[list[Part], list[Part]]:
    """Those parts that are not among the others, and those that are, each in order."""
    alone: list[Part] = []
    common: list[Part] = []
    for part in parts:
        (common if others[part] > 0 else alone).append(part)
        others[part] -= 1
    return alone, common


def _by_tag(components: Iterable[Component]) -> dict[str, list[Part]]:
    """The parts of all components of each tag, in order."""
    found: dict[str, list[Part]] = {}
    for tag, parts in components:
        found.setdefault(tag, []).extend(parts)
    return found
