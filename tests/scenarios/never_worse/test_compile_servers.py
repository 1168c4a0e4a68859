"""A host compiler that starts a server, as sccache and icecc do: later compiles go through that server."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from scenarios.support.toolkits import CCBIN, SOURCE
from workspaces import Workspace

# The server compiles in its own environment, which is that of the call that started it.
WRAPPER = """#!{python} -S
import json, os, socket, subprocess, sys, time
def serve(listening):
    listening.bind("{directory}/socket")
    listening.listen()
    open("{directory}/pid", "w").write(str(os.getpid()))
    while True:
        stream = listening.accept()[0].makefile("rw")
        words, directory = json.loads(stream.readline())
        done = subprocess.run(["{compiler}", *words], cwd=directory, capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), file=stream, flush=True)
def connected():
    for _ in range(1000):
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect("{directory}/socket")
            return client
        except OSError:
            time.sleep(0.01)
if sys.argv[1:] == ["serve"]:
    serve(socket.socket(socket.AF_UNIX))
if not os.path.exists("{directory}/socket"):
    null = {{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
    subprocess.Popen([sys.executable, "-S", __file__, "serve"], start_new_session=True, **null)
stream = connected().makefile("rw")
print(json.dumps([sys.argv[1:], os.getcwd()]), file=stream, flush=True)
status, output, messages = json.loads(stream.readline())
sys.stdout.write(output)
sys.stderr.write(messages)
sys.exit(status)
"""


def test_a_server_that_a_call_has_started_serves_others(workspace: Workspace) -> None:
    directory = workspace.directory
    compiler = CCBIN or "/usr/bin/g++"
    text = WRAPPER.format(python=sys.executable, directory=directory, compiler=compiler)
    workspace.write("g++", text).chmod(0o755)
    workspace.write("a.cu", f"{SOURCE}\nstatic int unused;\n")
    line = ("-ccbin", directory / "g++", "-Xcompiler", "-Wall", "-c", "a.cu", "-o", "a.o")
    try:
        first = workspace.cached(*line)
        server = int((directory / "pid").read_text())
        later = workspace.plain(*line), workspace.cached(*line)
        assert first.status == 0 and later == (first, first)
        assert int((directory / "pid").read_text()) == server
        os.kill(server, signal.SIGTERM)
    finally:
        with contextlib.suppress(OSError):
            os.kill(int((directory / "pid").read_text()), signal.SIGKILL)
