"""The process that sends what is queued, as a call starts it."""

from __future__ import annotations

import os
import time

from nvccache import remote_url
from nvccache.records.transfer import Transfer
from nvccache.remote import uploads
from nvccache.store.store import Store


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def test_what_a_call_has_made_gets_to_the_remote_by_itself(toolkit, tmp_path):
    toolkit.compile()
    cache = toolkit.store()
    text = f"file://{tmp_path}/far,rw"
    remotes = remote_url.parse(text)
    items = [item for item, _ in Transfer(cache).items()]
    assert uploads.enqueue(cache.directory, remotes, items)
    environ = {**os.environ, "NVCCACHE_REMOTE": text, "NVCCACHE_DIR": "elsewhere"}
    log = tmp_path / "log"
    assert uploads.ensure_running(cache.directory, remotes, environ, str(log))
    wait_for(lambda: not uploads.pending(cache.directory))
    state = uploads.state_of(cache.directory, remotes[0].identity)
    wait_for(log.exists)
    assert f"sent {len(items)} objects" in log.read_text()
    assert "broken" not in log.read_text()

    other = Store(str(tmp_path / "other"))
    from nvccache.remote.service import Service

    service = Service(remotes[0], {})
    for name, _, _ in service.list("1/"):
        content = service.get(name, 1 << 26)
        assert content
        Transfer(other).take_in(content, name)
    assert toolkit.answer(NVCCACHE_DIR=other.root)
    assert state.word == ""


def test_a_cache_that_is_only_read_sends_nothing(toolkit, tmp_path, monkeypatch):
    from nvccache.records import send_queued

    toolkit.compile()
    cache = toolkit.store()
    text = f"file://{tmp_path}/far,rw"
    uploads.enqueue(cache.directory, remote_url.parse(text), [item for item, _ in Transfer(cache).items()])
    monkeypatch.setattr(os, "nice", lambda _: 0)
    monkeypatch.setattr(send_queued.uploader, "_LINGER_SECONDS", 0.0)
    monkeypatch.setenv("NVCCACHE_REMOTE", text)
    monkeypatch.setenv("NVCCACHE_READONLY", "1")
    send_queued.main([cache.root])
    assert not (tmp_path / "far").exists()
    monkeypatch.delenv("NVCCACHE_READONLY")
    send_queued.main([cache.root])
    assert (tmp_path / "far").exists()
