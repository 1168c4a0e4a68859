"""Rights and credentials: wrong ones are reported, missing ones are a miss, secrets are never shown."""

from __future__ import annotations

import pytest

from scenarios.remote.remote_units import LINE, compile_like_plain
from scenarios.support.both_ways import both_ways
from support import servers_nginx, servers_redis, servers_s3

SECRET = "hunter2-is-no-password"


@pytest.fixture
def redis(tmp_path):
    with servers_redis.redis(tmp_path / "redis") as made:
        yield made


@pytest.fixture
def rgw(tmp_path):
    with servers_s3.rgw(tmp_path / "rgw") as made:
        yield made


def fill(new_machine, url, **environ):
    assert compile_like_plain(new_machine("first", f"{url},rw", **environ)).outcome == "miss"


COMMANDS = (("doctor",), ("remote", "status"), ("config",), ("stats",), ("events",))


def check_shown(on):
    """Commands for remotes report it, and never show the secret."""
    for command in COMMANDS:
        result = on.command(*command)
        assert b"credentials" in result.stdout or command in COMMANDS[2:], command
        assert SECRET.encode() not in result.stdout + result.stderr, command
    for path in (on.directory.parents[1]).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in path.name


def check_refused(on):
    """Calls compile as without the remote, which has an outage; commands show why."""
    assert both_ways(on, *LINE).outcome == "miss"
    on.wait_for_uploader()
    assert on.outages() == ["bad_credentials"]
    check_shown(on)


def test_a_wrong_password_of_redis(redis, new_machine):
    fill(new_machine, redis.url())
    log = {"NVCCACHE_LOG": "../../log"}
    check_refused(new_machine("two", f"{redis.url(password=SECRET)},rw", **log))


def test_a_wrong_password_of_webdav(tmp_path, new_machine):
    with servers_nginx.nginx(tmp_path / "nginx") as nginx:
        fill(new_machine, nginx.url())
        check_refused(new_machine("two", f"{nginx.url(password=SECRET)},rw", NVCCACHE_LOG="../../log"))


@pytest.mark.by_default("secret")
@pytest.mark.parametrize("wrong", ["secret", "key"])
def test_wrong_keys_of_s3(rgw, new_machine, wrong):
    fill(new_machine, rgw.url(), **rgw.environ())
    keys = rgw.environ(servers_s3.WRONG if wrong == "secret" else servers_s3.UNKNOWN)
    secret = {"AWS_SECRET_ACCESS_KEY": SECRET} if wrong == "secret" else {}
    check_refused(new_machine("two", f"{rgw.url()},rw", **keys | secret))


def check_reader(new_machine, url, stored):
    """A machine with this URL hits, and adds nothing to what `stored` returns."""
    assert compile_like_plain(new_machine("two", url)).outcome == "direct_hit"
    three = new_machine("three", f"{url},rw")
    three.write("a.cu", "int other() { return 1; }\n")
    before = stored()
    assert both_ways(three, *LINE).outcome == "miss"
    three.wait_for_uploader()
    assert stored() == before


def test_a_reader_of_redis_hits_and_does_not_write(redis, new_machine):
    fill(new_machine, redis.url())
    check_reader(new_machine, redis.url(user=servers_redis.READER), redis.keys)


@pytest.mark.parametrize("half", ["ro", "auth"])
def test_a_half_of_webdav_that_is_only_read(tmp_path, new_machine, half):
    with servers_nginx.nginx(tmp_path / "nginx") as nginx:
        fill(new_machine, nginx.url())
        check_reader(new_machine, nginx.url(half), lambda: sorted(nginx.files.rglob("*")))


@pytest.mark.by_default("anonymous")
@pytest.mark.parametrize("who", ["anonymous", "a user"])
def test_s3_with_the_right_to_get_objects_and_no_other(rgw, new_machine, who):
    """A missing object then counts as forbidden, which is a miss and not a fault."""
    fill(new_machine, rgw.url(), **rgw.environ())
    url = rgw.url(more="&anonymous=1") if who == "anonymous" else rgw.url()
    keys = {} if who == "anonymous" else rgw.environ(servers_s3.READER)
    two = new_machine("two", url, **keys)
    principal = servers_s3.EVERYBODY if who == "anonymous" else servers_s3.READER_PRINCIPAL
    rgw.allow(principal, "s3:GetObject")
    two.write("a.cu", "int other() { return 1; }\n")
    assert both_ways(two, *LINE).outcome == "miss"
    assert two.outages() == []
    again = new_machine("again", url, **keys)
    assert compile_like_plain(again).outcome == "direct_hit"
