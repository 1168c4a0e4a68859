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
        words = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {name}.key -out {name}.pem"
        argv = ["openssl", *words.split(), "-addext", "subjectAltName=DNS:localhost"]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    os.mkfifo(folder / "fifo")
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


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, "well", id="right"),
        pytest.param({"token_file": "wrong-token"}, faults.DENIED, id="wrong token"),
        pytest.param({"token_file": None}, faults.DENIED, id="no token"),
        pytest.param({"token_file": "nothing"}, faults.DENIED, id="no such file"),
        pytest.param({"cert": "fifo"}, faults.DENIED, id="a file that is not waited for"),
        pytest.param({"ca": "other.pem"}, faults.UNREACHABLE, id="unknown server"),
        # The server only closes the connection.
        pytest.param({"cert": None, "key": None}, faults.UNREACHABLE, id="no certificate"),
        pytest.param({"cert": "other.pem", "key": "other.key"}, faults.UNREACHABLE, id="unknown client"),
    ],
)
def test_the_engine_accepts_only_the_right_certificates_and_token(engine, certificates, files, expected):
    given = {name: file for name, file in (RIGHT | files).items() if file}
    assert word_of(engine, certificates, **given) == expected
