"""What plain nvcc's tools make of a source with the module id that nvccache composes.

nvcc cannot be given an id, but its commands can: `--dryrun` prints them, and they read an id from its file if
they are not told to write one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from installations import launcher_of_tree
from nvccache.plan.stages.tool import GENERATES_ID
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Command, Transcript
from workspaces import Workspace

_ID_IN_LOG = re.compile(rb", module id (\w+) in (.+)$", re.MULTILINE)


def compile_with_ids(
    workspace: Workspace,
    line: Sequence[str | Path],
    keep: Path,
    cwd: Path | None,
    variables: Mapping[str, str],
) -> int:
    """Run a compile's own commands with nvccache's ids; the first status that is not 0."""
    for path in keep.iterdir():
        path.unlink()
    log = keep / "log"
    (keep / "empty").touch()
    ours = [
        launcher_of_tree(),
        workspace.nvcc,
        *line,
        "-optf",
        keep / "empty",
    ]  # which makes it no direct hit
    done = workspace.run(ours, cwd, **{**variables, "NVCCACHE_READONLY": "1", "NVCCACHE_LOG": str(log)})
    (keep / "empty").unlink()
    ids = _ID_IN_LOG.findall(log.read_bytes()) if log.exists() else []
    if done.status or not ids:
        return done.status or 1
    log.unlink()
    for identifier, name in ids:
        (keep / os.fsdecode(name)).write_bytes(identifier)
    keeping = (*line, "-keep", "-keep-dir", keep)
    printed = workspace.run([workspace.nvcc, *keeping, "--dryrun"], cwd, **variables).stderr
    transcript = dryrun.read(printed)
    assert isinstance(transcript, Transcript)
    for step in transcript.steps:
        if isinstance(step, Command):
            argv = [token for token in step.argv if token != GENERATES_ID]
            ran = workspace.run(argv, cwd, **{**variables, **transcript.variables_of_commands})
            if ran.status:
                return ran.status
    return 0
