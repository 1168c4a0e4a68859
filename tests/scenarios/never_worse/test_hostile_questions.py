"""Records that ask what cannot be answered, and paths of no regular file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kept_records
from nvccache.store import sections, store
from scenarios.never_worse.primed_cache import check_compiles, compile_cached
from scenarios.support.cases import OLD_ENOUGH
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default

LONGEST = 60  # seconds; opening a FIFO without a writer never returns
MACHINE_OF_INPUT_RECORD = 15
# As a child, since it must not hang or eat up this process.
ASK = """\
import resource, sys
from nvccache.files import keys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    keys.digest_file(sys.argv[1])
except OSError:
    print("refused")
"""


@pytest.mark.parametrize("name", ["fifo", "/dev/zero", "directory", "missing"])
def test_nothing_but_a_regular_file_is_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    argv = [sys.executable, "-c", ASK, tmp_path / name]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=LONGEST)
    assert (done.returncode, done.stdout) == (0, b"refused\n"), done.stderr.decode()


def forge(recorded: Workspace, topic: str, subject: str, answer: str = "x") -> None:
    """Have every input record ask this of the machine, and no replay record be there, which asks nothing."""

    def change(parts: list[bytes]) -> None:
        parts[MACHINE_OF_INPUT_RECORD] = sections.join([topic, subject, answer])

    kept_records.change_inputs(recorded.cache, change)
    for path in recorded.cache.glob(f"{store.REPLAY}/*/*"):
        path.unlink()


@pytest.fixture
def recorded(primed: tuple[Workspace, bytes]) -> tuple[Workspace, bytes]:
    """The same with a replay record that holds: the source is rewritten for each test."""
    workspace, expected = primed
    time.sleep(OLD_ENOUGH)
    check_compiles(workspace, expected)
    return primed


def test_unanswered_facts_do_not_hold(recorded: tuple[Workspace, bytes]) -> None:
    """Not even where the record says that there is no answer."""
    workspace, expected = recorded
    forge(workspace, "nonsense", "x", "")
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, counters.outcome) == (0, "miss")
    assert (workspace.directory / "a.o").read_bytes() == expected
