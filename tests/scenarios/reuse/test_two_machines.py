"""Two machines with one cache behind them: users, homes, kernels, checkouts and dates do not matter.

The second machine has a copy of what the first has put into the cache, without what never leaves a machine
(memos, replay records, the event log), and so without a hint that would save looking at contents.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import time
from pathlib import Path

from installations import launcher_of_tree
from nvccache.store import directory, store
from scenarios.support.toolkits import HOST_OPTIONS, cuda_release
from workspaces import OLD_ENOUGH, Counters, make_workspace

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
    """How the second machine differs from the first; `@` in a variable is its own directory."""

    prefix: tuple[str, ...] = ()
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    has_other_files: bool = False


# Root can have another host name and another group, which has other rights to read.
AS_ROOT = ("unshare", "--uts", "sh", "-c", 'hostname another; exec "$@"', "sh",
           "setpriv", "--regid=65534", "--clear-groups")  # fmt: skip
LIMITS = ("sh", "-c", 'umask 077; ulimit -n 512; ulimit -c 0; exec taskset -c 0 "$@"', "sh")
NAMES = ("USER", "LOGNAME", "HOSTNAME", "MAIL", "SHELL", "TERM", "CI", "JOB_NAME", "SSH_CONNECTION")
DIRECTORIES = {
    "HOME": "@/home",
    "XDG_CACHE_HOME": "@/xdg",
    "XDG_RUNTIME_DIR": "@/run",
    "TMPDIR": "@/temporary",
    "PATH": "@/bin:{path}:@/sbin",
}
EVERYTHING = Other(
    prefix=(*(AS_ROOT if os.geteuid() == 0 else ()), *LIMITS),
    variables={**dict.fromkeys(NAMES, "other"), "TZ": "Asia/Tokyo", **DIRECTORIES},
    has_other_files=True,
)


def change_files(checkout: Path) -> None:
    """Other dates and owners, and more files in the directories that are searched."""
    for name in ("inc/unused.h", "src/b.cu", "src/.editor~", "build/other.o", "README"):
        (checkout / name).write_text("")
    for number, path in enumerate(sorted(checkout.rglob("*"))):
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
            path.chmod(0o755 if path.is_dir() else 0o640)
        os.utime(path, (1_000_000_000 + number,) * 2)


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
        if other.has_other_files:
            change_files(self.checkout)
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


def test_irrelevant_differences_between_machines_do_not_prevent_hits(tmp_path: Path, nvcc: str) -> None:
    """The whole call, then its stages alone, then those of the same call for one architecture."""
    second, sent = two_machines(tmp_path, nvcc, EVERYTHING)
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


def test_a_toolkit_that_lies_elsewhere_shares_its_stages(tmp_path: Path, nvcc: str) -> None:
    second, _ = two_machines(tmp_path, nvcc, Other())
    copy = tmp_path / "opt" / "toolkit"
    shutil.copytree(Path(nvcc).parents[1], copy, symlinks=True)
    second.workspace.nvcc = str(copy / "bin/nvcc")
    counters, made = second.compile(*ARCHITECTURES, "--no-compress")
    assert not {"cicc", "ptxas", "cudafe", "fatbinary"} & counters.ran().keys()
    assert is_alike(made, second.plain(*ARCHITECTURES, "--no-compress"))
