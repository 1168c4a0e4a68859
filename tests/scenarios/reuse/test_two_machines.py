"""Two machines with one cache behind them: users, homes, kernels, checkouts and dates do not matter.

The second machine has a copy of what the first has put into the cache, without what never leaves a machine
(memos, replay records, the event log), and so without a hint that would save looking at contents.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from installations import launcher_of_tree
from nvccache.store import directory, store
from nvccache.store.store import Store
from nvccache.toolkit import processor
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
from workspaces import OLD_ENOUGH, Counters, make_workspace

pytestmark = pytest.mark.light

KEPT = (store.BLOB, store.RECORD)
SOURCE = """
#include "h.h"
int start_here() { return VALUE; }
namespace { __device__ int counter = 3; __global__ void hidden(int *x) { *x = counter; } }
int launch(int *x) { hidden<<<1, 1>>>(x); return start_here(); }
"""
ARCHITECTURES = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90")
_CRC = re.compile(rb"_[0-9a-f]{8}(_\d+_\w+?_cu_)(?:[0-9a-f]{8}|_Z\w{1,7})")


@dataclasses.dataclass(frozen=True)
class Other:
    """How the second machine differs from the first."""

    prefix: tuple[str, ...] = ()
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    change: Callable[[Path], object] = lambda checkout: None
    needs_root: bool = False


def _make_older(checkout: Path) -> None:
    for number, path in enumerate(sorted(checkout.rglob("*"))):
        os.utime(path, (1_000_000_000 + number,) * 2)


def _give_away(checkout: Path) -> None:
    for path in checkout.rglob("*"):
        os.chown(path, 12345, 12345)
        path.chmod(0o755 if path.is_dir() else 0o640)


def _add_files(checkout: Path) -> None:
    """Files that were not looked up, in directories that were searched."""
    for name in ("inc/unused.h", "src/b.cu", "src/.editor~", "build/other.o", "README"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("")


# A user of another group has other rights to read; another user may not use root's cache.
USER = ("setpriv", "--regid=65534", "--clear-groups")
HOST = ("unshare", "--uts", "sh", "-c", 'hostname another; exec "$@"', "sh")
LIMITS = ("sh", "-c", 'umask 077; ulimit -n 512; ulimit -c 0; exec "$@"', "sh")
NAMES = {
    "USER": "other",
    "LOGNAME": "other",
    "HOSTNAME": "other",
    "MAIL": "/var/mail/other",
    "SHELL": "/bin/zsh",
}
SESSION = {
    "TERM": "dumb",
    "SSH_CONNECTION": "1 2 3 4",
    "CI": "true",
    "JOB_NAME": "nightly",
    "TZ": "Asia/Tokyo",
}
OTHERS = {
    "another user": Other(USER, needs_root=True),
    "another host": Other(HOST, needs_root=True),
    "other limits": Other(LIMITS),
    "one processor": Other(("taskset", "-c", "0")),
    "other names": Other(variables=NAMES),
    "another session": Other(variables=SESSION),
    "another home": Other(
        variables={"HOME": "@/home", "XDG_CACHE_HOME": "@/xdg", "XDG_RUNTIME_DIR": "@/run"}
    ),
    "another directory for temporary files": Other(variables={"TMPDIR": "@/temporary"}),
    "more programs": Other(variables={"PATH": "@/bin:{path}:@/sbin"}),
    "other dates": Other(change=_make_older),
    "other owners": Other(change=_give_away, needs_root=True),
    "more files": Other(change=_add_files),
}


def everything() -> Other:
    others = [other for other in OTHERS.values() if os.geteuid() == 0 or not other.needs_root]

    def change(checkout: Path) -> None:
        for other in reversed(others):
            other.change(checkout)

    variables = {name: value for other in others for name, value in other.variables.items()}
    # The prefix that drops privileges comes last: changing the host name needs them.
    prefix = [word for other in reversed(others) for word in other.prefix]
    return Other(tuple(prefix), variables, change)


class Machine:
    """A checkout, a home and a cache below one directory; compiles as `other` says."""

    def __init__(self, directory: Path, nvcc: str, other: Other, checkout: str) -> None:
        directory.mkdir()
        self.workspace = make_workspace(directory, nvcc)
        self.checkout = self.workspace.directory / "base" / checkout
        for name, text in (("src/a.cu", SOURCE), ("inc/h.h", "#define VALUE 1\n")):
            self.workspace.write(f"base/{checkout}/{name}", text)
        (self.checkout / "build").mkdir()
        self._other = other
        environ = self.workspace.environ
        environ["NVCCACHE_BASE_DIR"] = str(self.checkout.parent)
        environ["PWD"] = str(self.checkout / "build")
        for name, value in other.variables.items():
            environ[name] = value.replace("@", str(directory)).replace("{path}", environ["PATH"])
            if value.startswith("@/"):
                Path(environ[name].partition(":")[0]).mkdir(exist_ok=True)
        other.change(self.checkout)
        time.sleep(OLD_ENOUGH)

    def argv(self, options: tuple[str, ...]) -> list[str]:
        source = self.checkout / "src/a.cu"
        return ["-c", str(source), f"-I{self.checkout}/inc", *options, *HOST_OPTIONS, "-o", "a.o"]

    def compile(self, *options: str) -> tuple[Counters, bytes]:
        place = self.workspace
        argv = [*self._other.prefix, str(launcher_of_tree()), place.nvcc, *self.argv(options)]
        result, counters = place.since(lambda: place.run(argv, cwd=self.checkout / "build"))
        assert (result.status, result.stderr) == (0, b"")
        return counters, (self.checkout / "build/a.o").read_bytes()

    def plain(self, *options: str) -> bytes:
        keep = self.workspace.directory / "keep"
        keep.mkdir(exist_ok=True)
        argv = [*self.argv(options), "-keep", "-keep-dir", keep]
        assert self.workspace.plain(*argv, cwd=self.checkout / "build").status == 0
        return (self.checkout / "build/a.o").read_bytes()

    def receive(self, sent: Path) -> None:
        """Import the entries of the other's cache that machines share, and nothing else."""
        shutil.rmtree(self.workspace.cache, ignore_errors=True)
        self.workspace.cache.mkdir()
        shutil.copy(sent / directory.TAG_NAME, self.workspace.cache)
        for bucket in KEPT:
            source = sent / bucket
            shutil.copytree(source, self.workspace.cache / bucket, copy_function=shutil.copy)

    def explained(self) -> str:
        argv = [sys.executable, "-m", "nvccache", "explain", self.checkout / "build/a.o"]
        return self.workspace.run(argv).stdout.decode()


def record_as_another_class(machine: Machine) -> None:
    """Make the machine record its processor as one of a made-up class."""
    cache = Store(str(machine.workspace.cache))
    cache.add_memo(processor.memo_key(os.confstr("CS_GNU_LIBC_VERSION") or ""), "of another class")
    for bucket in (store.RECORD, store.REPLAY):
        shutil.rmtree(machine.workspace.cache / bucket)


def two_machines(tmp_path: Path, nvcc: str, other: Other) -> tuple[Machine, Path]:
    """The second, and what the first has in its cache, having compiled the source; the first is gone."""
    first = Machine(tmp_path / "first", nvcc, Other(), "one")
    second = Machine(tmp_path / "second", nvcc, other, "of/another")
    first.compile(*ARCHITECTURES, "--no-compress")
    sent = first.workspace.cache.rename(tmp_path / "sent")
    shutil.rmtree(tmp_path / "first")
    second.receive(sent)
    return second, sent


def is_alike(made: bytes, plain: bytes) -> bool:
    """Except for the checksums in the module id."""
    return _CRC.sub(rb"\1", made) == _CRC.sub(rb"\1", plain)


def test_all_that_differs_for_no_reason(tmp_path: Path, nvcc: str) -> None:
    check_is_shared(*two_machines(tmp_path, nvcc, everything()))


def check_is_shared(second: Machine, sent: Path) -> None:
    """The whole call, then its stages alone, then those of the same call for one architecture."""
    options = (*ARCHITECTURES, "--no-compress")
    has_shared_ids = cuda_release(second.workspace) >= (13, 0)
    counters, made = second.compile(*options)
    assert (counters.outcome == "direct_hit") is has_shared_ids
    assert is_alike(made, second.plain(*options))
    second.receive(sent)
    second.workspace.forget_calls()
    counters, made = second.compile(*options)
    # Passes say where their files are, and a host compile where headers are looked for.
    assert counters.compiled().keys() <= {"host_compile"} or not has_shared_ids
    assert is_alike(made, second.plain(*options))
    second.receive(sent)
    counters, made = second.compile(ARCHITECTURES[1], "--no-compress")
    assert not {"cicc", "ptxas", "cudafe"} & counters.ran().keys() or not has_shared_ids
    assert is_alike(made, second.plain(ARCHITECTURES[1], "--no-compress"))


def test_a_processor_of_another_class_shares_what_it_does_not_reach(tmp_path: Path, nvcc: str) -> None:
    first = Machine(tmp_path / "first", nvcc, Other(), "one")
    second = Machine(tmp_path / "second", nvcc, Other(), "two")
    first.compile(*ARCHITECTURES)
    record_as_another_class(first)
    first.compile(*ARCHITECTURES)
    second.receive(first.workspace.cache)
    counters, _ = second.compile(*ARCHITECTURES)
    assert {"cicc", "ptxas"} <= counters.ran().keys()
    assert "cudafe" not in counters.ran()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can put a library in the place of the system's")
def test_another_libm_shares_what_it_does_not_reach(tmp_path: Path, nvcc: str) -> None:
    """Even if it computes the same."""
    library = next(path for path in map(Path, own_libraries()) if path.name.startswith("libm.so"))
    other = tmp_path / "libm"
    other.write_bytes(library.read_bytes() + b"another")
    script = f'mount --bind "{other}" "{library}" && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file can be mounted here")
    second, _ = two_machines(tmp_path, nvcc, Other(prefix))
    counters, _ = second.compile(*ARCHITECTURES, "--no-compress")
    assert {"cicc", "ptxas"} <= counters.ran().keys()
    assert "cudafe" not in counters.ran()


def own_libraries() -> list[str]:
    """Libraries of this interpreter, and of a program that uses libm."""
    ctypes.CDLL("libm.so.6")
    return [
        os.path.realpath(line.split()[-1])
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "/lib" in line
    ]


def test_a_toolkit_that_lies_elsewhere_shares_its_stages(tmp_path: Path, nvcc: str) -> None:
    second, _ = two_machines(tmp_path, nvcc, Other())
    copy = tmp_path / "opt" / "toolkit"
    shutil.copytree(Path(nvcc).parents[1], copy, symlinks=True)
    second.workspace.nvcc = str(copy / "bin/nvcc")
    counters, made = second.compile(*ARCHITECTURES, "--no-compress")
    assert not {"cicc", "ptxas", "cudafe", "fatbinary"} & counters.ran().keys()
    assert is_alike(made, second.plain(*ARCHITECTURES, "--no-compress"))
