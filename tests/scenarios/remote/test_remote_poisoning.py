"""An attacker with write access plants entries on a remote: none counts beyond its digest, none does harm.

Every object of a remote is replaced by a crafted one, of each kind in turn (poison.py). The compile is then
plain nvcc's, with a bounded memory, before long; and nothing outside the machine's own cache and products was
written. That holds for correctly sealed contents, too, with one exception, which SECURITY.md states:
an attacker who may write *valid* entries decides what a call is answered with.
"""

from __future__ import annotations

import os
import random
import shutil

import pytest

from scenarios.remote import poison
from scenarios.remote.remote_units import LINE, TWO, compile_like_plain
from scenarios.remote.sealed import opened
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS
from support import fault_server

SECRET = b"-----BEGIN PRIVATE KEY-----\n"
MOST_MEMORY = 1 << 30  # bytes of data of any process; the tools need a tenth of that
ROUNDS = range(2)
_SEALED = tuple(poison.sealed_mutations("", ""))


class Outside:
    """What a machine must not touch: a secret, a FIFO, and files next to its checkout."""

    def __init__(self, directory):
        directory.mkdir()
        self.directory = directory
        self.victim, self.fifo = directory / "key", directory / "fifo"
        self.victim.write_bytes(SECRET)
        os.mkfifo(self.fifo)
        os.utime(self.victim, (10**9, 10**9))
        self.before = self.now()

    def now(self):
        found = sorted(self.directory.rglob("*"))
        return [(path.name, path.lstat().st_mode, path.lstat().st_mtime_ns) for path in found]


def limited(made):
    if not shutil.which("prlimit"):
        pytest.skip("`prlimit` is not installed")
    made.prefix = (*made.prefix, "prlimit", f"--data={MOST_MEMORY}", "--")
    return made


def planted(filled, mutation, choose, share):
    """The files of a server, each replaced with this chance."""
    whole = {name: opened(content) for name, content in filled.items()}
    everything = list(whole.values())
    return {
        name: mutation(one, everything, choose) if choose.random() < share else filled[name]
        for name, one in whole.items()
    }


@pytest.mark.by_default("swapped names-0", "a bomb-0")
@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("kind", poison.RAW)
def test_what_is_not_sealed_right_is_not_there(filled, new_machine, tmp_path, kind, round_):
    """All objects in the first round, some in the others."""
    choose = random.Random(f"{kind} {round_}")
    outside = Outside(tmp_path / "outside")
    with fault_server.store() as store:
        store.files = planted(filled, poison.RAW[kind], choose, 0.5 if round_ else 1.0)
        two = limited(new_machine("two", store.url()))
        counters = compile_like_plain(two, *choose.choice(((), TWO)))
        assert round_ or counters.outcome == "miss"
        two.environ["NVCCACHE_REMOTE"] = ""
        compile_like_plain(two)
    assert outside.now() == outside.before


@pytest.mark.by_default("a hostile blob-0", "a victim's path-0")
@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("kind", _SEALED)
def test_what_an_attacker_seals_stays_in_its_place(filled, new_machine, tmp_path, kind, round_):
    """A product may be another blob with a right digest; a compile neither fails nor hangs."""
    choose = random.Random(f"{kind} {round_}")
    outside = Outside(tmp_path / "outside")
    mutation = poison.sealed_mutations(str(outside.victim), str(outside.fifo))[kind]
    with fault_server.store() as store:
        store.files = planted(filled, mutation, choose, 0.3 if round_ else 1.0)
        # Entries that contradict each other are a fault, and the real nvcc runs.
        two = limited(new_machine("two", store.url(), NVCCACHE_STRICT=""))
        before = files_of(two)
        result = two.cached(*LINE, *choose.choice(((), TWO)), *HOST_OPTIONS)
        assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
        made = two.directory / "a.o"
        assert made.read_bytes() not in (b"", poison.HOSTILE)
        assert made.read_bytes().startswith(b"\x7fELF")
        made.unlink()
        assert files_of(two) == before
    assert outside.now() == outside.before


def files_of(on):
    """All files of a machine, except its cache and what its processes share."""
    root = on.directory.parents[1]
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("work", "home")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def test_a_blob_is_used_by_its_digest_only(filled, new_machine):
    """All blobs are forged, everything else is right: no part of a blob reaches a product."""
    choose = random.Random(1)
    with fault_server.store() as store:
        hostile = poison.sealed_mutations("", "")["a hostile blob"]
        blobs = {name for name, content in filled.items() if opened(content).bucket.startswith("blob")}
        crafted = planted(filled, hostile, choose, 1.0)
        store.files = filled | {name: crafted[name] for name in blobs}
        two = new_machine("two", store.url())
        assert both_ways(two, *LINE).outcome != "direct_hit"
        assert not any(path.read_bytes() == poison.HOSTILE for path in two.cache.rglob("*") if path.is_file())


PLANTS = ("link to a file", "fifo", "device", "folder", "huge", "second name")


@pytest.mark.by_default("fifo", "link to a file")
@pytest.mark.parametrize("kind", PLANTS)
def test_what_lies_in_a_shared_directory_leads_nowhere(filled, new_machine, tmp_path, kind):
    """Planted in place of every object; then the machine writes there, and only there."""
    outside = Outside(tmp_path / "outside")
    shared = tmp_path / "remote"
    for name in filled:
        path = shared / name.removeprefix("/cache/")
        path.parent.mkdir(parents=True, exist_ok=True)
        _plant(path, kind, outside)
    two = limited(new_machine("two", f"file://{shared},rw"))
    assert both_ways(two, *LINE).outcome == "miss"
    two.wait_for_uploader()
    assert outside.now() == outside.before
    assert outside.victim.read_bytes() == SECRET


def _plant(path, kind, outside):
    if kind == "link to a file":
        path.symlink_to(outside.victim)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        (path / "x").mkdir(parents=True)
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(1 << 42)
    elif kind == "second name":
        os.link(outside.victim, path)
