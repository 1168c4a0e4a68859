"""A machine does not compile again what another with the same remote has compiled.

Homes, caches, checkouts and users are different. Every compile is compared with plain nvcc's: status, streams
and products.
"""

from __future__ import annotations

import pytest

from scenarios.remote.remote_units import HEADER, SOURCE, TWO, compile_like_plain
from scenarios.remote.remotes import BY_DEFAULT, KINDS, remote
from scenarios.remote.sealed import opened
from scenarios.support.toolkits import architectures
from unprivileged import NOBODY

DEVICE_COMPILERS = {"cicc", "ptxas"}


@pytest.mark.by_default(*BY_DEFAULT)
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_machine_compiles_nothing(tmp_path, new_machine, kind):
    # A server of this kind, started for the test, and its URL for machines.
    with remote(kind, tmp_path / "remote") as shared:
        # The first machine has an empty cache and may write (`,rw`); what it made is sent before we go on.
        one = new_machine("one", f"{shared.url},rw", **shared.environ)
        assert compile_like_plain(one, *TWO).outcome == "miss"
        # Another home, cache and checkout. The object is compared with the one that plain nvcc makes there.
        two = new_machine("two", shared.url, **shared.environ)
        counters = compile_like_plain(two, *TWO)
        assert (counters.outcome, counters.ran()) == ("direct_hit", {})
        # The server's entries are then in the local cache.
        two.environ["NVCCACHE_REMOTE"] = ""
        assert compile_like_plain(two, *TWO).outcome == "direct_hit"


def test_another_user_of_another_machine(tmp_path, new_machine, files):
    """A user who can read what root can, since the tests' environment may be below root's home."""
    compile_like_plain(new_machine("one", f"{files.url()},rw"))
    two = new_machine("two", files.url())
    two.become(NOBODY)
    assert two.run(["id", "-u"]).stdout == b"%d\n" % NOBODY
    assert compile_like_plain(two).outcome == "direct_hit"


# Name -> options of the second machine, and its source.
EDITS = {
    "an architecture dropped": ((*architectures(80),), SOURCE),
    "a comment edited": (TWO, SOURCE.replace("What a step is", "How far a step goes, and where to")),
    "a host option added": ((*TWO, "-Xcompiler=-Wall"), SOURCE),
    "an include directory added": ((*TWO, "-Ielsewhere"), SOURCE),
}


@pytest.mark.by_default("an architecture dropped", "a comment edited")
@pytest.mark.parametrize("edit", EDITS)
def test_device_code_that_stays_the_same_is_not_compiled(files, new_machine, edit):
    compile_like_plain(new_machine("one", f"{files.url()},rw"), *TWO)
    two = new_machine("two", files.url())
    options, source = EDITS[edit]
    two.write("a.cu", source)
    assert not DEVICE_COMPILERS & compile_like_plain(two, *options).ran().keys()


def test_a_changed_header_is_noticed(files, new_machine):
    compile_like_plain(new_machine("one", f"{files.url()},rw"), *TWO)
    two = new_machine("two", files.url())
    two.write("include/step.h", HEADER.replace("1", "2"))
    assert compile_like_plain(two, *TWO).ran().keys() >= DEVICE_COMPILERS


def test_a_remote_that_is_only_read_is_never_written_to(files, new_machine):
    """The machine's own cache is written to."""
    one = new_machine("one", files.url())
    assert compile_like_plain(one).outcome == "miss"
    assert files.requests and not files.written()
    assert not files.files
    files.forget()
    assert compile_like_plain(one).outcome == "direct_hit"
    assert not files.requests


def test_a_chain_is_read_in_order_and_written_at_its_head(files, new_machine):
    main, pull_request = files.url("main"), files.url("pr-1")
    compile_like_plain(new_machine("one", f"{main},rw"))
    of_main = dict(files.files)
    two = new_machine("two", f"{pull_request},rw {main}")
    assert compile_like_plain(two).outcome == "direct_hit"
    edited = SOURCE.replace("return STEP", "return STEP + 41")
    two.write("a.cu", edited)
    assert compile_like_plain(two).outcome != "direct_hit"
    assert {name: files.files[name] for name in of_main} == of_main
    assert {name.split("/")[1] for name in files.files.keys() - of_main.keys()} == {"pr-1"}
    three = new_machine("three", f"{pull_request} {main}")
    assert compile_like_plain(three).outcome == "direct_hit"
    three.write("a.cu", edited)
    assert compile_like_plain(three).outcome == "direct_hit"
    four = new_machine("four", main)
    four.write("a.cu", edited)
    assert compile_like_plain(four).outcome != "direct_hit"


@pytest.mark.by_default("blob")
@pytest.mark.parametrize("kind", ["blob", "record"])
def test_a_missing_half_is_a_miss_and_is_repaired(files, new_machine, kind):
    """What a server has evicted."""
    compile_like_plain(new_machine("one", f"{files.url()},rw"), *TWO)
    lost = [name for name, content in files.files.items() if opened(content).bucket.startswith(kind)]
    assert lost
    for name in lost:
        del files.files[name]
    two = new_machine("two", f"{files.url()},rw")
    outcome = compile_like_plain(two, *TWO).outcome
    assert outcome != "direct_hit"
    assert compile_like_plain(new_machine("three", files.url()), *TWO).outcome == "direct_hit"
