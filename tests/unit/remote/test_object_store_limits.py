"""Without threads or descriptors to spare, the client of remotes is not started, and prints nothing."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nvccache import remote_url
from nvccache.remote import object_store
from nvccache.remote.service import OwnLimitError
from nvccache.remote.tier import Tier
from opened_remotes import NO_CREDENTIALS, opened

pytest.importorskip("opendal", reason="opendal is not installed: pip install 'nvccache[remote]'")

KEY = "ab" * 32
_ASK = """
import os, resource, sys
from nvccache import remote_url
from nvccache.machine import slots
from nvccache.remote.tier import Tier
import nvccache.remote.object_store
slots.pool_directory = lambda: sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + int(sys.argv[2]),) * 2)
asked = Tier(remote_url.parse("http://127.0.0.1:1"), {"HOME": "/nonexistent"}, 1.0, print)
print(next(asked.each("blob", "ab" * 32, 1000), None), flush=True)
os._exit(0)
"""


def no_thread(_):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("more", [2, 4, 8, 12])
def test_few_descriptors_are_no_panic_on_standard_error(tmp_path, more):
    asked = subprocess.run(
        [sys.executable, "-c", _ASK, str(tmp_path), str(more)], capture_output=True, text=True, check=True
    )
    assert asked.stderr == ""
    assert "may open" in asked.stdout
    assert asked.stdout.endswith("None\n")
    assert not list(tmp_path.glob("outage-*"))  # other processes ask on


def test_no_thread_to_be_had(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(OwnLimitError, match="cannot start another thread"):
        opened("http://127.0.0.1:1")


def test_a_tier_without_threads_has_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    asked = Tier(remote_url.parse(f"file://{tmp_path}"), NO_CREDENTIALS, 5.0)
    assert list(asked.each("blob", KEY, 1000)) == []
    assert asked.waited < 1.0


def test_its_threads_are_few_and_tools_get_no_variable_for_it(monkeypatch):
    variables = {}
    monkeypatch.delenv("TOKIO_WORKER_THREADS", raising=False)
    monkeypatch.setattr("os.putenv", variables.__setitem__)
    object_store.check_limits()
    assert variables == {"TOKIO_WORKER_THREADS": "2"}
    monkeypatch.setenv("TOKIO_WORKER_THREADS", "7")
    variables.clear()
    object_store.check_limits()
    assert "2" not in variables.values()
