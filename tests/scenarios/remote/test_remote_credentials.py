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
    """A call compiles as without the remote, which has an outage; the secret is shown and stored nowhere."""
    two = new_machine("two", f"{url},rw", NVCCACHE_LOG="../../log", **environ)
    assert two.compile().outcome == "miss"
    two.wait_for_uploader()
    assert two.outages()[0] == "bad_credentials"
    result = two.command("remote", "status")
    assert b"credentials" in result.stdout
    assert SECRET.encode() not in result.stdout + result.stderr
    for path in (two.directory.parents[1]).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in path.name


def test_a_wrong_webdav_password_is_reported_and_fails_no_compile(nginx, new_machine):
    check_refused(new_machine, nginx.url("auth", password=SECRET))


def test_wrong_s3_keys_are_reported_and_fail_no_compile(rgw, new_machine):
    check_refused(new_machine, rgw.url(), **(rgw.environ() | {"AWS_SECRET_ACCESS_KEY": SECRET}))


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


def test_a_webdav_reader_hits_and_does_not_write(nginx, new_machine):
    check_reader(new_machine, nginx.url(), nginx.url("auth"), lambda: sorted(nginx.files.rglob("*")))


def test_a_missing_s3_object_that_is_reported_as_forbidden_is_a_miss(rgw, new_machine):
    """A missing object then counts as forbidden, which is a miss and not a fault."""
    new_machine("one", f"{rgw.url()},rw", **rgw.environ()).fill()
    rgw.allow(servers_s3.EVERYBODY, "s3:GetObject")
    two = new_machine("two", rgw.url(more="&anonymous=1"))
    assert two.compile().outcome == "direct_hit"
    two.write("a.cu", OTHER)
    assert two.compile().outcome != "direct_hit"
    assert two.outages() == []
