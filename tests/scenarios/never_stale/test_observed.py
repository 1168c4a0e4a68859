"""What the observer records of real compiles, against what strace sees: nothing that was read is missing.

    pytest --every-case tests/scenarios/never_stale/test_observed.py               every kind of compile
    NVCCACHE_TEST_NVCC=/path/to/nvcc pytest tests/scenarios/...              with another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/clang++ pytest tests/scenarios/...          and host compiler

Whole calls of nvcc are watched, which start the tools as nvccache does, and shells besides.
"""

from __future__ import annotations

import os
import shutil

import pytest

from nvccache.observation import observer, observer_log
from scenarios.never_stale import traces
from scenarios.support.sources import SOURCES

pytestmark = pytest.mark.light_by_default
CCBIN = os.environ.get("NVCCACHE_TEST_CCBIN", "")
THRUST = """
#include <thrust/device_vector.h>
#include <thrust/sort.h>
void sort(thrust::device_vector<int> &keys) { thrust::sort(keys.begin(), keys.end()); }
"""
# Reads a file next to itself, looks for another, starts programs, and calls the compiler by name.
SCRIPT = """#!/bin/sh
here=$(dirname "$0")
. "$here/site.conf"
if [ -e "$here/more" ]; then set -- "$@" $(cat "$here/more"); fi
echo "$@" | sed 's/ .*//' | tr a b >/dev/null
exec "$COMPILER" "$@"
"""
LINK = "-o program -cudart=none -Xlinker --unresolved-symbols=ignore-all"
KINDS = {
    "behind a script": "-c a.cu -o a.o -ccbin ./script",
    "a program": f"main.cu {LINK}",
    "dependencies": "-MD -c headers.cu -o a.o",
    "thrust": "-c thrust.cu -o thrust.o",
}


@pytest.fixture
def sources(workspace):
    if not shutil.which("strace"):
        pytest.skip("strace is not here")
    assert os.path.exists(observer.LIBRARY), "pip install -e . builds the observer, with a C compiler"
    compiler = CCBIN or shutil.which("g++")
    for name, text in {
        **SOURCES,
        "thrust.cu": THRUST,
        "script": SCRIPT,
        "site.conf": f"COMPILER={compiler}\n",
        "more": "-DMORE\n",
    }.items():
        workspace.write(name, text)
    (workspace.directory / "script").chmod(0o755)
    return workspace


def arguments_of(kind: str) -> list[str]:
    argv = KINDS[kind].split()
    return argv if "-ccbin" in argv or not CCBIN else [*argv, "-ccbin", CCBIN]


def watch(workspace, argv) -> tuple[int, observer_log.Observation, set[str], set[str]]:
    """The status, the observation, and what strace saw read, by programs and by loaders."""
    watched, trace = workspace.directory / "watched", workspace.directory / "trace"
    armed = [f"-E{name}={value}" for name, value in observer.arm(str(watched), {}).items()]
    tracing = ["strace", "-f", "-y", "-qq", "-s", "9999", "-o", str(trace), "-e", f"trace={traces.CALLS}"]
    done = workspace.run([*tracing, *armed, *argv])
    found = observer_log.read(observer.log_in(str(watched)), argv[0])
    return done.status, found, *traces.read(trace, str(workspace.directory), watched)


def recorded(found: observer_log.Observation, directory: str) -> set[str]:
    paths = {traces.from_root(directory, path) for path in found.written}
    for process in found.processes:
        sets = (process.files, process.others, process.found, process.absent, process.denied, process.started)
        sets += (process.links, process.listed, process.loaded)
        paths |= {process.program, process.directory}
        paths |= {traces.from_root(directory, path) for paths_of_kind in sets for path in paths_of_kind}
    return paths


def missing(found: observer_log.Observation, read: set[str], loaded: set[str], directory: str) -> list[str]:
    """Paths that strace saw and the log lacks, except for the documented classes."""
    known = recorded(found, directory)
    # realpath(3) walks along its path, up to the first directory that is missing.
    resolved = [path for process in found.processes for path in process.links | process.absent]
    walked = traces.components({traces.from_root(directory, path) for path in resolved})
    sought = {os.path.basename(path) for process in found.processes for path in process.loaded}
    of_loader = {path for path in loaded - known if not path.startswith(("/etc/ld.so.", "/proc/self/"))}
    of_loader.discard(observer.LIBRARY)
    left = {path for path in read - known if not traces.is_documented(path, walked, sought)}
    return sorted(left | of_loader)


@pytest.mark.by_default("a program")
@pytest.mark.parametrize("kind", KINDS)
def test_the_observer_sees_every_file_that_strace_sees(sources, kind):
    status, found, read, loaded = watch(sources, [sources.nvcc, *arguments_of(kind)])
    assert status == 0 or status == sources.plain(*arguments_of(kind)).status  # not every toolkit is whole
    assert found.incomplete == ""
    assert len(read) > 20, "what strace saw"
    assert missing(found, read, loaded, str(sources.directory)) == []
