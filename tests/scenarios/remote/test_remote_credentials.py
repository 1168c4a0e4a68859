"""Rights and credentials: wrong ones are reported, missing ones are a miss, secrets are never shown."""

from __future__ import annotations

import pytest

from scenarios.remote.machines import SOURCE
from support import servers_nginx, servers_redis, servers_s3

SECRET = "hunter2-is-no-password"
OTHER = SOURCE.replace("return STEP", "return STEP + 1")


@pytest.fixture
def redis(tmp_path):
    with servers_redis.redis(tmp_path / "redis") as made:
        yield made


@pytest.fixture
def nginx(tmp_path):
    with servers_nginx.nginx(tmp_path / "nginx") as made:
        yield made


@pytest.fixture
def rgw(tmp_path):
    with servers_s3.rgw(tmp_path / "rgw") as made:
        yield made


def check_refused(new_machine, url, **environ):
    """A call compiles as without the remote, which has an outage; commands show why, and never the secret."""
    two = new_machine("two", f"{url},rw", NVCCACHE_LOG="../../log", **environ)
    assert two.compile().outcome == "miss"
    two.wait_for_uploader()
    assert two.outages()[0] == "bad_credentials"
    for command in (("doctor",), ("remote", "status"), ("config",), ("stats",), ("events",)):
        result = two.command(*command)
        assert b"credentials" in result.stdout or command[-1] in ("config", "stats", "events")
        assert SECRET.encode() not in result.stdout + result.stderr, command
    for path in (two.directory.parents[1]).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in path.name


def test_a_wrong_password_of_redis(redis, new_machine):
    check_refused(new_machine, redis.url(password=SECRET))


def test_a_wrong_password_of_webdav(nginx, new_machine):
    check_refused(new_machine, nginx.url(password=SECRET))


@pytest.mark.by_default("secret")
@pytest.mark.parametrize("wrong", ["secret", "key"])
def test_wrong_keys_of_s3(rgw, new_machine, wrong):
    keys = rgw.environ(servers_s3.UNKNOWN)
    if wrong == "secret":
        keys = rgw.environ() | {"AWS_SECRET_ACCESS_KEY": SECRET}
    check_refused(new_machine, rgw.url(), **keys)


def check_reader(new_machine, url, reading_url, stored):
    """A machine with the second URL hits what one with the first has made, and adds nothing."""
    new_machine("one", f"{url},rw").fill()
    before = stored()
    two = new_machine("two", f"{reading_url},rw")
    assert two.compile().outcome == "direct_hit"
    two.write("a.cu", OTHER)
    assert two.compile().outcome != "direct_hit"
    two.wait_for_uploader()
    assert stored() == before


def test_a_reader_of_redis_hits_and_does_not_write(redis, new_machine):
    check_reader(new_machine, redis.url(), redis.url(user=servers_redis.READER), redis.keys)


@pytest.mark.by_default("auth")
@pytest.mark.parametrize("half", ["ro", "auth"])
def test_a_half_of_webdav_that_is_only_read(nginx, new_machine, half):
    check_reader(new_machine, nginx.url(), nginx.url(half), lambda: sorted(nginx.files.rglob("*")))


@pytest.mark.by_default("anonymous")
@pytest.mark.parametrize("who", ["anonymous", "a user"])
def test_s3_with_the_right_to_get_objects_and_no_other(rgw, new_machine, who):
    """A missing object then counts as forbidden, which is a miss and not a fault."""
    new_machine("one", f"{rgw.url()},rw", **rgw.environ()).fill()
    url = rgw.url(more="&anonymous=1") if who == "anonymous" else rgw.url()
    keys = {} if who == "anonymous" else rgw.environ(servers_s3.READER)
    principal = servers_s3.EVERYBODY if who == "anonymous" else servers_s3.READER_PRINCIPAL
    rgw.allow(principal, "s3:GetObject")
    two = new_machine("two", url, **keys)
    assert two.compile().outcome == "direct_hit"
    two.write("a.cu", OTHER)
    assert two.compile().outcome != "direct_hit"
    assert two.outages() == []
