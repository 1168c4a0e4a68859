"""Checks of `remote_execution`, and of what a call takes from other machines."""

from __future__ import annotations

from guarded.table import Guard

LAUNCHER, ENGINE, WORK, SHIPPED = "test_prefix.py", "test_engine.py", "test_work.py", "test_shipped.py"
SENT = "tests/scenarios/test_remote_execution.py"

GUARDS = [
    Guard(
        "away: as the worker reported it",
        "landing.py",
        'if f"{zlib.crc32(content):08x} {len(content)}" != line:',
        "if False:",
        LAUNCHER,
        "as_the_worker_made_it",
    ),
    Guard(
        "away: the status on the worker",
        "landing.py",
        'if lines[0] != "0":',
        "if False:",
        LAUNCHER,
        "as_the_worker_made_it",
    ),
    Guard(
        "away: no links",
        "landing.py",
        "if os.path.islink(path):",
        "if False:",
        LAUNCHER,
        "as_the_worker_made_it",
    ),
    Guard(
        "away: the tools in the shared directory",
        "prefix.py",
        'if shipped.digest_of_file(f"{folder}/{file.name}", self._store) != file.digest:',
        "if False:",
        LAUNCHER,
        "checked",
    ),
    Guard(
        "away: what the variables of its tool ask for",
        "work.py",
        "asked = [name for name in tool.variables if environ.get(name)]",
        "asked = []",
        WORK,
        "variable",
    ),
    Guard(
        "away: results that tell of directories",
        "work.py",
        "if grammar.sees_directory or tool.lines_matter(stage.argv):",
        "if False:",
        WORK,
        "directories",
    ),
    Guard(
        "away: results that tell of names or dates",
        "work.py",
        "if grammar.sees_names or grammar.dates_sources or grammar.dates_what_it_names:",
        "if False:",
        WORK,
        "names_or_dates",
    ),
    Guard(
        "away: files from outside",
        "work.py",
        "if not all(path.startswith(inside) for path in read):",
        "if False:",
        WORK,
        "outside",
    ),
    Guard(
        "away: a loader that is told what to load",
        "shipped.py",
        'raise AwayError(faults.FAILED, "the environment tells the dynamic loader what to load")',
        "pass",
        SHIPPED,
        "told",
    ),
    Guard(
        "away: the digest of what an engine sends",
        "client.py",
        'raise AwayError(faults.WRONG_RESULT, "what it sends has another digest")',
        "pass",
        ENGINE,
        "trouble or size",
    ),
    Guard(
        "away: the place in other outputs",
        "send_stage.py",
        "if output.role != _TELLS_PLACE and _PLACE in back.outputs[self._name(output)]:",
        "if False:",
        "test_send_stage.py",
        "tells_where",
    ),
    Guard(
        "away: ids of this process",
        "send_stage.py",
        "if may_generate and not execution.seeds.takes_seed(stage):",
        "if False:",
        "test_send_stage.py",
        "made_of_the_process",
    ),
    Guard(
        "away: an engine that loses all",
        "executor.py",
        "if count >= _MOST_LOST:",
        "if False:",
        "test_losses.py",
        "loses",
    ),
]
