"""NVCCACHE_EXECUTOR: valid values, and that errors about others show no secrets."""

from __future__ import annotations

import pytest

from nvccache import config, endpoint
from nvccache.endpoint import EndpointError


def test_an_executor_url_gives_host_port_instance_and_properties() -> None:
    where = endpoint.parse("grpc://build.example:50051?instance=main&queue=3&property=pool:gpu")
    assert (where.target, where.instance, where.queue) == ("build.example:50051", "main", 3.0)
    assert where.properties == [("pool", "gpu")]
    assert where.shown == "grpc://build.example:50051/main"
    where = endpoint.parse("grpc://h:1/?instance=/a%20b/&&property=a:&property=b:c:d&queue=86400&deadline=1")
    assert (where.target, where.instance, where.queue, where.deadline) == ("h:1", "a b", 86400.0, 1.0)
    assert where.properties == [("a", ""), ("b", "c:d")]


def test_an_executor_url_names_its_certificate_and_token_files() -> None:
    found = endpoint.parse("grpcs://h:443?ca=/etc/ca.pem&cert=/c&key=/k&token_file=/run/token")
    assert found.files == {"ca": "/etc/ca.pem", "cert": "/c", "key": "/k", "token_file": "/run/token"}
    assert found.shown == "grpcs://h:443"


def test_a_launcher_prefix_is_split_into_words_as_by_a_shell() -> None:
    found = endpoint.parse("prefix:srun -n1 --comment 'two words' --")
    assert found.launcher == ["srun", "-n1", "--comment", "two words", "--"]
    assert found.shown == "prefix:srun"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("host:50051", "neither of the form"),
        ("http://host:50051", "neither of the form"),
        ("grpc://host", "neither of the form"),
        ("grpc:host:5", "neither of the form"),
        ("grpc://:5", "neither of the form"),
        ("grpc://host:hidden", "neither of the form"),
        ("grpc://user:hidden@host:5", "a user or password"),
        ("grpc://host:5?hidden=1", "an unknown option"),
        ("grpc://host:5?queue=hidden", "not a number of seconds"),
        ("grpc://host:5?queue=nan", "not a number of seconds"),
        ("grpc://host:5?queue=0", "not a number of seconds"),
        ("grpc://host:5?deadline=86401", "not a number of seconds"),
        ("grpc://host:5?property=hidden", "name:value"),
        ("grpc://host:5?property=:hidden", "name:value"),
        ("grpc://host:5?token_file=/hidden", "need `grpcs://`"),
        ("grpcs://host:5?token_file=hidden", "not the absolute path of a file"),
        ("grpcs://host:5?cert=/hidden", "must be set together"),
        ("grpcs://host:5?key=/hidden", "must be set together"),
        ("prefix:", "no command"),
        ("prefix:'' -n1", "no command"),
        ("prefix:srun 'hidden", "an unterminated quote"),
    ],
)
def test_errors_in_executor_urls_are_one_clause_without_secrets(text: str, part: str) -> None:
    with pytest.raises(EndpointError) as caught:
        endpoint.parse(text)
    assert part in str(caught.value)
    assert "hidden" not in str(caught.value)
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_EXECUTOR": text})
    assert settings.executor == ""
    assert [problem.setting for problem in settings.problems] == ["executor"]


def test_remote_engines_of_different_urls_have_different_identities() -> None:
    texts = [
        "grpc://h:1",
        "grpc://h:2",
        "grpcs://h:1",
        "grpc://h:1?instance=a",
        "prefix:srun",
        "prefix:srun -n1",
    ]
    assert len({endpoint.parse(text).identity for text in texts}) == len(texts)


def test_a_remote_stage_is_waited_for_five_minutes_at_most_by_default() -> None:
    """No stage that was sent is started here meanwhile."""
    where = endpoint.parse("grpc://h:1")
    assert where.queue + where.deadline <= 310
