"""What commands print: in `golden/`, a file for each state of a cache, with command lines and their output.

To add a case, write its line `$ nvccache ...` and run with NVCCACHE_TEST_REGENERATE=1; read the difference.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nvccache import __version__, config, endpoint, outcomes, remote_url
from nvccache.cli import output
from nvccache.cli.group import commands
from nvccache.files import keys
from nvccache.machine import slots
from nvccache.remote import outages, uploads
from nvccache.store import event_line, event_totals, store
from nvccache.store.directory import Directory
from nvccache.store.event_line import RemoteUse, StageEvent
from nvccache.store.store import Store
from sample_events import event

GOLDEN = Path(__file__).parent / "golden"
IS_WRITTEN = bool(os.environ.get("NVCCACHE_TEST_REGENERATE"))
NOW = 1_790_000_000.0
ENGINE = "grpc://127.0.0.1:1"


@pytest.fixture
def place(monkeypatch):
    """A directory with a name of known length; the clock stands still."""
    root = Path(tempfile.mkdtemp(prefix="nvccache-", dir="/tmp"))
    for name in list(os.environ):
        if name.startswith(("NVCCACHE_", "XDG_")):
            monkeypatch.delenv(name)
    (root / "project").mkdir()
    (root / "pool").mkdir()
    monkeypatch.chdir(root / "project")
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("NVCCACHE_DIR", str(root / "cache"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(slots.pool_directory, "__defaults__", ((str(root / "pool"),),))
    monkeypatch.setattr(output, "_width", lambda: 80)
    monkeypatch.setattr(sys, "argv", ["/opt/bin/nvccache"])
    yield root
    shutil.rmtree(root)


def stage(kind, result="ran", seconds=0.5, architecture="", **fields):
    made = StageEvent(kind, result, seconds, architecture=architecture)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def log(root, outcome, product="", stages=(), ago=0.0, seconds=1.0, **fields):
    path = os.path.normpath(root / "project" / product) if product else ""
    call = event(outcome, started=NOW - ago - seconds, seconds=seconds, **fields)
    call.product, call.stages = path, list(stages)
    call.pid = 7
    call.directory = call.directory or str(root / "project")
    event_line.append(str(root / "cache"), call)


def nothing(root):
    """There is no cache, and no settings file."""


def two_builds(root):
    """A build of four calls an hour ago, and one of two just now, with a remote and another machine."""
    Store(str(root / "cache")).add_blob("ab" * 32, b"x" * 2048, compress=False)
    cicc = [stage("cicc", "hit", 4.0, "compute_80"), stage("cicc", "ran", 2.0, "compute_90")]
    changed = {"cause": "`x.h` changed", "tool_saved": 4.0, "stages": cicc}
    for ago, source in ((3600, "a.cu"), (3590, "b.cu"), (3580, "a.cu")):
        log(root, outcomes.MISS, "a.o", ago=ago, sources=[source], **changed)
    log(root, outcomes.PARTIAL_HIT, "b.o", ago=3570, sources=["b.cu"], **changed)
    log(root, outcomes.BYPASS, ago=3000, reason="library", store_fault="disk_full")
    log(root, outcomes.BYPASS, ago=3000, reason="of_tomorrow")
    log(root, outcomes.QUERY_HIT, ago=2999)
    log(root, "of_tomorrow", ago=2999)
    use = RemoteUse(5, 3, 2048, 0.25, ("timeout", "tls"))
    log(root, outcomes.DIRECT_HIT, "a.o", ago=20, sources=["a.cu"], tool_saved=4.0, remote=use)
    away = [
        stage("cicc", "ran", 2.0, "compute_80", where=ENGINE),
        stage("ptxas", "ran", 2.0, "sm_80", where="local", away="unreachable"),
    ]
    log(root, outcomes.MISS, "b.o", ago=10, sources=["b.cu"], stages=away, cause="`x.h` changed")


def outage(root):
    """Objects wait for a remote that is full, and an engine is left alone."""
    (remote,) = remote_url.parse("redis://nowhere:1,rw")
    log(root, outcomes.MISS, remote=RemoteUse(0, 0, 0, 0.0, ("left_alone",)))
    uploads.enqueue(Directory(str(root / "cache")), [remote.identity], [("blob-v1", "a" * 64)])
    outages.begin(outages.OF_WRITING.format(remote.identity), "full", "it is full")
    outages.begin(outages.OF_EXECUTOR.format(endpoint.parse(ENGINE).identity), "no_workers", "no room")
    for path in (root / "pool").rglob("outage-*"):
        os.utime(path, (NOW - 10, NOW - 10))


def compiles(root):
    """An object for each kind of answer."""
    first = "no earlier compile is recorded"
    log(root, outcomes.DIRECT_HIT, "hit.o")
    log(root, outcomes.DIRECT_HIT, "received.o", remote=RemoteUse(5, 2, 2048, 0.25, ()))
    log(root, outcomes.BYPASS, "lib.a", reason="library")
    log(root, outcomes.BYPASS, "odd.o", reason="of_tomorrow")
    log(root, outcomes.FAULT, "fault.o")
    log(root, outcomes.MISS, "evicted.o")
    log(root, outcomes.FAILED, "failed.o", cause=first)
    log(root, outcomes.FAILED, "failed-again.o", cause="`x.h` changed")
    against = "the call was not recorded as a whole: `a.cu` uses `__TIME__`"
    log(root, outcomes.MISS, "unrecorded.cu.o", cause="`x.h` changed", details=["`y.h` is gone", against])
    use = RemoteUse(5, 3, 2048, 0.25, ("timeout",))
    log(root, outcomes.MISS, "faults.o", cause=first, store_fault="disk_full", remote=use)
    tree = [
        stage("host_preprocess", "ran", 0.1),
        stage("cudafe", "hit", 0.25),
        stage("device_preprocess", "shared", 0.5, "compute_80"),
        stage("cicc", "ran", 12.5, "compute_80"),
        stage("ptxas", "failed", 0.75, "sm_80"),
    ]
    log(
        root,
        outcomes.PARTIAL_HIT,
        "tree.o",
        tree,
        cause="`x.h` changed",
        tool_saved=0.75,
        sources=["src/tree.cu"],
    )
    engine = {"where": ENGINE, "architecture": "compute_80"}
    away = [
        stage("cicc", **engine),
        stage("cicc", away="cached", **engine),
        stage("cicc", away="no_workers", **{**engine, "where": "local"}),
    ]
    log(root, outcomes.MISS, "away.o", away, cause=first)
    chains = [stage(kind) for kind in ("host_preprocess", "host_compile", "host_preprocess", "host_compile")]
    log(root, outcomes.PARTIAL_HIT, "program", [*chains, stage("nvlink")], sources=["a.cu", "c.cpp", "b.cu"])
    log(root, outcomes.MISS, "later.o", cause=first, sources=["later.cu"])
    log(root, outcomes.BYPASS, "later.o", reason="unknown_option")
    log(root, outcomes.MISS, "asked.o", cause=first, sources=["asked.cu"])
    log(root, outcomes.QUERY_MISS, sources=["asked.cu"])
    log(root, outcomes.MISS, "exact.o", cause=first)
    log(root, outcomes.MISS, "folder/exact.o", cause="it is newer")
    log(root, outcomes.MISS, "part.o", cause=first)
    log(root, outcomes.MISS, "whole", cause=first, sources=["part.o"])
    log(root, outcomes.QUERY_MISS, sources=["query.cu", "second.cu"])
    log(root, outcomes.BYPASS, reason="information", sources=["information.cu"])
    for folder in ("one", "two", "three", "four", "five"):
        log(root, outcomes.MISS, f"../{folder}/same.o", cause=f"`{folder}.h` changed", sources=["same.cu"])
    log(root, outcomes.BYPASS, "../four/same.o", reason="unknown_option")
    (root / "link").symlink_to("one")


def settings(root):
    """A settings file with comments and a table."""
    path = Path(config.config_file(os.environ))
    path.parent.mkdir(parents=True)
    text = '# mine\nmax_size = "1G"  # enough\n"log" = "/l"\n[table]\nmax_size = 1\n'
    path.write_text(text)
    path.chmod(0o640)
    (root / "config.toml").symlink_to(path)


def four_blobs(root):
    """Blobs used one, two, three and four hours ago, and a call."""
    cache = Store(str(root / "cache"))
    for hours in range(1, 5):
        digest = f"{hours}{hours}" * 32
        cache.add_blob(digest, b"x" * 1000, compress=False)
        os.utime(cache.path(store.BLOB, digest), (NOW - hours * 3600,) * 2)
    log(root, outcomes.MISS, "a.o")
    assert event_totals.read(str(root / "cache"))["calls"]["miss"] == 1


def remotes(root):
    """Three objects wait for a directory."""
    (root / "far").mkdir()
    (remote,) = remote_url.parse(f"file://{root}/far,rw")
    contents = [b"one", b"two", b"three"]
    cache = Store(str(root / "cache"))
    for content in contents:
        cache.add_blob(keys.digest_bytes(content), content, compress=False)
    items = [(store.BLOB, keys.digest_bytes(each)) for each in contents]
    uploads.enqueue(cache.directory, [remote.identity], items)
    (missing,) = remote_url.parse(f"file://{root}/missing,rw")
    uploads.enqueue(cache.directory, [missing.identity], items[:1])


def file_in_place_of_the_cache(root):
    """The cache's directory is a file."""
    (root / "cache").write_text("")


def damaged_log(root):
    """The event log is not one."""
    log(root, outcomes.MISS, "a.o")
    (root / "cache" / "journal" / event_line.LOG).write_bytes(b"\xff\0garbage\n" * 20 + b"[" * 100_000)


SMOKE = pytest.param(two_builds, marks=pytest.mark.smoke("stats"))
SCENES = [nothing, SMOKE, outage, compiles, settings, four_blobs, remotes]
SCENES += [file_in_place_of_the_cache, damaged_log]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_command_output_matches_the_golden_files(place, scene):
    scene(place)
    path = GOLDEN / f"{scene.__name__}.txt"
    expected = path.read_text()
    lines = [line for line in expected.splitlines() if line.startswith("$ ")]
    printed = f"# {scene.__doc__}\n" + "".join(f"\n{line}\n{run(place, line[2:])}" for line in lines)
    if IS_WRITTEN:
        path.write_text(printed)
    assert printed == path.read_text()
    assert (place / "cache").exists() == (scene not in (nothing, settings))


def test_an_empty_cache_directory_prints_the_same_as_a_missing_one(place):
    """Such as a fresh volume: the same is printed, and nothing is put into it."""
    (place / "cache").mkdir()
    for part in (GOLDEN / "nothing.txt").read_text().split("\n$ ")[1:]:
        line, _, expected = part.partition("\n")
        assert run(place, line) == expected.rstrip("\n") + "\n" * bool(expected.strip()), line
    assert not list((place / "cache").iterdir())


def run(root, line):
    """The output of a command line with variables before it, without what differs between runs."""
    words = shlex.split(line.replace("ROOT", str(root)))
    environ = {}
    while "=" in words[0]:
        name, _, environ[name] = words.pop(0).partition("=")
    if words[0] == "cat":
        return Path(words[1]).read_text()
    result = CliRunner().invoke(commands, words[1:], prog_name="nvccache", env={"COLUMNS": "80", **environ})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    text = result.output.replace(str(root), "ROOT").replace(__version__, "VERSION")
    if "remote" in words:
        text = re.sub(r'\d+\.\d ms|(?<="seconds": )[-.e\d]+', "TIME", text)
    return text + (f"[status {result.exit_code}]\n" if result.exit_code else "")
