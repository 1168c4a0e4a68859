"""`doctor`'s findings about remote execution, and how to fix them."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import fake_engine
from nvccache import config, outcomes
from nvccache.cli import doctor
from nvccache.cli.install import install_command
from nvccache.cli.output import BAD, GOOD
from nvccache.remote_execution import faults, work


def findings(text, **variables):
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_EXECUTOR": text, **variables})
    return list(doctor.check_executor(settings))


def found(text, **variables):
    return [(finding.state, finding.text) for finding in findings(text, **variables)]


@pytest.mark.parametrize(("options", "instance"), [("", ""), ("?instance=main", "/main")])
def test_the_check_of_an_executor_asks_for_its_capabilities_and_reports_success(serve, options, instance):
    engine = serve()
    assert found(engine.url + options) == [
        (GOOD, f"`{engine.url}{instance}` executes stages and uses SHA-256 digests")
    ]
    assert [(name, request.instance_name) for name, request in engine.seen] == [
        ("GetCapabilities", instance.strip("/"))
    ]


@pytest.mark.parametrize(
    ("trouble", "word", "detail"),
    [
        (fake_engine.OTHER_VERSION, faults.BROKEN, "the engine does not speak version 2 of the API"),
        (fake_engine.EXECUTES_NOTHING, faults.BROKEN, "the engine does not execute actions"),
        (fake_engine.OTHER_DIGESTS, faults.BROKEN, "the engine does not use SHA-256 digests"),
        (fake_engine.NO_TOKEN, faults.DENIED, "UNAUTHENTICATED: no token"),
    ],
)
def test_an_executor_that_cannot_be_used_is_reported_with_the_reason(serve, trouble, word, detail):
    engine = serve(trouble)
    (finding,) = findings(engine.url)
    assert (finding.state, finding.text) == (BAD, f"`{engine.url}` cannot be used: {word}")
    assert (finding.details, finding.fix) == ((detail,), ("unset NVCCACHE_EXECUTOR",))


def test_a_missing_package_for_engines_is_reported(monkeypatch):
    for name in ("client", "protocol"):
        monkeypatch.delitem(sys.modules, f"nvccache.remote_execution.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    (finding,) = findings("grpc://127.0.0.1:1")
    assert (finding.state, finding.fix) == (BAD, (install_command("exec"),))
    assert finding.details == ("grpc is not installed",)


def test_each_fault_of_remote_execution_has_a_sentence():
    words = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
    assert words - {faults.CANCELLED} == {*outcomes.EXECUTOR_FAULTS}


@pytest.mark.parametrize(
    ("launcher", "folder", "detail"),
    [
        ("no-such-launcher -n1", "/", "there is no program `no-such-launcher`"),
        ("env", "", "`NVCCACHE_EXECUTOR_DIR` must be a path without special characters"),
        ("env", "{0}/file", "`{0}/file` cannot be used: Not a directory"),
        ("env", "{0}/open", "`{0}/open` belongs to another user, or everyone may write to it"),
    ],
)
def test_a_launcher_without_a_program_or_a_safe_directory_is_reported(tmp_path, launcher, folder, detail):
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (finding,) = findings(f"prefix:{launcher}", NVCCACHE_EXECUTOR_DIR=folder.format(tmp_path))
    assert (finding.state, finding.details) == (BAD, (detail.format(tmp_path),))


def test_a_usable_launcher_is_reported_as_usable(tmp_path):
    expected = [(GOOD, "`prefix:env` can start stages")]
    assert found("prefix:env -i", NVCCACHE_EXECUTOR_DIR=f"{tmp_path}/made-later") == expected


def test_without_the_built_processor_check_remote_execution_is_reported_as_unusable(monkeypatch):
    monkeypatch.setattr(work, "CHECK", "/dev/null/nothing")
    (finding,) = findings("grpc://h:1")
    assert finding.details == (
        "`class-check`, which stages need, was not built: there was no static C library",
    )
