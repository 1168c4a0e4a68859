"""A machine does not compile again what another with the same remote has compiled."""

from __future__ import annotations

import subprocess
import time

import pytest

from installations import launcher_of_tree
from scenarios.remote.machines import HEADER, LINE, SOURCE, TWO
from scenarios.remote.remotes import BY_DEFAULT, KINDS, remote
from scenarios.remote.sealed import opened
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS, architectures
from workspaces import OLD_ENOUGH

DEVICE_COMPILERS = {"cicc", "ptxas"}


@pytest.mark.by_default(*BY_DEFAULT)
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_machine_compiles_nothing(tmp_path, new_machine, filled, kind):
    # A server of this kind, started for the test, and its URL for machines.
    with remote(kind, tmp_path / "remote") as shared:
        # The first machine has an empty cache and may write (`,rw`); what it made is sent before we go on.
        one = new_machine("one", f"{shared.url},rw", **shared.environ)
        assert one.fill(*TWO).outcome == "miss"
        # Another home, cache and checkout. The object is the one that plain nvcc makes there.
        two = new_machine("two", shared.url, **shared.environ)
        made = two.compile(*TWO)
        assert (made.outcome, made.ran(), made["a.o"]) == ("direct_hit", {}, filled.objects[TWO])
        # The server's entries are then in the local cache.
        two.environ["NVCCACHE_REMOTE"] = ""
        assert two.compile(*TWO).outcome == "direct_hit"


# Name -> options of the second machine, its source and header, and whether device code is compiled.
EDITS = {
    "a header changed": (TWO, SOURCE, HEADER.replace("1", "2"), True),
    "an architecture dropped": (architectures(80), SOURCE, HEADER, False),
    "a comment edited": (TWO, SOURCE.replace("What a step is", "How far a step goes"), HEADER, False),
    "a host option added": ((*TWO, "-Xcompiler=-Wall"), SOURCE, HEADER, False),
}


@pytest.mark.by_default("a header changed", "an architecture dropped", "a comment edited")
@pytest.mark.parametrize("edit", EDITS)
def test_only_device_code_that_differs_is_compiled(server, filled, new_machine, edit):
    options, source, header, is_compiled = EDITS[edit]
    server.files |= filled.files
    two = new_machine("two", server.url())
    two.write("a.cu", source)
    two.write("include/step.h", header)
    compiled = DEVICE_COMPILERS & both_ways(two, *LINE, *options).ran().keys()
    assert compiled == (DEVICE_COMPILERS if is_compiled else set())


def test_a_remote_that_is_only_read_is_never_written_to(server, new_machine):
    """The machine's own cache is written to."""
    one = new_machine("one", server.url())
    assert one.compile().outcome == "miss"
    assert {request.split()[0] for request in server.requests} == {"GET"}
    server.requests.clear()
    assert one.compile().outcome == "direct_hit"
    assert not server.requests


def test_a_chain_is_read_in_order_and_written_at_its_head(server, filled, new_machine):
    of_main = {name.replace("/cache/", "/main/", 1): content for name, content in filled.files.items()}
    server.files |= of_main
    main, pull_request = server.url("main"), server.url("pr-1")
    two = new_machine("two", f"{pull_request},rw {main}")
    assert two.fill().outcome == "direct_hit"
    edited = two.write("a.cu", SOURCE.replace("return STEP", "return STEP + 41")).read_text()
    assert two.fill().outcome != "direct_hit"
    assert {name: server.files[name] for name in of_main} == of_main
    assert {name.split("/")[1] for name in server.files.keys() - of_main.keys()} == {"pr-1"}
    three = new_machine("three", f"{pull_request} {main}")
    for source in (SOURCE, edited):
        three.write("a.cu", source)
        assert three.compile().outcome == "direct_hit"


@pytest.mark.by_default("blob")
@pytest.mark.parametrize("kind", ["blob", "record"])
def test_what_a_server_has_evicted_is_a_miss_and_is_repaired(server, filled, new_machine, kind):
    kept = {
        name: content for name, content in filled.files.items() if not opened(content).bucket.startswith(kind)
    }
    server.files |= kept
    assert new_machine("two", f"{server.url()},rw").fill(*TWO).outcome != "direct_hit"
    assert len(server.files) > len(kept)
    assert new_machine("three", server.url()).compile(*TWO).outcome == "direct_hit"


def test_many_machines_that_fill_a_remote_at_once_lose_nothing(server, new_machine):
    """Records are merged by reading, merging and writing; pairs lost by that are put there again."""
    sources = [SOURCE + f"int number() {{ return {number}; }}\n" for number in range(3)]
    machines = [new_machine(f"m{number}", f"{server.url()},rw") for number in range(3)]
    for each, source in zip(machines, sources, strict=True):
        each.write("a.cu", source)
    time.sleep(OLD_ENOUGH)
    line = [str(launcher_of_tree()), machines[0].nvcc, *LINE, *HOST_OPTIONS]
    builds = [subprocess.Popen(line, cwd=each.directory, env=each.environ) for each in machines]
    assert [build.wait(600) for build in builds] == [0] * 3
    for each in machines:  # a busy one may have found the remote too slow, and stopped using it
        each.wait_for_uploader()
        each.let_outages_end()
        assert not each.has_queued() or each.command("remote", "push").status == 0
    late = new_machine("late", server.url())
    for source in sources:
        late.write("a.cu", source)
        assert late.compile().outcome == "direct_hit"
