"""`doctor`'s findings about remote execution, and how to fix them."""

from __future__ import annotations

import socket
import sys
import time

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import fake_engine
from nvccache import config, endpoint, outcomes
from nvccache.cli import doctor, remote_checks
from nvccache.cli.install import adding
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.remote import outages
from nvccache.remote_execution import checks, faults, work


def findings(text, **variables):
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_EXECUTOR": text, **variables})
    return list(remote_checks.of_executor(settings))


def found(text, **variables):
    return [(finding.state, finding.text) for finding in findings(text, **variables)]


def test_an_engine_that_answers_is_well(serve):
    engine = serve()
    ((state, text),) = found(engine.url)
    assert state == GOOD
    assert text.startswith(f"`{engine.url}` answers in ")
    assert text.endswith(" ms; it executes and uses SHA-256 digests")
    assert [name for name, _ in engine.seen] == ["GetCapabilities"]
    assert found(engine.url + "?instance=main")[0][1].startswith(f"`{engine.url}/main` answers in ")
    assert engine.seen[-1][1].instance_name == "main"


@pytest.mark.parametrize(
    ("trouble", "word", "detail"),
    [
        (fake_engine.OTHER_VERSION, faults.BROKEN, "it does not speak version 2 of the API"),
        (fake_engine.EXECUTES_NOTHING, faults.BROKEN, "it executes nothing"),
        (fake_engine.OTHER_DIGESTS, faults.BROKEN, "it does not use SHA-256 digests"),
        (fake_engine.NO_TOKEN, faults.DENIED, "UNAUTHENTICATED: no token"),
    ],
)
def test_an_engine_that_cannot_be_used_is_bad(serve, trouble, word, detail):
    engine = serve(trouble)
    (finding,) = findings(engine.url)
    assert (finding.state, finding.text) == (BAD, f"`{engine.url}` cannot be used: {word}")
    assert finding.details[0] == detail
    assert finding.details[1].startswith("to fix it: ")
    assert finding.mend == ("unset NVCCACHE_EXECUTOR",)


def test_an_unreachable_engine_is_reported_in_time(serve):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"grpc://127.0.0.1:{free.getsockname()[1]}"
    assert found(url) == [(BAD, f"`{url}` cannot be used: unreachable")]
    engine = serve(fake_engine.SILENT)
    began = time.monotonic()
    assert found(engine.url) == [(BAD, f"`{engine.url}` cannot be used: unreachable")]
    assert time.monotonic() - began < 10


def test_a_missing_package_for_engines_is_reported(monkeypatch):
    for name in ("client", "protocol"):
        monkeypatch.delitem(sys.modules, f"nvccache.remote_execution.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    (finding,) = findings("grpc://127.0.0.1:1")
    assert (finding.state, finding.mend) == (BAD, (adding("exec"),))
    assert finding.details == ("grpc is not installed",)


def test_a_missing_certificate_is_reported_with_its_option(tmp_path):
    (finding,) = findings(f"grpcs://127.0.0.1:1?ca={tmp_path}/ca.pem")
    assert finding.text == "`grpcs://127.0.0.1:1` cannot be used: denied"
    assert finding.details[0] == "file of `ca`: No such file or directory"


def test_each_fault_has_a_sentence():
    words = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
    assert words - {faults.CANCELLED} == {*outcomes.EXECUTOR_FAULTS} >= {*checks._ADVICE}


def test_a_launcher_needs_a_program_and_a_directory(tmp_path):
    (finding,) = findings("prefix:no-such-launcher -n1")
    assert (finding.state, finding.text) == (BAD, "there is no program `no-such-launcher`")
    assert finding.mend == ("unset NVCCACHE_EXECUTOR",)
    (finding,) = findings("prefix:env")
    assert (finding.state, finding.mend) == (BAD, ("nvccache config executor_dir /PATH/ON/ALL/MACHINES",))
    text = f"`env` starts stages, with their files in `{tmp_path}"
    assert found("prefix:env", NVCCACHE_EXECUTOR_DIR=str(tmp_path)) == [(GOOD, f"{text}`")]
    assert found("prefix:env", NVCCACHE_EXECUTOR_DIR=f"{tmp_path}/a/b") == [
        (GOOD, f"{text}/a/b`; it is made when the first one is sent")
    ]
    assert not (tmp_path / "a").exists()


def test_a_launchers_directory_has_to_be_one(tmp_path):
    (tmp_path / "file").touch()
    (finding,) = findings("prefix:env", NVCCACHE_EXECUTOR_DIR=f"{tmp_path}/file/below")
    assert finding.text == f"`{tmp_path}/file/below` cannot be used: Not a directory"
    assert finding.mend[1] == "export NVCCACHE_EXECUTOR_DIR=/ANOTHER/PATH"
    (finding,) = findings("prefix:env", NVCCACHE_EXECUTOR_DIR=f"{tmp_path}/a b")
    assert finding.state == BAD
    assert finding.text.startswith(f"`{tmp_path}/a b` has a character ")


def test_what_the_settings_file_says_is_mended_there(tmp_path):
    (tmp_path / "nvccache").mkdir()
    file = tmp_path / "nvccache" / "config.toml"
    file.write_text('# ours\nexecutor = "prefix:no-such-launcher"\n')
    environ = {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path)}
    (finding,) = remote_checks.of_executor(config.load(environ))
    assert finding.mend == ("nvccache config --unset executor",)
    file.write_text('# ours\nexecutor = "http://h"\nexecutor_jobs = "many"\n')
    settings = config.load(environ)
    assert list(remote_checks.of_executor(settings)) == []
    bad = [finding for finding in doctor.of_settings(settings, environ) if finding.state == BAD]
    assert [f"`{file}` line {line}" in finding.text for line, finding in zip((2, 3), bad, strict=True)] == [
        True, True,
    ]  # fmt: skip


def test_a_world_writable_directory_is_reported(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    (finding,) = found("prefix:env", NVCCACHE_EXECUTOR_DIR=str(folder))
    assert finding == (BAD, f"`{folder}` is writable by everyone")


def test_an_outage_is_reported(tmp_path):
    where = endpoint.parse("prefix:env")
    outages.begin(outages.OF_EXECUTOR.format(where.identity), "no_workers", "it waited 10 s")
    states = found("prefix:env", NVCCACHE_EXECUTOR_DIR=str(tmp_path))
    assert states[1][0] == ODD
    assert states[1][1].startswith("compiles send nothing until ")
    assert states[1][1].endswith(": no_workers")


def test_without_the_check_of_processors_nothing_is_sent(monkeypatch):
    monkeypatch.setattr(work, "CHECK", "/dev/null/nothing")
    assert found("prefix:no-such-launcher")[0][1].startswith("nothing is sent")


def test_nothing_is_said_where_nothing_is_set():
    assert found("") == []
    assert remote_checks.outage_of(config.load({"HOME": "/nowhere"})) is None
