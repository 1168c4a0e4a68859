"""`nvccache verify` finds damage, and answers that nvcc would not give."""

from __future__ import annotations

import json
import os
import sys

import pytest

from nvccache.records import replay_layout
from nvccache.store import store
from nvccache.store.store import Store

pytestmark = pytest.mark.light_by_default

LINE = ["-arch=sm_80", "-c"]


def verify(workspace, *words):
    """The status and the JSON report; both forms agree on the status, and no file is marked as used."""
    before = dates(workspace)
    argv = [sys.executable, "-m", "nvccache", "verify"]
    command = words.index("--") if "--" in words else len(words)
    done = workspace.run([*argv, *words[:command], "--json", *words[command:]])
    assert done.stderr == b""
    report = json.loads(done.stdout)
    assert report["is_wrong"] == bool(done.status)
    if "--repair" not in words:
        assert workspace.run([*argv, *words]).status == done.status
        after = dates(workspace)
        assert words or after == before
        assert after.keys() == before.keys()
    return done.status, report


def dates(workspace):
    found = [path for bucket in store.BUCKETS for path in workspace.cache.glob(f"{bucket}/*/*")]
    return {path: path.stat().st_mtime_ns for path in found}


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_cache_as_it_was_made_is_good(compiled):
    status, report = verify(compiled)
    assert status == 0
    assert report["files"]["damaged"] == []
    assert report["files"]["files"] == len(dates(compiled))


def test_damaged_files_are_found_and_removed_only_with_repair(compiled):
    names = [f"{bucket}/*/*" for bucket in store.BUCKETS if bucket != store.BLOB]
    names += [f"{store.BLOB}/*/*[0-9a-f]", f"{store.BLOB}/*/*.zst"]
    damaged = [min(compiled.cache.glob(name)) for name in names]
    for path in damaged:
        flip(path)
    status, report = verify(compiled)
    assert status == 1
    assert sorted(report["files"]["damaged"]) == sorted(
        str(path.relative_to(compiled.cache)) for path in damaged
    )
    assert all(path.exists() for path in damaged)
    status, report = verify(compiled, "--repair")
    assert (status, report["files"]["removed"]) == (0, len(damaged))
    assert not any(path.exists() for path in damaged)
    assert verify(compiled)[0] == 0


def test_strange_files_are_damaged(compiled):
    path = max(compiled.cache.glob(f"{store.BLOB}/*/*"))
    other = path.parent / ("0" * 64)
    os.link(path, other)
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert len(verify(compiled)[1]["files"]["damaged"]) == 2


def test_objects_of_the_cache_are_those_of_nvcc(compiled):
    status, report = verify(compiled, "--recompile", "2")
    assert status == 0
    assert [each["state"] for each in report["compiles"]] == ["same", "same"]
    assert verify(compiled, "--", compiled.nvcc, *LINE, "one.cu", "-o", "one.o")[0] == 0
    assert sorted(os.listdir(compiled.directory)) == ["one.cu", "one.o", "two.cu", "two.o"]


def test_an_answer_that_nvcc_would_not_give_is_found(compiled):
    """One object's record is changed to give the other's object, with right checksums."""
    cache = Store(str(compiled.cache))
    digests = {}
    for path in compiled.cache.glob(f"{store.REPLAY}/*/*"):
        body = cache.find_record(store.REPLAY, path.name)
        name = b"one.o" if b"one.o" in body else b"two.o"
        (digest,) = replay_layout.blobs_in(body)
        digests[name] = digest.encode()
    for path in compiled.cache.glob(f"{store.RECORD}/*/*"):
        body = cache.find_record(store.RECORD, path.name)
        if digests[b"one.o"] in body:
            body = body.replace(digests[b"one.o"], digests[b"two.o"])
            cache.add_record(store.RECORD, path.name, body)
    assert verify(compiled)[0] == 0
    status, report = verify(compiled, "--recompile", "5")
    assert status == 1
    assert sorted(each["state"] for each in report["compiles"]) == ["different", "same"]
    assert verify(compiled, "--", compiled.nvcc, *LINE, "one.cu", "-o", "x.o")[0] == 1


def test_what_cannot_be_compared_is_reported(compiled):
    compiled.write("three.cu", "__global__ void three() {}\n")
    assert compiled.cached(*LINE, "-DKEY=1", "three.cu", "-o", "three.o").status == 0
    os.unlink(compiled.directory / "two.cu")
    status, report = verify(compiled, "--recompile", "9")
    assert status == 0
    reasons = {each["text"] for each in report["compiles"] if each["state"] == "skipped"}
    assert reasons == {"`two.cu` is gone", "values of macros or of arguments for other programs are not kept"}
    for words in (["-E", "one.cu"], [*LINE, "one.cu"], ["-arch=sm_90", "-O1", "-c", "three.cu", "-o", "x.o"]):
        status, report = verify(compiled, "--", compiled.nvcc, *words)
        assert (status, report["compiles"][0]["state"], report["is_wrong"]) == (1, "skipped", True)
