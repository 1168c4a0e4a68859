"""How two keys differ, as clauses for `nvccache explain`, for calls and stages alike.

A key is a digest and cannot be taken apart, so its components, or digests of them, are kept next to it
(object_record.py). Only phrases differences; finds no records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nvccache import environment
from nvccache.commandline import redaction
from nvccache.explain.object_record import Component, Part
from nvccache.records import facts, input_records
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import LIBRARY, PROGRAM, InputRecord
from nvccache.values import dataclass

LINE_OF_TOOL = "its command line"
# Tag -> the clause for a name that is new, for one with another value, and for one that is gone.
_NAME_CLAUSES = {
    "files": ("`{}` is now read", "`{}` changed", "`{}` is no longer read"),
    "libraries": ("the library `{}` is now read", "the library `{}` changed",
                  "the library `{}` is no longer read"),
    "inputs": ("it now reads {}", "{} changed", "it no longer reads {}"),
    "dates": ("", "the date of `{}` changed", ""),
    "base directory": ("`{}` was set", "`{}` changed", "`{}` was unset"),
}  # fmt: skip
_OTHER_CLAUSES = {
    "output names": "`-o`, `-odir` or `-MF` was added or removed",
    "module ids": "its module id changed",
    "names": "its intermediate files have other names",
}
_TARGETS = re.compile(
    r"--?(?:gencode|generate-code|(?:gpu-)?(?:arch(?:itecture)?|code))\b|-D__CUDA_ARCH_LIST__="
)
_KIND_WORDS = {PROGRAM: "the program ", LIBRARY: "the library "}


@dataclass(slots=True)
class ComponentDifference:
    """How the parts under one tag changed; with none added or removed, they are in another order."""

    tag: str
    added: list[Part]
    removed: list[Part]


def differences(now: Sequence[Component], before: Sequence[Component]) -> list[ComponentDifference]:
    """A difference for each tag whose parts differ, in the order of tags."""
    new, old = dict(now), dict(before)
    changed = []
    for tag in dict.fromkeys((*new, *old)):
        parts, former = new.get(tag, []), old.get(tag, [])
        if parts != former:
            added, removed = Counter(parts) - Counter(former), Counter(former) - Counter(parts)
            changed.append(ComponentDifference(tag, list(added.elements()), list(removed.elements())))
    return changed


def clauses(difference: ComponentDifference, line: str) -> list[str]:
    """What changed; `line` names the command line."""
    tag, added, removed = difference.tag, difference.added, difference.removed
    texts, texts_before = ([text for text, _ in parts if text] for parts in (added, removed))
    if tag == "arguments":
        return _argument_clauses(added, removed, line)
    if tag == "directory":
        if texts and texts_before:
            return [f"the working directory changed from `{texts_before[0]}`"]
        # If only one of the keys has a directory, an option makes it matter.
        return ["the environment variable `PWD` was set or unset"] if added and removed else []
    if tag == "nvcc":
        return [f"nvcc is now `{''.join(texts)}` instead of `{''.join(texts_before)}`"]
    if tag == "tool":
        if texts[:1] == texts_before[:1]:
            return [f"the program `{texts[0]}` changed" if texts else "its program changed"]
        return [f"its program is `{texts[0]}`" + (f" instead of `{texts_before[0]}`" if texts_before else "")]
    if not added and not removed:
        return [f"the order of its {tag} changed"]
    if not texts and not texts_before:
        return [_OTHER_CLAUSES.get(tag, f"its {tag} changed")]
    if_new, if_other, if_gone = _NAME_CLAUSES.get(tag, ("its {} changed",) * 3)
    new, old = dict(added), dict(removed)
    changes = [(if_other if name in old else if_new).format(name) for name in new]
    changes += [if_gone.format(name) for name in old if name not in new]
    return list(filter(None, changes))


def _argument_clauses(added: Sequence[Part], removed: Sequence[Part], line: str) -> list[str]:
    """How the arguments of a command line changed; an option that replaced another is shown with it."""
    new, old = (Counter(text for text, _ in parts) for parts in (added, removed))
    changed = new & old  # they look the same, but their hidden values differ
    new, old = new - changed, old - changed
    names = [text.removesuffix(redaction.HIDDEN).removesuffix("=") for text in changed]
    changes = [
        f"the value of `{name}` changed" if name else f"an argument of {line} changed" for name in names
    ]
    targets, targets_before = _targets_in(new), _targets_in(old)
    if targets < targets_before or targets_before < targets:
        word = "added" if targets_before < targets else "removed"
        changes += [f"`sm_{target}` was {word}" for target in sorted(targets ^ targets_before)]
        new, old = (Counter(filter(_has_no_target, texts.elements())) for texts in (new, old))
    if new.total() == old.total() == 1 and redaction.HIDDEN not in "".join((*new, *old)):
        return [*changes, f"`{next(iter(new))}` replaced `{next(iter(old))}`"]
    changes += [f"`{text}` was added to {line}" for text in new.elements()]
    changes += [f"`{text}` was removed from {line}" for text in old.elements()]
    return changes or [f"{line} was reordered"]


def _targets_in(texts: Iterable[str]) -> set[str]:
    """The architectures that options name: `80` for `-gencode arch=compute_80,code=sm_80`."""
    options = " ".join(text for text in texts if _TARGETS.match(text))
    lists = re.findall(r"_LIST__=([\d,]+)", options)
    return {
        *re.findall(r"\bsm_(\d+[a-z]?)", options),
        *(each[:-1] for each in ",".join(lists).split(",") if each),
    }


def _has_no_target(text: str) -> bool:
    return not _TARGETS.match(text)


def input_clauses(recorded: InputRecord, now: CurrentState, environ: Mapping[str, str]) -> list[str]:
    """What changed of the inputs of a call or a stage since they were recorded, as clauses."""
    changes = []
    for difference in input_records.differences(recorded, now):
        path = difference.path
        if difference.what == "variable":
            changes.append(_variable_clause(path, recorded, environ))
            continue
        clause = facts.sentence(difference.what).format(f"`{path.removeprefix('./').removesuffix('/.')}`")
        if difference.what in ("changed", "gone") and path in recorded.files:
            clause = _KIND_WORDS.get(recorded.kinds[recorded.files.index(path)], "") + clause
        changes.append(clause)
    return changes


def _variable_clause(name: str, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if name.endswith(environment.WHOLE):
        return "the environment changed, and all of it matters if a script or an unknown program takes part"
    was_set = name == "PATH" or environment.is_set(dict(recorded.variables).get(name, ""))
    change = "was unset" if name not in environ else "changed" if was_set else "was set"
    return f"the environment variable `{name}` {change}"
