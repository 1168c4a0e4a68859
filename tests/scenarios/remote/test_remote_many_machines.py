"""Many machines that fill one remote at once: nothing is lost, and one that comes later compiles nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

import pytest

from installations import launcher_of_tree
from scenarios.remote.machines import has_queued
from scenarios.remote.remote_units import SOURCE, TWO
from scenarios.remote.remotes import remote
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import OLD_ENOUGH

UNITS = ("unit0.cu", "unit1.cu", "unit2.cu")
OPTIONS = ((), TWO)  # every second machine has the other one


def check_out(on):
    """A project of units with different kernels; some are common to all machines."""
    for name in UNITS:
        on.write(name, SOURCE + f"__global__ void kernel(int *p) {{ *p = {name[4]}; }}\n")


def begin(on, options):
    """Compile all units in turn, in a background process."""
    words = ["-Iinclude", *options, *HOST_OPTIONS]
    lines = [[str(launcher_of_tree()), on.nvcc, "-c", name, "-o", f"{name}.o", *words] for name in UNITS]
    script = "import subprocess, sys; sys.exit(max(subprocess.call(line) for line in " + repr(lines) + "))"
    return subprocess.Popen(
        [*on.prefix, sys.executable, "-c", script],
        cwd=on.directory,
        env=on.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def send_what_is_left(on):
    """A busy machine may have found the remote too slow, and stopped using it."""
    on.wait_for_uploader()
    on.let_outages_end()
    for _ in range(3):
        if has_queued(on.cache):
            on.command("remote", "push")
    assert not has_queued(on.cache), on.command("remote", "status").stdout.decode()


@pytest.mark.by_default("files-3")
@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("kind", ["files", "directory", "redis", "nginx", "rgw"])
def test_a_later_machine_compiles_nothing(tmp_path, new_machine, kind, count):
    """Records are merged by reading, merging and writing; pairs lost by that are put there again."""
    with remote(kind, tmp_path / "remote") as shared:
        machines = [
            new_machine(f"m{number}", f"{shared.url},rw", **shared.environ) for number in range(count)
        ]
        for each in machines:
            check_out(each)
        time.sleep(OLD_ENOUGH)
        builds = [begin(each, OPTIONS[number % 2]) for number, each in enumerate(machines)]
        for build in builds:
            output = build.communicate(timeout=600)[0]
            assert (build.returncode, output) == (0, b"")
        for each in machines:
            send_what_is_left(each)
        for number, options in enumerate(OPTIONS):
            late = new_machine(f"late{number}", shared.url, **shared.environ)
            check_out(late)
            for name in UNITS:
                line = partial(late.compile, name, "-o", f"{name}.o", "-Iinclude", *options)
                assert late.since(line)[1].outcome == "direct_hit"
