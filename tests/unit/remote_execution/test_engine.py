"""A stage on an engine: what is sent and comes back, and a word for each fault."""

from __future__ import annotations

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

import fake_engine
from nvccache import endpoint
from nvccache.machine.process import Handle
from nvccache.remote_execution import client, faults
from nvccache.remote_execution.engine import run as run_engine
from nvccache.remote_execution.faults import ExecutorError
from nvccache.remote_execution.protocol import messages
from sent_work import NEEDS_CHECK, sorting

pytestmark = NEEDS_CHECK


@pytest.fixture
def work(tmp_path, cache):
    return sorting(tmp_path, cache)


def run(engine, work, options="", handle=None):
    return run_engine(endpoint.parse(engine.url + options), work, handle or Handle())


def word_of(engine, work, options=""):
    with pytest.raises(ExecutorError) as caught:
        run(engine, work, options)
    return caught.value.fault


def test_a_stage_comes_back_with_its_times_and_its_content_is_sent_once(serve, work, tmp_path, cache):
    engine = serve()
    engine.delay = 0.05
    first = run(engine, work)
    assert first.outputs == {"out.txt": b"a\nb\n"}
    assert engine.delay <= first.completed.cpu <= first.completed.seconds
    written = [name for name, _ in engine.seen].count("Write")
    assert written > 0
    again = run(engine, work)
    assert (first.was_cached, again.was_cached, engine.executed) == (False, True, 1)
    assert [name for name, _ in engine.seen].count("Write") == written
    run(engine, sorting(tmp_path, cache, "d\nc\n"))
    assert engine.executed == 2


def test_large_inputs_and_outputs_of_a_remote_stage_are_streamed(serve, tmp_path, cache):
    engine = serve()
    text = "".join(f"{number:08}\n" for number in reversed(range(400_000)))
    back = run(engine, sorting(tmp_path, cache, text))
    assert back.outputs["out.txt"].startswith(b"00000000\n00000001\n")
    assert len(back.outputs["out.txt"]) == len(text)


@pytest.mark.parametrize("limit", [13, 14, 15])
def test_content_of_any_size_around_the_limit_for_small_content_is_sent(
    serve, tmp_path, cache, monkeypatch, limit
):
    monkeypatch.setattr(client, "_SMALL_BYTES", limit)
    assert (
        run(serve(), sorting(tmp_path, cache, "second\nfirst\n\n")).outputs["out.txt"] == b"\nfirst\nsecond\n"
    )


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        (fake_engine.WRONG_DIGEST, faults.BROKEN),
        (fake_engine.LOSES_OUTPUT, faults.BROKEN),
        (fake_engine.FAILS, faults.FAILED),
        (fake_engine.FULL, faults.NO_WORKERS),
        (fake_engine.OTHER_CLASS, faults.BROKEN),
        (fake_engine.DIES, faults.UNREACHABLE),
        (fake_engine.ENDS, faults.UNREACHABLE),
        (fake_engine.REFUSES, faults.NO_WORKERS),
        (fake_engine.DENIES, faults.DENIED),
        (fake_engine.TAKES_PART, faults.BROKEN),
        (fake_engine.NO_WORKERS, faults.NO_WORKERS),
        (fake_engine.SILENT, faults.UNREACHABLE),
    ],
)
def test_each_failure_of_an_engine_has_its_fault_word(serve, work, monkeypatch, trouble, word):
    if trouble == fake_engine.SILENT:
        monkeypatch.setattr(client, "_CALL_SECONDS", 0.5)
    if trouble == fake_engine.TAKES_PART:
        monkeypatch.setattr(client, "_SMALL_BYTES", 1)
    assert word_of(serve(trouble), work, "?deadline=30&queue=1") == word


def test_each_request_names_the_instance_and_streams_are_sent_in_parts(serve, work, monkeypatch):
    monkeypatch.setattr(client, "_CHUNK", 10_000)
    engine = serve()
    assert run(engine, work, "?instance=main").outputs == {"out.txt": b"a\nb\n"}
    asked = [request for name, request in engine.seen if name not in ("Read", "Write")]
    assert len(asked) > 1 and {request.instance_name for request in asked} == {"main"}
    read = [request.resource_name for name, request in engine.seen if name == "Read"]
    assert all(re.fullmatch("main/blobs/[0-9a-f]{64}/4", name) for name in read)
    for (first, *_), *others in engine.written:
        size = int(re.fullmatch("main/uploads/[-0-9a-f]{36}/blobs/[0-9a-f]{64}/([0-9]+)", first)[1])
        assert others == [("", at, at + 10_000 >= size) for at in range(10_000, size, 10_000)]


def test_a_tool_that_changes_while_it_is_read_is_not_sent(serve, work, monkeypatch):
    monkeypatch.setattr(client.protocol, "digest_of", lambda content: ("0" * 64, len(content)))
    with pytest.raises(ExecutorError, match="changed while it was read") as caught:
        client.Blob(("1" * 64, 4), path=work.inputs["in.txt"]).read()
    assert caught.value.fault == faults.BROKEN


@pytest.mark.parametrize("size", [0, -1, 3, 5, 1 << 40])
def test_a_remote_output_of_another_size_than_announced_is_rejected(serve, work, size):
    """Nor one without a size."""

    def alter(result):
        result.output_files[0].digest.size_bytes = size

    engine = serve()
    engine.altered = alter
    assert word_of(engine, work) == faults.BROKEN


@pytest.mark.parametrize("status", [0, 1])
def test_a_huge_stderr_of_a_remote_stage_is_not_fetched(serve, work, status):
    def altered(result):
        result.exit_code = status
        result.stderr_digest.hash = "0" * 64
        result.stderr_digest.size_bytes = 1 << 40

    engine = serve()
    engine.altered = altered
    assert word_of(engine, work) == faults.BROKEN
    assert not any(name == "Read" for name, _ in engine.seen)


@pytest.mark.parametrize("start", ["missing", 0])
def test_impossible_times_from_a_remote_engine_are_ignored(serve, work, start):
    """A stage believed to take years would never run locally."""
    engine = serve(fake_engine.NO_TIMES if start == "missing" else "")
    first = run(engine, work)
    assert (first.was_cached, 0 < first.completed.cpu < 1000) == (False, True)
    for result in engine.results.values():
        result.execution_metadata.execution_start_timestamp.seconds = 0
    again = run(engine, work)
    assert (again.was_cached, again.completed.cpu) == (True, 0.0)


def test_a_remote_engine_with_a_closed_port_is_reported_as_unreachable(work):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert word_of(SimpleNamespace(url=f"grpc://127.0.0.1:{port}"), work) == faults.UNREACHABLE


def test_a_cancelled_remote_stage_ends_at_once(serve, work):
    engine, handle = serve(fake_engine.NO_WORKERS), Handle()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, engine, work, handle=handle)
        while not any(name == "Execute" for name, _ in engine.seen):
            time.sleep(0.01)
        handle.end()
        error = running.exception(60)
    assert error.fault == faults.CANCELLED


def test_a_remote_stage_requires_a_worker_with_the_configured_properties_and_this_system(serve, work):
    engine = serve()
    run(engine, work, "?property=pool:gpu")
    (request,) = [request for name, request in engine.seen if name == "Execute"]
    action = messages.Action.FromString(engine.blobs[request.action_digest.hash])
    required = {each.name: each.value for each in action.platform.properties}
    assert (required["pool"], required["OSFamily"]) == ("gpu", "linux")


def test_no_variable_with_a_secret_is_sent_to_a_remote_engine(serve, work, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sesame")
    engine = serve()
    run(engine, work)
    assert not any(b"sesame" in content for content in engine.blobs.values())
    assert not any("sesame" in str(request) for _, request in engine.seen)
