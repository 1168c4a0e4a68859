"""Encryption, certificates and tokens from files: right ones, wrong ones and none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import fake_engine
from fake_engine import FakeEngine
from nvccache.remote_execution import faults

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not here")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("own", "other"):
        argv = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        argv += ["-addext", "subjectAltName=DNS:localhost", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    (folder / "token").write_text("secret\n")
    (folder / "wrong-token").write_text("sesame\n")
    return folder


@pytest.fixture
def engine(certificates, tmp_path):
    tls = (certificates / "own.key").read_bytes(), (certificates / "own.pem").read_bytes()
    engine = FakeEngine(tmp_path, fake_engine.NO_TOKEN, tls=tls)
    yield engine
    engine.stop()


ASKING = """import sys
from nvccache import endpoint
from nvccache.remote_execution.client import Client
from nvccache.remote_execution.faults import ExecutorError
try:
    Client(endpoint.parse(sys.argv[1])).check()
    print("well")
except ExecutorError as error:
    assert "sesame" not in str(error)
    print(error.fault)
"""


def word_of(engine, folder, **files):
    """The outcome of a client, in a process that must print nothing else."""
    options = "&".join(f"{name}={folder}/{file}" for name, file in files.items())
    argv = [sys.executable, "-c", ASKING, f"grpcs://localhost:{engine.port}?{options}"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


RIGHT = {"ca": "own.pem", "cert": "own.pem", "key": "own.key", "token_file": "token"}


def test_certificates_and_a_token_let_us_in(engine, certificates):
    assert word_of(engine, certificates, **RIGHT) == "well"


WITHOUT_TOKEN = {name: file for name, file in RIGHT.items() if name != "token_file"}
NOT_WELCOME = {faults.UNREACHABLE}  # the server only closes the connection


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({**RIGHT, "token_file": "wrong-token"}, {faults.DENIED}, id="wrong token"),
        pytest.param(WITHOUT_TOKEN, {faults.DENIED}, id="no token"),
        pytest.param({**RIGHT, "token_file": "nothing"}, {faults.DENIED}, id="no such file"),
        pytest.param({**RIGHT, "ca": "other.pem"}, {faults.UNREACHABLE}, id="unknown server"),
        pytest.param({"ca": "own.pem", "token_file": "token"}, NOT_WELCOME, id="no certificate"),
        pytest.param({**RIGHT, "cert": "other.pem", "key": "other.key"}, NOT_WELCOME, id="unknown client"),
    ],
)
def test_a_refused_client_learns_why(engine, certificates, files, expected):
    assert word_of(engine, certificates, **files) in expected


@pytest.mark.parametrize("name", ["token_file", "ca", "cert"])
def test_an_endless_file_is_not_waited_for(engine, certificates, tmp_path, name):
    for file in certificates.iterdir():
        shutil.copy(file, tmp_path)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for file in ("fifo", "zero"):
        assert word_of(engine, tmp_path, **{**RIGHT, name: file}) == faults.DENIED
