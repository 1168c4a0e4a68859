"""Many machines that fill one remote at once: nothing is lost, and one that comes later compiles nothing."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from installations import launcher_of_tree
from scenarios.remote.machines import has_queued
from scenarios.remote.remote_units import SOURCE, TWO
from scenarios.remote.remotes import remote
from scenarios.support.toolkits import HOST_OPTIONS
from support.proxy import proxy
from workspaces import OLD_ENOUGH

UNITS = 4
OPTIONS = ((), TWO)  # every second machine has the other one


def check_out(on):
    """A project of units with different kernels; some are common to all machines."""
    names = [f"unit{number}.cu" for number in range(UNITS)]
    for number, name in enumerate(names):
        on.write(name, SOURCE + f"__global__ void kernel{number}(int *p) {{ *p = {number}; }}\n")
    return names


def begin(on, names, options):
    """Compile all units in turn, in a background process."""
    words = ["-Iinclude", *options, *HOST_OPTIONS]
    lines = [[str(launcher_of_tree()), on.nvcc, "-c", name, "-o", f"{name}.o", *words] for name in names]
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


def outcome_of(on, name, options):
    result, counters = on.since(lambda: on.compile(name, "-o", f"{name}.o", "-Iinclude", *options))
    assert (result.status, result.stderr) == (0, b"")
    return counters.outcome


@pytest.mark.by_default("files-3")
@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("kind", ["files", "directory", "redis", "nginx", "rgw"])
def test_a_later_machine_compiles_nothing(tmp_path, new_machine, kind, count):
    """Records are merged by reading, merging and writing; pairs lost by that are put there again."""
    with remote(kind, tmp_path / "remote") as shared, proxy(shared.port or 1) as line:
        url = shared.url.replace(f":{shared.port}/", f":{line.port}/") if shared.port else shared.url
        url = url.replace(f":{shared.port}&", f":{line.port}&") if shared.port else url
        machines = [new_machine(f"m{number}", f"{url},rw", **shared.environ) for number in range(count)]
        names = [check_out(each) for each in machines].pop()
        time.sleep(OLD_ENOUGH)
        builds = [begin(each, names, OPTIONS[number % 2]) for number, each in enumerate(machines)]
        for build in builds:
            output = build.communicate(timeout=600)[0]
            assert (build.returncode, output) == (0, b"")
        for each in machines:
            send_what_is_left(each)
        _report(f"filling by {count} machines", line, count * UNITS)
        line.forget()
        for number, options in enumerate(OPTIONS):
            late = new_machine(f"late{number}", url, **shared.environ)
            assert [outcome_of(late, name, options) for name in check_out(late)] == ["direct_hit"] * UNITS
        _report("hits", line, len(OPTIONS) * UNITS)


def _report(what, line, units):
    """Shown by pytest's `-rP`."""
    counts = line.counts
    figures = (len(counts.requests), counts.connections, counts.sent, counts.received)
    requests, connections, sent, received = (round(figure / units, 1) for figure in figures)
    print(f"{what}, a unit: {requests} requests, {connections} connections, {sent} B out, {received} B in")
