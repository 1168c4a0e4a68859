"""An attacker with write access plants entries on a remote: none counts beyond its digest, none does harm.

SECURITY.md states the exception: who may write *valid* entries decides what a call is answered with. What an
envelope or a blob may be is for unit/remote/test_envelope.py and unit/records/test_tiered_store.py.
"""

from __future__ import annotations

import os

import pytest

import stored_records
from nvccache.records import input_records, record
from nvccache.store import sections, store
from scenarios.remote.machines import LINE
from scenarios.remote.sealed import opened
from scenarios.support.both_ways import both_ways
from scenarios.support.toolkits import HOST_OPTIONS

SECRET = b"-----BEGIN PRIVATE KEY-----\n"
HOSTILE = b"hostile"


def test_forged_remote_content_never_reaches_an_object(server, filled, new_machine):
    """All blobs are forged, everything else is right: no part of a blob reaches a product."""
    for name, content in filled.files.items():
        one = opened(content)
        is_blob = one.bucket.startswith("blob")
        server.files[name] = one.holding(b"r" + HOSTILE) if is_blob else content
    two = new_machine("two", server.url())
    assert both_ways(two, *LINE).outcome != "direct_hit"
    assert not any(path.read_bytes() == HOSTILE for path in two.cache.rglob("*") if path.is_file())


@pytest.fixture
def outside(tmp_path):
    """A directory that no machine must touch: with a secret, and a FIFO that blocks who opens it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    os.mkfifo(folder / "fifo")
    os.utime(folder / "secret", (10**9, 10**9))
    return folder


@pytest.mark.parametrize(("name", "part"), [("secret", "result"), ("fifo", "inputs")])
def test_a_planted_remote_record_neither_writes_nor_blocks_on_files_outside(
    server, filled, new_machine, outside, name, part
):
    """Its paths are read as files to compare, and never written; a product goes where the call says."""
    path = str(outside / name)
    server.files |= {key: _naming(path, part, opened(content)) for key, content in filled.files.items()}
    # Entries that contradict each other are a fault, and the real nvcc runs.
    two = new_machine("two", server.url(), NVCCACHE_STRICT="")
    before = _files_below(two.directory.parents[1] / "work", outside)
    result = two.cached(*LINE, *HOST_OPTIONS)
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (two.directory / "a.o").read_bytes().startswith(b"\x7fELF")
    (two.directory / "a.o").unlink()
    assert _files_below(two.directory.parents[1] / "work", outside) == before


def _naming(path, part, one):
    """A sealed object; of a record, all names of files that were read, or of what was made, are this path."""
    if one.bucket != store.RECORD:
        return one.encode()
    pairs = []
    for key, inputs, result in stored_records.entries_in(one.content):
        if part == "inputs":
            fields = input_records._RECORD.sections_of(inputs)
            fields["files"] = sections.join([path] * len(sections.split(fields["files"])))
            pairs.append((key, input_records._RECORD.joined(fields), result))
        else:
            fields = record._RESULT.sections_of(result)
            names = sections.split(fields["outputs"])
            fields["outputs"] = sections.join([path if not at % 2 else name for at, name in enumerate(names)])
            pairs.append((key, inputs, record._RESULT.joined(fields)))
    return one.holding(stored_records.body_of(pairs))


def _files_below(*folders):
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_mode, path.is_file() and path.read_bytes())
        for folder in folders
        for path in folder.rglob("*")
        if not path.is_dir()
    }
