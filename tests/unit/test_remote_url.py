"""NVCCACHE_REMOTE: valid and invalid values, and that no password is shown."""

from __future__ import annotations

import pytest

from nvccache import config, log, remote_url


def only(text: str) -> remote_url.Remote:
    (remote,) = remote_url.parse(text)
    return remote


@pytest.mark.parametrize(
    ("text", "host", "port", "path"),
    [
        ("s3://bucket", "bucket", 0, ""),
        ("s3://bucket/a/b/", "bucket", 0, "a/b"),
        ("S3://bucket/a", "bucket", 0, "a"),
        ("redis://host", "host", 6379, "0"),
        ("redis://host:7000/3", "host", 7000, "3"),
        ("memcached://host", "host", 11211, ""),
        ("ghac://", "", 0, ""),
        ("ghac:///pr-1", "", 0, "pr-1"),
        ("redis://[::1]:7000/3", "[::1]", 7000, "3"),
        ("https://host/a", "host", 443, "a"),
        ("http://host:8080", "host", 8080, ""),
        ("gs://bucket/a%20b", "bucket", 0, "a b"),
        ("azblob://container/a", "container", 0, "a"),
        ("file:///mnt/team/cache/", "", 0, "/mnt/team/cache"),
        ("file://localhost/mnt", "", 0, "/mnt"),
        ("file:///mnt/a;b", "", 0, "/mnt/a;b"),
    ],
)
def test_a_remote_url_gives_host_port_and_path(text: str, host: str, port: int, path: str) -> None:
    remote = only(text)
    assert (remote.host, remote.port, remote.path) == (host, port, path)
    assert not remote.is_writable


def test_several_remotes_keep_their_order_and_rights() -> None:
    assert remote_url.parse(" \t") == []
    first, second = remote_url.parse("  s3://pr/x,rw\ts3://main ")
    assert (first.host, first.is_writable) == ("pr", True)
    assert (second.host, second.is_writable) == ("main", False)


def test_remote_url_options_are_parsed_from_the_query() -> None:
    remote = only("s3://b/p?endpoint=http://127.0.0.1:9000/&region=eu-1&ec2=yes&anonymous=0")
    expected = {"endpoint": "http://127.0.0.1:9000", "region": "eu-1", "ec2": "yes"}
    assert remote.options == expected


def test_the_password_of_a_remote_url_is_read_and_not_shown() -> None:
    remote = only("redis://user:p%40ss%2C@host:7000/2?prefix=a/b")
    assert (remote.user, remote.password) == ("user", "p@ss,")
    assert remote.shown == "redis://***@host:7000/2?prefix=a/b"
    assert f"{remote} {remote!r}" == f"{remote.shown} {remote.shown}"
    assert remote_url.masked("https://u:one@h/x,rw file:///y") == "https://***@h/x,rw file:///y"
    assert remote_url.masked("SECRET") == "***"


def test_the_identity_of_a_remote_depends_on_location_not_credentials() -> None:
    assert only("https://u:one@h/x").identity == only("https://u:two@h/x,rw").identity
    assert only("https://h/x").identity != only("https://h/y").identity
    assert len(only("s3://b").identity) == 16


WRONG = """
    bucket /mnt/cache //u:SECRET@h/x ftp://h/SECRET s3:// s3:///prefix s3://bucket:80/x
    s3://SECRET:SECRET@bucket/x s3://b?access_key=SECRET s3://b?SECRET s3://b?region= s3://b?endpoint=host:80
    s3://b?endpoint=http://u:SECRET@host redis://:pa,SECRET@h redis://h/prefix redis://h:65536 redis://h:0 redis://h:SECRET
    redis://h?db=1 https://h/x,SECRET https://h/x?token=SECRET file://host/dir file:/// s3://b/%00 s3://bä
""".split()


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_remote_is_ignored_and_reported_without_secrets(text: str) -> None:
    settings = config.load({"HOME": "/home/u", "NVCCACHE_REMOTE": text})
    assert settings.remote == ""
    (sentence,) = log.sentences(settings)
    assert sentence.startswith("`NVCCACHE_REMOTE`: ")
    assert sentence.endswith("; the default is used instead")
    assert "SECRET" not in sentence
    assert "SECRET" not in remote_url.masked(text)
    assert [each.setting for each in settings.problems] == ["remote"]


def test_an_invalid_remote_is_named_by_number_with_a_valid_form() -> None:
    with pytest.raises(
        remote_url.RemoteUrlError, match=r"^remote 2: the URL has none of the forms `s3://bucket/prefix`, "
    ):
        remote_url.parse("s3://b/my prefix")
    with pytest.raises(
        remote_url.RemoteUrlError, match=r"^the URL has no absolute path; .* `file:///directory`$"
    ):
        remote_url.parse("file://shared,rw")
