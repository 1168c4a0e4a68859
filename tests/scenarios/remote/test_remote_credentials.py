"""Rights and credentials: wrong ones are reported, missing ones are a miss, secrets are never shown."""

from __future__ import annotations

import pytest

from scenarios.remote.machines import SOURCE
from support import servers_nginx

SECRET = "hunter2-is-no-password"
OTHER = SOURCE.replace("return STEP", "return STEP + 1")


@pytest.fixture
def nginx(tmp_path):
    with servers_nginx.nginx(tmp_path / "nginx") as made:
        yield made


def test_a_wrong_password_is_reported_nowhere_stored_and_fails_no_compile(nginx, new_machine):
    url = f"{nginx.url('auth', password=SECRET)},rw"
    two = new_machine("two", url, NVCCACHE_LOG="../../log")
    assert two.compile().outcome == "miss"
    two.wait_for_uploader()
    assert two.outages()[0] == "bad_credentials"
    result = two.command("remote", "status")
    assert b"credentials" in result.stdout
    assert SECRET.encode() not in result.stdout + result.stderr
    for path in (two.directory.parents[1]).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in path.name


def test_a_reader_hits_what_a_writer_has_compiled_and_does_not_write(nginx, new_machine):
    new_machine("one", f"{nginx.url()},rw").fill()
    before = sorted(nginx.files.rglob("*"))
    two = new_machine("two", f"{nginx.url('auth')},rw")
    assert two.compile().outcome == "direct_hit"
    two.write("a.cu", OTHER)
    assert two.compile().outcome != "direct_hit"
    two.wait_for_uploader()
    assert sorted(nginx.files.rglob("*")) == before
