"""A machine does not compile again what another with the same remote has compiled."""

from __future__ import annotations

import pytest

from scenarios.remote.machines import HEADER, LINE, SOURCE, TWO
from scenarios.remote.remotes import BY_DEFAULT, KINDS, remote
from scenarios.remote.sealed import opened
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import architectures

DEVICE_COMPILERS = {"cicc", "ptxas"}


@pytest.mark.by_default(*BY_DEFAULT)
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_machine_gets_the_object_from_the_remote_without_compiling(
    tmp_path, new_machine, filled, kind
):
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


# Name -> options of the second machine, its header, and whether device code is compiled.
EDITS = {
    "a header changed": (TWO, HEADER.replace("1", "2"), True),
    "an architecture dropped": (architectures(80), HEADER, False),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_second_machine_compiles_only_the_device_code_that_differs(server, filled, new_machine, edit):
    options, header, is_compiled = EDITS[edit]
    server.files |= filled.files
    two = new_machine("two", server.url())
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


def test_of_several_remotes_all_are_read_and_only_the_writable_one_is_written(server, filled, new_machine):
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


def test_objects_that_a_server_evicted_are_uploaded_again(server, filled, new_machine):
    kept = {
        name: content
        for name, content in filled.files.items()
        if not opened(content).bucket.startswith("blob")
    }
    server.files |= kept
    assert new_machine("two", f"{server.url()},rw").fill(*TWO).outcome != "direct_hit"
    assert len(server.files) > len(kept)
    assert new_machine("three", server.url()).compile(*TWO).outcome == "direct_hit"
