"""Checks of files that wrappers leave, grow, lock or remove beside the products."""

from __future__ import annotations

from guarded.table import OBSERVED, OBSERVER, OBSERVER_LOG, Guard

SIDE_FILES = "tests/scenarios/test_side_files.py --every-case"

GUARDS = [
    Guard(
        "side files: stages that append are no hits",
        "publish_stage.py",
        "if grown:",
        "if False:",
        SIDE_FILES,
        "whole",
    ),
    Guard(
        "side files: wrappers run in turns",
        "tasks.py",
        "if _may_do_anything(task) and any(",
        "if False and any(",
        SIDE_FILES,
        "turns",
    ),
    Guard(
        "side files: kept intermediates behind a known wrapper",
        "pipeline.py",
        "problem = keep.problem(context.plan.stages, request.invocation.keeps_in)",
        "problem = None",
        SIDE_FILES,
        "kept and known and not unknown",
    ),
    Guard(
        "side files: kept intermediates behind an unknown wrapper",
        "runner.py",
        "if _names_intermediates(task.stage, self._execution):",
        "if False:",
        SIDE_FILES,
        "kept and unknown",
    ),
    Guard(
        "side files: kept intermediates in compressed sections",
        "runner.py",
        "scratch in content or elf.hides_text(content)",
        "scratch in content",
        SIDE_FILES,
        "kept and compressed",
    ),
    Guard(
        "side files: what was not there when it was made",
        "stage_inputs.py",
        "filter(self._was_absent, process.absent)",
        "()",
        SIDE_FILES,
        "to_be_had and mkdir",
    ),
    Guard(
        "side files: links to nowhere",
        "lookups.py",
        "self._plain.add(path)  # a link",
        "pass  # a link",
        SIDE_FILES,
        "to_be_had and link",
    ),
    Guard(
        "side files: a link to nowhere that cannot be made anew",
        "observer_log.py",
        "process.links.add(path)  # one that",
        "pass  # one that",
        OBSERVER_LOG,
        "made_anew",
    ),
    Guard(
        "side files: what is removed",
        "process_checks.py",
        "sorted(process.removed)",
        "()",
        OBSERVED,
        "is_removed",
    ),
    Guard(
        "side files: what a run removes of its own",
        "observer_log.py",
        "if self._from_root(path) in self._written_from_root:",
        "if False:",
        OBSERVER_LOG,
        "what_has_gone",
    ),
    Guard("observer: what goes", "src/native/observer/files.c", "'z'", "'e'", OBSERVER, "what_has_gone"),
    Guard(
        "observer: what was not there",
        "src/native/observer/files.c",
        "if (kind == 'W')",
        "if (0)",
        OBSERVER,
        "taken",
    ),
    Guard(
        "observer: what was in the way",
        "src/native/observer/files.c",
        "kind != 'u' && is_told_by_names(kept)",
        "0",
        OBSERVER,
        "taken and mkdir",
    ),
    Guard(
        "observer: what would have been replaced",
        "src/native/observer/files.c",
        "if (lay && !result)",
        "if (0)",
        OBSERVER,
        "gone and replace",
    ),
]
