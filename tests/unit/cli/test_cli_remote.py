"""`nvccache remote`: its reports on remotes, and what it transfers."""

from __future__ import annotations

import errno
import json
import os
import re
import time

import pytest

from nvccache import config, remote_url
from nvccache.cli import remote_checks, remote_moves, remotes
from nvccache.files import keys
from nvccache.records.transfer import Transfer
from nvccache.remote import breaker, envelope, service, uploads
from nvccache.remote.service import ServiceError
from nvccache.remote.shared_directory import SharedDirectory
from nvccache.store import store
from nvccache.store.store import Store

CONTENTS = (b"an object", b"another one", os.urandom(80_000))


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A directory that is written to as a remote."""
    monkeypatch.setattr(breaker.slots, "pool_directory", lambda: str(tmp_path))
    (tmp_path / "far").mkdir()
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{tmp_path}/far,rw")
    return tmp_path / "far"


@pytest.fixture
def cache(cache_dir):
    made = Store(cache_dir)
    for content in CONTENTS:
        made.add_blob(keys.digest_bytes(content), content, compress=False)
    return made


@pytest.fixture
def queued(cache):
    def queue():
        (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
        assert uploads.enqueue(
            cache.directory, remote.identity, [item for item, _ in Transfer(cache).items()]
        )

    return queue


def printed(result):
    return json.loads(result.stdout)["remotes"][0]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def fail(word, *names):
    def raised(*_):
        raise ServiceError(word)

    return lambda patch: [patch.setattr(SharedDirectory, name, raised) for name in names]


@pytest.mark.parametrize("line", ["status", "test", "push", "pull", "prune --older-than 1d"])
def test_without_a_remote_each_says_how_to_set_one(nvccache, line):
    result = nvccache("remote", *line.split())
    assert result.exit_code == 1
    assert "no remote is set" in result.stderr
    assert "NVCCACHE_REMOTE=s3://bucket/prefix`\n" in result.stderr  # only read: few users should write


@pytest.mark.parametrize("line", ["push", "prune --older-than 1d"])
def test_what_writes_needs_a_remote_that_is_written_to(nvccache, far, monkeypatch, line):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}")
    result = nvccache("remote", *line.split())
    assert (result.exit_code, "`,rw`" in result.stderr) == (1, True)


def test_a_wrong_setting_is_shown_without_its_value(nvccache, monkeypatch):
    monkeypatch.setenv("NVCCACHE_REMOTE", "s3://me:sesame@bucket")
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert "sesame" not in result.output
    assert "NVCCACHE_REMOTE=" not in result.stderr  # the problem was reported, and a remote is set already


def test_the_status_says_how_fast_it_answers_and_what_is_there(nvccache, far, cache, queued):
    queued()
    assert nvccache("remote", "push").exit_code == 0
    queued()
    result = nvccache("remote", "status", "--list", "--json")
    found = printed(result)
    assert result.exit_code == 0
    assert (found["url"], found["is_writable"], found["fault"]) == (f"file://{far}", True, "")
    assert found["has_seconds"] >= 0 and found["get_seconds"] >= 0
    assert (found["objects"], found["bytes"]) == (3, sum(path.stat().st_size for path in files(far)))
    assert found["pending"] == 3
    text = nvccache("remote", "status", "--list").stdout
    assert "read and written" in text
    assert "3 objects" in text
    assert "3 objects still to be sent" in text


def test_the_status_shows_an_outage_and_a_fault(nvccache, far, monkeypatch):
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    breaker.Breaker(remote.identity).trip("timeout", "no answer in time")
    fail("bad_credentials", "has")(monkeypatch)
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert "skipped by compiles from" in result.stdout
    assert "no answer in time" in result.stdout
    assert "it rejects the credentials" in result.stdout
    found = printed(nvccache("remote", "status", "--json"))
    assert (found["outage"]["word"], found["fault"]) == ("timeout", "bad_credentials")
    later = time.time() + 3600
    monkeypatch.setattr(breaker.time, "time", lambda: later)
    assert "skipped" not in nvccache("remote", "status").stdout


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ("s3://bucket", "AWS_ACCESS_KEY_ID"),
        ("redis://host", "REDISCLI_AUTH"),
        ("rediss://host", "REDISCLI_AUTH"),
        ("https://host", "netrc"),
        ("http://host", "netrc"),
        ("gs://bucket", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("azblob://container", "AZURE_STORAGE_SAS_TOKEN"),
    ],
)
def test_wrong_credentials_are_fixed_where_the_service_has_them(shown, word):
    assert word in remotes.advice("bad_credentials", shown, "it rejects the credentials")
    assert all(word not in remotes.advice(other, shown, "") for other in ("timeout", "denied", "broken"))


def test_the_end_of_a_message_decides_on_the_advice():
    no_rights = service.error_of("Unexpected (permanent) at write => NoPerm: this user")
    assert "the keys of the prefix" in remotes.advice(no_rights.word, "redis://host", no_rights.text)
    no_bucket = service.error_of('ConfigInvalid (permanent) at read => S3Error { code: "NoSuchBucket"')
    assert "check the bucket" in remotes.advice(no_bucket.word, "s3://bucket", no_bucket.text)


def test_one_that_only_cannot_be_listed_is_not_bad(nvccache, far, monkeypatch):
    fail("broken", "list")(monkeypatch)
    text = nvccache("remote", "status", "--list").stdout
    assert text.startswith("ok ")
    assert "answers in" in text and "cannot be listed: " in text and "to mend it" not in text
    text = nvccache("remote", "test").stdout
    assert "list      no" in text and "cannot list" in text and "compiles do not need it" in text
    assert "to mend it" not in text


@pytest.mark.parametrize("rights", ["", ",rw"])
@pytest.mark.parametrize("command", ["status", "test", "pull"])
def test_a_missing_directory_is_a_fault_and_not_made(nvccache, far, cache, monkeypatch, command, rights):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}/mounted{rights}")
    result = nvccache("remote", command)
    assert (result.exit_code, "there is no such directory" in result.stdout) == (1, True)
    assert "mount its file system" in result.stdout or command == "pull"
    assert list(far.iterdir()) == []


@pytest.mark.parametrize("line", ["status", "test", "push --all"])
@pytest.mark.parametrize("path", ["/proc/self/fdinfo", "/proc/version"])
def test_faults_of_a_directory_speak_of_no_server(nvccache, far, cache, monkeypatch, line, path):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{path},rw")
    result = nvccache("remote", *line.split())
    assert result.exit_code == 1
    assert "to fix it: " in result.stdout
    assert not re.search("connection|server", result.stdout)
    assert ("it is not a directory" in result.stdout) == (path == "/proc/version")


@pytest.mark.parametrize("word", ["timeout", "broken", "unusable_directory"])
def test_advice_about_a_directory_speaks_of_no_server(word):
    assert "server" not in remotes.advice(word, "file:///mnt", "")


def test_the_status_tries_to_write_where_compiles_do(nvccache, far, monkeypatch):
    assert nvccache("remote", "status").exit_code == 0
    assert files(far) == []
    fail("denied", "put")(monkeypatch)
    result = nvccache("remote", "status")
    assert result.exit_code == 1
    assert result.stdout.startswith("bad ") and "answers in" in result.stdout
    assert "cannot be written to: it denies access" in result.stdout and "to fix it:" in result.stdout
    assert printed(nvccache("remote", "status", "--json"))["write"]["fault"] == "denied"
    assert nvccache("remote", "status", NVCCACHE_READONLY="1").exit_code == 0
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}")
    assert nvccache("remote", "status").stdout.startswith("ok ")


def test_a_reader_is_not_shown_that_a_writer_failed(nvccache, far, monkeypatch):
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    breaker.Breaker(remote.identity, for_writing=True).trip("denied", "it denies access")
    fail("denied", "put")(monkeypatch)
    assert "not written to by compiles" in nvccache("remote", "status").stdout
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}")
    assert "not written to" not in nvccache("remote", "status").stdout


def test_the_status_ends_the_outage_of_a_directory_that_was_missing(nvccache, far, cache, queued):
    queued()
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    guard = breaker.Breaker(remote.identity, for_writing=True)
    guard.trip("unusable_directory", "there is no such directory")
    assert nvccache("remote", "status", NVCCACHE_READONLY="1").exit_code == 0
    assert guard.outage()  # nothing was written
    far.rmdir()
    assert "not written to by compiles" in nvccache("remote", "status").stdout
    far.mkdir()
    text = nvccache("remote", "status").stdout
    assert (
        "no such directory" not in text and "3 objects still to be sent, as by `nvccache remote push`" in text
    )
    assert guard.outage() is None


@pytest.mark.parametrize(
    ("suffix", "readonly", "rights"),
    [
        (",rw", "0", ["read", "write", "read back", "list", "delete"]),
        (",rw", "1", ["read"]),
        ("", "0", ["read"]),
    ],
)
def test_every_right_is_used_that_may_be_and_nothing_is_left(
    nvccache, far, monkeypatch, suffix, readonly, rights
):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}{suffix}")
    result = nvccache("remote", "test", "--json", NVCCACHE_READONLY=readonly)
    assert result.exit_code == 0
    found = [(each["right"], each["is_there"]) for each in printed(result)["rights"]]
    assert found == [(right, True) for right in rights]
    assert files(far) == []


@pytest.mark.parametrize(
    ("method", "status", "missing"),
    [("get", 1, "read"), ("put", 1, "write"), ("list", 0, "list"), ("delete", 0, "delete")],
)
def test_a_right_that_is_missing_is_named(nvccache, far, monkeypatch, method, status, missing):
    fail("denied", method)(monkeypatch)
    result = nvccache("remote", "test", "--json")
    assert result.exit_code == status
    assert [each["right"] for each in printed(result)["rights"] if not each["is_there"]] == [missing]
    assert "it denies access" in nvccache("remote", "test").stdout


@pytest.mark.parametrize(
    ("rights", "failing", "is_left"),
    [("", "", [False, True]), (",rw", "", [False, False]), (",rw", "get", [True, True]),
     (",rw", "put", [False, True])],
)  # fmt: skip
def test_what_passes_is_left_alone_no_longer(nvccache, far, monkeypatch, rights, failing, is_left):
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}{rights}")
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    breakers = [breaker.Breaker(remote.identity, for_writing=for_writing) for for_writing in (False, True)]
    for each in breakers:
        each.trip("unreachable", "no connection")
    if failing:
        fail("denied", failing)(monkeypatch)
    assert nvccache("remote", "test").exit_code == bool(failing)
    assert [bool(each.outage()) for each in breakers] == is_left


def test_a_test_waits_no_longer_than_a_look_at_the_status(nvccache, far, monkeypatch):
    waited = []

    def asked(remote, environ, seconds):
        waited.append(seconds)
        raise ServiceError("timeout")

    monkeypatch.setattr("nvccache.cli.remotes.connect", asked)
    assert nvccache("remote", "test").exit_code == 1
    assert waited == [5]


def test_a_probe_that_returns_changed_is_a_fault(nvccache, far, monkeypatch):
    monkeypatch.setattr(SharedDirectory, "get", lambda *_: b"something else")
    assert "it does not return what was written" in nvccache("remote", "test").stdout


def test_push_sends_what_is_queued_and_waits_for_it(nvccache, far, cache, queued):
    queued()
    assert "would send 3 objects" in nvccache("remote", "push", "--dry-run").stdout
    assert files(far) == []
    result = nvccache("remote", "push", "--pending", "--json")
    assert (result.exit_code, printed(result)["objects"], printed(result)["left"]) == (0, 3, 0)
    assert len(files(far)) == 3
    assert nvccache("remote", "push").exit_code == 0


def test_with_nothing_to_move_a_command_says_so(nvccache, far, cache):
    far.mkdir(exist_ok=True)
    for line, done in (("pull", "fetched"), ("prune --older-than 1d", "removed")):
        assert nvccache("remote", *line.split()).stdout.endswith(f": no objects left to be {done}\n")
    nothing = "no objects wait to be sent: compiles send theirs in the background"
    assert nvccache("remote", "push").stdout == f"`file://{far}`: {nothing}\n"


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_a_dry_run_fails_where_the_push_would(nvccache, far, cache, queued, options):
    queued()
    far.rmdir()
    for more in ((), ("--dry-run",)):
        result = nvccache("remote", "push", *options, *more)
        assert (result.exit_code, "there is no such directory" in result.stdout) == (1, True)
        assert "0 objects; 3 left" in result.stdout


@pytest.mark.parametrize("options", [(), ("--all",)])
def test_a_dry_run_tries_to_write(nvccache, far, cache, queued, monkeypatch, options):
    queued()
    fail("denied", "put")(monkeypatch)
    result = nvccache("remote", "push", *options, "--dry-run")
    assert (result.exit_code, "would send 0 objects; 3 left\n  it denies access" in result.stdout) == (
        1,
        True,
    )


def test_what_a_background_process_sent_meanwhile_counts_as_present(
    nvccache, far, cache, queued, monkeypatch
):
    queued()
    take = uploads.take_lock

    def wait(root, identity, seconds=0.0):
        for name in uploads.pending(root, identity):
            uploads.remove(root, name)
        return take(root, identity, seconds)

    monkeypatch.setattr(uploads, "take_lock", wait)
    assert nvccache("remote", "push").stdout == f"`file://{far}`: sent 0 objects; 3 already present\n"


def test_push_fails_aloud_and_keeps_the_queue(nvccache, far, cache, queued, monkeypatch):
    queued()
    with monkeypatch.context() as patch:
        fail("full", "put")(patch)
        result = nvccache("remote", "push")
        assert result.exit_code == 1
        assert "it is full" in result.stdout
        assert "; 3 left" in result.stdout
    assert nvccache("remote", "push").exit_code == 0
    assert len(files(far)) == 3


def test_push_ignores_outages(nvccache, far, cache, queued):
    """A user who runs it wants a result now."""
    (remote,) = remote_url.parse(os.environ["NVCCACHE_REMOTE"])
    outage = breaker.Breaker(remote.identity, for_writing=True)
    outage.trip("timeout", "no answer in time")
    queued()
    assert nvccache("remote", "push").exit_code == 0
    assert outage.outage() is None


def test_all_of_a_cache_is_sent_once(nvccache, far, cache):
    assert printed(nvccache("remote", "push", "--all", "--dry-run", "--json"))["objects"] == 3
    assert files(far) == []
    assert printed(nvccache("remote", "push", "--all", "--json"))["objects"] == 3
    again = printed(nvccache("remote", "push", "--all", "--json"))
    assert (again["objects"], again["present"]) == (0, 3)


def test_a_remote_without_lists_is_asked_for_each(nvccache, far, cache, monkeypatch):
    nvccache("remote", "push", "--since", "1h")
    first = files(far)[0]
    first.unlink()
    fail("broken", "list")(monkeypatch)
    found = printed(nvccache("remote", "push", "--all", "--json"))
    assert (found["objects"], found["present"]) == (1, 2)
    for line in (("pull",), ("prune", "--older-than", "1d"), ("status", "--list")):
        result = nvccache("remote", *line)
        assert (result.exit_code, "it cannot list its objects\n" in result.stdout) == (1, True)
        assert "to mend it" not in result.stdout  # the URL is right


def test_only_what_was_used_lately_is_sent(nvccache, far, cache):
    os.utime(cache.path(store.BLOB, keys.digest_bytes(CONTENTS[0])), (1e9, 1e9))
    assert printed(nvccache("remote", "push", "--since", "1h", "--json"))["objects"] == 2


def test_an_interrupted_push_goes_on_where_it_was(nvccache, far, cache, monkeypatch):
    monkeypatch.setattr(remote_moves, "_AT_ONCE", 1)  # otherwise a transfer may end after the command
    real = SharedDirectory.put
    seen = []

    def put(self, name, content):
        seen.append(name)
        if len(seen) > 1:
            raise ServiceError("unreachable")
        real(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(SharedDirectory, "put", put)
        result = nvccache("remote", "push", "--all", "--json")
        assert (result.exit_code, printed(result)["fault"]) == (1, "unreachable")
    assert printed(nvccache("remote", "push", "--all", "--json"))["objects"] == 2


def test_pull_fetches_what_is_missing(nvccache, far, cache, tmp_path):
    nvccache("remote", "push", "--all")
    other = str(tmp_path / "other")
    assert printed(nvccache("remote", "pull", "--dry-run", "--json", NVCCACHE_DIR=other))["objects"] == 3
    found = printed(nvccache("remote", "pull", "--json", NVCCACHE_DIR=other))
    assert (found["objects"], found["present"], found["refused"]) == (3, 0, 0)
    assert [Store(other).read_blob(keys.digest_bytes(content)) for content in CONTENTS] == list(CONTENTS)
    assert printed(nvccache("remote", "pull", "--json", NVCCACHE_DIR=other))["present"] == 3


def test_pull_takes_nothing_that_is_no_good(nvccache, far, cache, tmp_path):
    nvccache("remote", "push", "--all")
    first, second, _ = files(far)
    first.write_bytes(second.read_bytes())
    (far / "1" / "00").mkdir(exist_ok=True)
    (far / "1" / "00" / "junk").write_text("junk")
    result = nvccache("remote", "pull", "--json", NVCCACHE_DIR=str(tmp_path / "other"))
    found = printed(result)
    assert (result.exit_code, found["objects"], found["refused"]) == (1, 2, 2)


def test_pull_says_that_nothing_can_be_stored(nvccache, far, cache, tmp_path, monkeypatch):
    nvccache("remote", "push", "--all")
    other = str(tmp_path / "other")
    result = nvccache("remote", "pull", NVCCACHE_DIR=other, NVCCACHE_READONLY="1")
    assert "`readonly` is on" in result.stderr

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.Directory, "write", full)
    result = nvccache("remote", "pull", NVCCACHE_DIR=other)
    assert (result.exit_code, "No space left" in result.stderr) == (1, True)


def test_prune_removes_what_is_old_and_nothing_of_others(nvccache, far, cache):
    nvccache("remote", "push", "--all")
    (far / "1" / "00").mkdir(exist_ok=True)
    others = far / "1" / "00" / "thesis.tex"
    others.write_text("not ours")
    oldest = files(far)[0] if files(far)[0] != others else files(far)[1]
    for path in (oldest, others):
        os.utime(path, (1e9, 1e9))
    assert printed(nvccache("remote", "prune", "--older-than", "1d", "--dry-run", "--json"))["objects"] == 1
    assert oldest.exists()
    assert printed(nvccache("remote", "prune", "--older-than", "1d", "--json"))["objects"] == 1
    assert not oldest.exists()
    assert others.exists()
    assert nvccache("remote", "prune").exit_code == 2


def test_only_prune_removes_what_was_left_half_written(nvccache, far, cache):
    nvccache("remote", "push", "--all")
    left = files(far)[0].with_name(".new-0")
    left.write_text("half")
    os.utime(left, (1e9, 1e9))
    prune = ["remote", "prune", "--older-than", "1d"]
    for line in (
        ["remote", "status", "--list"],
        [*prune, "--dry-run"],
        ["remote", "push", "--all", "--dry-run"],
    ):
        assert nvccache(*line).exit_code == 0
        assert left.exists(), line
    nvccache(*prune)
    assert not left.exists()


def test_the_oldest_go_above_a_size():
    now = time.time()
    there = {"a": (10, now - 3), "b": (10, now - 1), "c": (10, now - 2)}
    assert remote_moves.doomed_of(there, None, 20) == ["a"]
    assert remote_moves.doomed_of(there, None, 19) == ["a", "c"]
    assert remote_moves.doomed_of(there, 2.5, 1000) == ["a"]


def test_prune_refuses_where_times_are_unknown(nvccache, far, cache, monkeypatch):
    nvccache("remote", "push", "--all")
    name = envelope.name_of("blob-v1", "x")
    monkeypatch.setattr(SharedDirectory, "list", lambda *_: iter([(name, 5, 0.0)]))
    result = nvccache("remote", "prune", "--older-than", "1d")
    assert (result.exit_code, "does not say when" in result.stdout) == (1, True)
    assert len(files(far)) == 3


@pytest.mark.parametrize("command", [("clean",), ("remote", "prune")])
def test_who_wants_to_keep_nothing_is_told_an_option_that_there_is(nvccache, far, cache, command):
    result = nvccache(*command, "--max-size", "0")
    (options,) = re.findall(r"to remove everything, use `(.*)`", result.stderr)
    nvccache("remote", "push", "--all")
    time.sleep(0.05)
    assert nvccache(*command, *options.split()).exit_code == 0
    assert not files(far) or command == ("clean",)


def test_objects_for_a_remote_that_is_not_set_are_named_with_what_sends_them(
    nvccache, far, cache, queued, monkeypatch
):
    queued()
    monkeypatch.setenv("NVCCACHE_REMOTE", f"file://{far}/other,rw")
    (far / "other").mkdir()
    text = f"3 objects {uploads.WAIT_ELSEWHERE}\n"
    assert nvccache("remote", "status").stdout.endswith(text)
    assert nvccache.json("remote", "status")["elsewhere"] == 3
    assert text in nvccache("remote", "push").stderr
    assert text not in nvccache("remote", "push", "--all").stderr
    assert len(files(far / "other")) == 3


def test_a_remote_with_room_for_little_more_is_full_until_all_fits(nvccache, far, cache, queued, monkeypatch):
    queued()
    put = SharedDirectory.put

    def put_small(self, name, content):
        if len(content) > 1000:
            raise ServiceError("full")
        put(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(SharedDirectory, "put", put_small)
        assert nvccache("remote", "push").exit_code == 1
        for line in ("status", "test", "push --dry-run", "push --all --dry-run"):
            result = nvccache("remote", *line.split())
            assert (result.exit_code, "it is full" in result.stdout) == (1, True)
            assert "to fix it: make room there, or remove old objects: `nvccache remote" in result.stdout
        finding = list(remote_checks.of_remotes(config.load(os.environ)))[1]
        assert (finding.state, finding.topic) == ("bad", "uploads")
    assert "it is full" not in nvccache("remote", "status").stdout
