"""A plan as text, for people to review."""

from __future__ import annotations

import shlex

from nvccache.commandline.invocation import Bypass
from nvccache.plan.model import DependencyFile, Plan, Stage

_WIDTH = 100


def render(outcome: Plan | Bypass) -> str:
    if isinstance(outcome, Bypass):
        return f"left to nvcc: {outcome.reason}\n"
    lines = []
    for step in outcome.steps:
        lines += _stage(step) if isinstance(step, Stage) else _dependency_file(step)
    lines += [
        f"{path} ends up in {' '.join(map(shlex.quote, ends))}"
        for path, ends in sorted(outcome.destinations.items())
    ]
    return "".join(f"{line}\n" for line in lines)


def _dependency_file(step: DependencyFile) -> list[str]:
    return ["dependency file", f"  path {step.path}", *(f"  from {path}" for path in step.preprocessed)]


def _stage(stage: Stage) -> list[str]:
    lines = [f"{stage.kind} {stage.argv[0]}"]
    if stage.grammar.is_cached:
        lines += _wrapped("  words", stage.key_argv)
    lines += [f"  reads {path}" for path in stage.inputs]
    for output in stage.outputs:
        wanted = f" -> {output.destination}" if output.destination else ""
        unread = " (unread)" if output.role in stage.grammar.unread else ""
        lines.append(f"  writes {output.role} {output.path}{wanted}{unread}")
    lines += [f"  mentions {name}" for name in stage.mentions]
    if stage.grammar.is_cached and stage.possible_files:
        lines += _wrapped("  may name files:", tuple(dict.fromkeys(stage.possible_files)))
    for trait in ("sees_directory", "sees_names", "may_include"):
        if getattr(stage.grammar, trait):
            lines.append(f"  {trait}")
    return lines


def _wrapped(title: str, argv: tuple[str, ...]) -> list[str]:
    lines = [title]
    for word in map(shlex.quote, argv):
        if len(lines[-1]) + len(word) >= _WIDTH:
            lines.append("   ")
        lines[-1] += f" {word}"
    return lines
