"""Running one tool: how it is started, its streams and its end."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from nvccache.machine import process
from nvccache.machine.process import Completed

SH = str(shutil.which("sh"))
MUCH = 300_000  # bytes, more than a pipe holds


def run(text: str) -> Completed:
    return process.run([SH, "-c", text], dict(os.environ))


@pytest.fixture(params=["with the end as a descriptor", "by asking"])
def ending(request, monkeypatch) -> None:
    """Before Linux 5.3 the end of a process cannot be waited for together with its streams."""
    if request.param == "by asking":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("ending")
@pytest.mark.parametrize(
    "last", ["", "; sleep 0.2", "; exec >&- 2>&-; sleep 0.2"], ids=["", "late", "closed"]
)
def test_large_output_on_both_streams_is_captured_completely(last):
    text = f"head -c {MUCH} /dev/zero; head -c {MUCH} /dev/zero >&2; printf out; printf err >&2{last}"
    done = run(text)
    assert (done.status, len(done.stdout), len(done.stderr)) == (0, MUCH + 3, MUCH + 3)
    assert (done.stdout[-3:], done.stderr[-3:]) == (b"out", b"err")


@pytest.mark.usefixtures("ending")
def test_cpu_time_of_a_tool_includes_its_children():
    """To within a clock tick; another tool's CPU time does not count."""
    burn = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done"
    done, idle = run(f"({burn}); ({burn}); :"), run("sleep 0.1")
    assert done.seconds + 0.05 > done.cpu > 0.02
    assert 0 < idle.cpu < 0.1 <= idle.seconds


@pytest.mark.usefixtures("ending")
def test_a_background_process_of_a_tool_is_not_waited_for(tmp_path):
    """Nor does its output go on without end."""
    pid = tmp_path / "pid"
    done = run(f"(while :; do echo x; sleep 0.01; done) & echo $! >{pid}; sleep 0.1; printf end >&2; exit 3")
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert (done.status, done.stderr, done.is_cut_short) == (3, b"end", True)
    assert set(done.stdout) == set(b"x\n")


def test_a_tool_killed_by_a_signal_has_the_negative_signal_as_status():
    assert run("kill -SEGV $$").status == -signal.SIGSEGV


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path):
    script = tmp_path / "script"
    script.write_text('echo "$0" "$@"\n')
    script.chmod(0o755)
    assert process.run([str(script), "a b"], {}).stdout == f"{script} a b\n".encode()
    assert process.run(["script", "c"], {"PATH": str(tmp_path)}).stdout == f"{script} c\n".encode()


@pytest.mark.parametrize(("mode", "text"), [(0o644, ""), (None, ""), (0o755, "#!/nowhere/sh\n")])
def test_a_program_that_cannot_be_started_is_reported(tmp_path: Path, mode: int | None, text: str):
    path = tmp_path / "tool"
    if mode:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(OSError):
        process.run([str(path)], {})


def test_a_tool_inherits_the_callers_descriptors_and_none_of_nvccache():
    theirs, ours = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(theirs, True)
    try:
        done = run(
            f"[ -e /proc/self/fd/{theirs} ] && echo theirs; [ -e /proc/self/fd/{ours} ] && echo ours; :"
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == b"theirs\n"


STOPPED = """
import os, signal, subprocess
from nvccache.machine import process
signal.signal(signal.SIGHUP, signal.SIG_IGN)
process.raise_on_stop_signals()
text = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done"
child = subprocess.Popen(["sh", "-c", text], stdout=subprocess.PIPE)
child.stdout.readline()
signal.raise_signal(signal.SIGHUP)
try:
    signal.raise_signal(signal.SIGTERM)
except process.Interrupted as stop:
    print(stop.signum, child.stdout.readline(), child.poll())
signal.raise_signal(signal.SIGINT)
print(child.wait())
os.spawnlp(os.P_NOWAIT, "true", "true")
process.reap_children()
assert os.listdir("/proc/self/task") and not open("/proc/self/task/%d/children" % os.getpid()).read()
process.restore_stop_signals()
signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
print(*(int(signal.getsignal(each)) for each in signals), flush=True)
process.die_of(signal.SIGTERM)
"""


def test_a_stop_signal_asks_tools_to_end_and_a_second_one_kills_them():
    """Except one that the caller ignores."""
    done = process.run([sys.executable, "-c", STOPPED], dict(os.environ))
    assert done.stdout.splitlines() == [b"15 b'asked\\n' None", b"-9", b"0 0 1"], done.stderr
    assert done.status == -signal.SIGTERM


CLOSED = """
import os
from nvccache.machine import process
os.closerange(0, 2)
done = process.run(["sh", "-c", "echo out; echo err >&2"], {"PATH": os.environ["PATH"]})
os.write(2, done.stdout + done.stderr)
"""


def test_output_is_captured_where_the_caller_has_closed_a_stream():
    assert process.run([sys.executable, "-c", CLOSED], dict(os.environ)).stderr == b"out\nerr\n"


def test_a_run_on_another_machine_is_cancelled_even_if_its_call_ended_before_it_began():
    cancelled, handle = [], process.Handle()
    handle.on_end(lambda: cancelled.append("in time"))
    assert cancelled == []
    handle.end()
    handle.on_end(lambda: cancelled.append("at once"))
    assert cancelled == ["in time", "at once"]
    done = process.run(["sleep", "60"], dict(os.environ), handle=handle)
    assert done.status == -signal.SIGTERM
