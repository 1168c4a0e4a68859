"""How a call differs from an earlier one, as clauses for `nvccache explain`. The caller finds the records.

A key is a digest, from which its components cannot be restored. Therefore miss_reason.py stores the
components, or digests of them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nvccache import environment, log
from nvccache.explain.miss_reason import Component, Part
from nvccache.records import facts, input_records
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import LIBRARY, PROGRAM, InputRecord

_LINE = "the command line"
_TARGETS = r"--?(?:gencode|generate-code|(?:gpu-)?(?:arch(?:itecture)?|code))\b|-D__CUDA_ARCH_LIST__="
_KIND_WORDS = {PROGRAM: "the program ", LIBRARY: "the library "}


def key_clauses(now: Sequence[Component], before: Sequence[Component]) -> list[str]:
    """Clauses that say how the components of two keys differ, in the order of the tags."""
    new, old = dict(now), dict(before)
    clauses = []
    for tag in dict.fromkeys((*new, *old)):
        parts, former = new.get(tag, []), old.get(tag, [])
        if parts != former:
            added, removed = Counter(parts) - Counter(former), Counter(former) - Counter(parts)
            clauses += _clauses(tag, list(added.elements()), list(removed.elements()))
    return clauses


def _clauses(tag: str, added: list[Part], removed: list[Part]) -> list[str]:
    """Clauses that say how the parts under one tag changed; if none was added or removed, their order did."""
    if tag == "argument":
        return _argument_clauses(added, removed)
    if tag == "nvcc":
        return [f"nvcc is now `{added[0][0]}` instead of `{removed[0][0]}`"]
    if tag == "base directory":
        return [f"`NVCCACHE_BASE_DIR` was {'set' if added else 'unset'}"]
    if tag == "output names":
        return ["`-o`, `-odir` or `-MF` was added or removed"]
    if tag == "directory":
        here, former = ([text for text, _ in parts if text] for parts in (added, removed))
        if here and former:
            return [f"the working directory changed from `{former[0]}`"]
        return ["the environment variable `PWD` was set or unset"]
    return [f"the {tag} changed"]


def _argument_clauses(added: Sequence[Part], removed: Sequence[Part]) -> list[str]:
    """Clauses about changed arguments. If one option replaced another, a single clause names both."""
    new, old = (Counter(text for text, _ in parts) for parts in (added, removed))
    changed = new & old  # texts that look the same, since the values that differ are hidden
    new, old = new - changed, old - changed
    names = [text.removesuffix(log.HIDDEN).removesuffix("=") for text in changed]
    clauses = [f"the value of `{name}` changed" for name in names]
    targets, targets_before = _targets_in(new), _targets_in(old)
    if targets < targets_before or targets_before < targets:
        word = "added" if targets_before < targets else "removed"
        clauses += [f"`sm_{target}` was {word}" for target in sorted(targets ^ targets_before)]
        is_target = re.compile(_TARGETS).match
        new, old = (Counter(itertools.filterfalse(is_target, each.elements())) for each in (new, old))
    if new.total() == old.total() == 1 and log.HIDDEN not in "".join((*new, *old)):
        return [*clauses, f"`{next(iter(new))}` replaced `{next(iter(old))}`"]
    clauses += [f"`{text}` was added to {_LINE}" for text in new.elements()]
    clauses += [f"`{text}` was removed from {_LINE}" for text in old.elements()]
    return clauses or [f"{_LINE} was reordered"]


def _targets_in(texts: Iterable[str]) -> set[str]:
    """The architectures that options name, such as `80` for `-gencode arch=compute_80,code=sm_80`."""
    options = " ".join(text for text in texts if re.match(_TARGETS, text))
    lists = re.findall(r"_LIST__=([\d,]+)", options)
    return {
        *re.findall(r"\bsm_(\d+[a-z]?)", options),
        *(each[:-1] for listed in lists for each in listed.split(",") if each),
    }


def input_clauses(recorded: InputRecord, now: CurrentState, environ: Mapping[str, str]) -> list[str]:
    """Clauses that say which inputs of a call have changed since they were recorded."""
    clauses = []
    for difference in input_records.differences(recorded, now):
        path = difference.path
        if difference.what == "variable":
            clauses.append(_variable_clause(path, recorded, environ))
            continue
        clause = facts.sentence(difference.what).format(f"`{path.removeprefix('./').removesuffix('/.')}`")
        if difference.what in ("changed", "gone") and path in recorded.files:
            clause = _KIND_WORDS.get(recorded.kinds[recorded.files.index(path)], "") + clause
        clauses.append(clause)
    return clauses


def _variable_clause(name: str, recorded: InputRecord, environ: Mapping[str, str]) -> str:
    if name.endswith(environment.WHOLE):
        return "an environment variable changed that a script or an unknown program may have read"
    was_set = name == "PATH" or environment.is_set(dict(recorded.variables).get(name, ""))
    change = "was unset" if name not in environ else "changed" if was_set else "was set"
    return f"the environment variable `{name}` {change}"
