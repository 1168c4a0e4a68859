"""A Slurm of two nodes on this machine, until ^C, to try a launcher with. Needs root, slurm-wlm and munge.

    python tests/slurm.py [--cores 2] [--folder DIRECTORY]

Everything is in one folder; munge's own key is used, and its daemon started if there is none.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CONF = """ClusterName=try
SlurmctldHost={host}
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MpiDefault=none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:{cores}
"""
NODE = "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN"
_PROGRAMS = ("slurmctld", "slurmd", "srun", "munged")


def missing() -> str:
    """The first program that is not here, or empty."""
    return next((name for name in _PROGRAMS if not shutil.which(name, path=_path())), "")


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


@contextlib.contextmanager
def serving(folder: Path, cores: int = 2) -> Iterator[str]:
    """The path of the configuration, for SLURM_CONF."""
    host, port = socket.gethostname().partition(".")[0], 26817
    cpus = os.cpu_count()
    nodes = [NODE.format(number=each, host=host, port=port + each, cpus=cpus) for each in (1, 2)]
    conf = folder / "slurm.conf"
    (folder / "state").mkdir(parents=True, exist_ok=True)
    text = CONF.format(host=host, port=port, folder=folder, cores=cores, nodes="\n".join(nodes))
    conf.write_text(text)
    environ = {**os.environ, "SLURM_CONF": str(conf), "PATH": _path()}
    with contextlib.ExitStack() as stack:
        if not os.path.exists("/run/munge/munge.socket.2"):
            os.makedirs("/run/munge", exist_ok=True)
            words = ["munged", "--foreground", "--force"]
            stack.enter_context(_running(words, environ, folder / "munge.log"))
        stack.enter_context(_running(["slurmctld", "-D", "-f", str(conf)], environ, folder / "ctld.out"))
        for number in (1, 2):
            (folder / f"spool-n{number}").mkdir(exist_ok=True)
            words = ["slurmd", "-D", "-N", f"n{number}", "-f", str(conf)]
            stack.enter_context(_running(words, environ, folder / f"d{number}.out"))
        _await(environ)
        yield str(conf)


@contextlib.contextmanager
def _running(words: list[str], environ: dict[str, str], log: Path) -> Iterator[None]:
    with open(log, "wb") as stream:
        process = subprocess.Popen(words, env=environ, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()


def _await(environ: dict[str, str]) -> None:
    for _ in range(40):
        words = ["srun", "-Q", "-n1", "--immediate=2", "true"]
        if subprocess.run(words, env=environ, check=False, capture_output=True, timeout=20).returncode == 0:
            return
        time.sleep(0.5)
    raise RuntimeError("Slurm did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cores", type=int, default=2, help="jobs at once on one core of a node")
    parser.add_argument("--folder", type=Path, help="where it keeps everything; a temporary one by default")
    chosen = parser.parse_args()
    if missing():
        print(f"`{missing()}` is not here: apt-get install slurm-wlm munge", file=sys.stderr)
        return 1
    with contextlib.ExitStack() as stack:
        folder = chosen.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conf = stack.enter_context(serving(folder, chosen.cores))
        print(f"export SLURM_CONF={conf} NVCCACHE_EXECUTOR_DIR={folder}/away")
        print("export NVCCACHE_EXECUTOR='prefix:srun -Q -n1 --input=none --'", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends as well
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
