"""Bad input, a cache that cannot be used, and damage: the compile behaves as plain nvcc's does.

Strict mode is on unless a test turns it off, so that what is only a cache's trouble may not pass for a
fault of ours. Processes, signals and streams are in test_faults_processes.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.rebuilds import HOST_OPTIONS, SOURCE
from workspaces import Result, Workspace, make_workspace

_TEMPORARY = re.compile(
    rb"(?:/[^\s:;'\"]*/)?tmpxft_[0-9a-f]{8}_[0-9a-f]{8}(?:-\d+_)?|/[^\s:;'\"]*/cc\w{6}\.s"
)
BAD_INPUT = {
    "missing header": '#include "absent.h"\n',
    "error directive": "#error no\n",
    "syntax error in host code": "__global__ void kernel() {}\nint host() { return }\n",
    "syntax error in device code": "__global__ void kernel() { int x = ; }\n",
    "host call from device code": "int host();\n__global__ void kernel() { host(); }\n",
    "what only a device pass rejects": "#ifdef __CUDA_ARCH__\n#error device\n#endif\n",
    "error of ptxas": '__global__ void kernel() { asm volatile("no.such.instruction;"); }\n',
    "error of the assembler": 'asm("nosuchinstruction");\n__global__ void kernel() {}\n',
    "error of the host compiler": '__global__ void kernel() {}\nvoid host(int x) { asm("" :: "i"(x)); }\n',
}


def compile_cached(workspace: Workspace, *others: str | Path, **variables: str) -> Result:
    return workspace.cached("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, *others, **variables)


def compile_plain(workspace: Workspace, *others: str | Path, **variables: str) -> Result:
    return workspace.plain("-c", "a.cu", "-o", "a.o", *HOST_OPTIONS, *others, **variables)


def told(result: Result) -> tuple[int, bytes, bytes]:
    """What a user sees, without the names of temporary files."""
    return result.status, result.stdout, _TEMPORARY.sub(b"", result.stderr)


def files_of(workspace: Workspace) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace.directory)): path.read_bytes()
        for path in workspace.directory.rglob("*")
        if path.is_file()
    }


def check_like_plain(workspace: Workspace, *others: str | Path) -> Result:
    """The same status, words and files, twice: what failed once is not remembered."""
    before = files_of(workspace)
    plain = compile_plain(workspace, *others)
    expected = files_of(workspace)
    for _ in ("cold", "warm"):
        for name in files_of(workspace).keys() - before.keys():
            (workspace.directory / name).unlink()
        for name, content in before.items():
            (workspace.directory / name).write_bytes(content)
        cached = compile_cached(workspace, *others)
        assert told(cached) == told(plain)
        assert files_of(workspace) == expected
    return plain


def reference(workspace: Workspace) -> bytes:
    """The object that plain nvcc makes of a.cu now."""
    keep = workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    result = compile_plain(workspace, "-keep", "-keep-dir", keep)
    assert result.status == 0, result.stderr
    content = (workspace.directory / "a.o").read_bytes()
    (workspace.directory / "a.o").unlink()
    return content


def check_compiles(workspace: Workspace, expected: bytes, **variables: str) -> None:
    result = compile_cached(workspace, **variables)
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").read_bytes() == expected
    (workspace.directory / "a.o").unlink()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, nvcc: str) -> tuple[Workspace, bytes, Path]:
    workspace = make_workspace(tmp_path_factory.mktemp("shared"), nvcc)
    workspace.write("a.cu", SOURCE)
    expected = reference(workspace)
    check_compiles(workspace, expected)
    saved = workspace.cache.parent / "saved"
    shutil.copytree(workspace.cache, saved)
    return workspace, expected, saved


@pytest.fixture
def primed(shared: tuple[Workspace, bytes, Path]) -> tuple[Workspace, bytes]:
    """A source, its object by plain nvcc, and a cache that has it."""
    workspace, expected, saved = shared
    workspace.write("a.cu", SOURCE)
    workspace.environ["NVCCACHE_DIR"] = str(saved.parent / "cache")
    shutil.rmtree(workspace.cache, ignore_errors=True)
    shutil.copytree(saved, workspace.cache)
    return workspace, expected


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(workspace: Workspace, case: str) -> None:
    workspace.write("a.cu", BAD_INPUT[case])
    workspace.write("a.o", "made earlier")
    result = check_like_plain(workspace, "-MD")
    assert result.status != 0
    assert workspace.counters().calls["fault"] == 0


def test_a_source_that_is_not_there(workspace: Workspace) -> None:
    assert check_like_plain(workspace).status != 0


@pytest.mark.parametrize("options", [["--no-such-option"], ["-arch=sm_1"], ["-Xptxas", "--no-such"]])
def test_options_that_are_refused(workspace: Workspace, options: list[str]) -> None:
    workspace.write("a.cu", SOURCE)
    assert check_like_plain(workspace, *options).status != 0


def test_outputs_that_cannot_be_written(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    check_compiles(workspace, reference(workspace))
    (workspace.directory / "directory").mkdir()
    for output in ("absent/a.o", "directory"):
        words = ("-c", "a.cu", *HOST_OPTIONS, "-o", output)
        plain, cached = workspace.plain(*words), workspace.cached(*words)
        assert plain.status != 0
        assert told(cached) == told(plain)
    words = ("-c", "a.cu", *HOST_OPTIONS, "-o", "a.o", "-MD", "-MF", "absent/a.d")
    plain, cached = workspace.plain(*words), workspace.cached(*words)
    assert told(cached) == told(plain)


def test_an_output_on_a_device_that_is_full(workspace: Workspace) -> None:
    workspace.write("a.cu", SOURCE)
    words = ("-cubin", "a.cu", *HOST_OPTIONS, "-o", "full.cubin")
    os.symlink("/dev/full", workspace.directory / "full.cubin")
    plain, cached = workspace.plain(*words), workspace.cached(*words)
    assert told(cached) == told(plain)
    assert (workspace.directory / "full.cubin").is_symlink()


@contextlib.contextmanager
def missing_parents(cache: Path) -> Iterator[None]:
    yield


@contextlib.contextmanager
def a_file(cache: Path) -> Iterator[None]:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file")
    yield
    assert cache.read_text() == "a file"


@contextlib.contextmanager
def below_a_file(cache: Path) -> Iterator[None]:
    cache.parent.write_text("a file")
    yield


@contextlib.contextmanager
def a_link_to_nothing(cache: Path) -> Iterator[None]:
    cache.parent.mkdir(parents=True)
    cache.symlink_to("nowhere/at/all")
    yield


@contextlib.contextmanager
def read_only(cache: Path) -> Iterator[None]:
    """Root may write whatever the modes say, but not what is immutable."""
    cache.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "a-w", cache], check=True)
        yield
        subprocess.run(["chmod", "-R", "u+w", cache], check=True)
        return
    if not shutil.which("chattr") or subprocess.run(["chattr", "-R", "+i", cache], check=False).returncode:
        pytest.skip("neither an ordinary user nor a file system that knows immutable files")
    yield
    subprocess.run(["chattr", "-R", "-i", cache], check=True)


@contextlib.contextmanager
def full(cache: Path) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(cache)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield
    subprocess.run(["umount", cache], check=True)


Place = Callable[[Path], contextlib.AbstractContextManager[None]]


@pytest.mark.parametrize("place", [missing_parents, a_file, below_a_file, a_link_to_nothing, read_only, full])
def test_a_cache_directory_that_cannot_be_used(
    primed: tuple[Workspace, bytes], tmp_path: Path, place: Place
) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    workspace.environ["NVCCACHE_DIR"] = str(tmp_path / "further" / "cache")
    with place(workspace.cache):
        check_compiles(workspace, expected)
        check_compiles(workspace, expected)


def test_a_full_cache_in_use(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    with full(workspace.cache):
        for step in range(3):
            workspace.write("a.cu", SOURCE.replace("STEP 1", f"STEP {step + 2}"))
            compile_cached(workspace)
        (workspace.directory / "a.o").unlink()
        workspace.write("a.cu", SOURCE)
        check_compiles(workspace, expected)
        check_compiles(workspace, expected)


def test_a_cache_that_became_read_only_still_serves(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    with read_only(workspace.cache):
        check_compiles(workspace, expected, NVCCACHE_LOG=str(workspace.directory / "log"))
        log = (workspace.directory / "log").read_text()
        assert "host_compile hit" in log and "ran" not in log.replace("_preprocess ran", "")
        workspace.write("a.cu", SOURCE.replace("STEP 1", "STEP 2"))
        assert compile_cached(workspace).status == 0


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def emptied(content: bytes) -> bytes:
    return b""


def flipped(content: bytes) -> bytes:
    damaged = bytearray(content)
    for place in (0, len(damaged) // 2, len(damaged) - 1):
        damaged[place] ^= 0x10
    return bytes(damaged)


def flipped_length(content: bytes) -> bytes:
    """In a compressed blob, the size it claims to have."""
    damaged = bytearray(content)
    damaged[4:9] = b"\xe0\xff\xff\xff\xff"
    return bytes(damaged)


def lengthened(content: bytes) -> bytes:
    return content + b"\n{}"


def foreign(content: bytes) -> bytes:
    return b'{"outputs": {}, "stdout": "", "stderr": "", "seconds": 0, "is_redirect": false}'


DAMAGES = [truncated, emptied, flipped, flipped_length, lengthened, foreign]


@pytest.mark.parametrize("turn", [0, 2, 4])
@pytest.mark.parametrize("bucket", ["blob-v1", "stage-v1", "manifest-v1", "tool-v1"])
def test_damage_in_every_bucket(primed: tuple[Workspace, bytes], bucket: str, turn: int) -> None:
    """The object is right all the same, and the next compile hits again."""
    workspace, expected = primed
    paths = sorted(path for path in (workspace.cache / bucket).rglob("*") if path.is_file())
    assert paths
    for number, path in enumerate(paths):
        damage = DAMAGES[(number + turn) % len(DAMAGES)]
        path.write_bytes(damage(path.read_bytes()))
    check_compiles(workspace, expected)
    check_hits(workspace, expected)


def check_hits(workspace: Workspace, expected: bytes) -> None:
    result, counters = workspace.since(lambda: compile_cached(workspace))
    assert (result.status, result.stderr) == (0, b"")
    assert counters.outcome == "stage_hit"
    assert (workspace.directory / "a.o").read_bytes() == expected
    (workspace.directory / "a.o").unlink()


@pytest.mark.parametrize("bucket", ["blob-v1", "stage-v1", "manifest-v1"])
def test_files_that_change_places(workspace: Workspace, bucket: str) -> None:
    """Each is whole, and is not what its name says."""
    workspace.write("a.cu", SOURCE)
    other = workspace.write("b.cu", SOURCE.replace("kernel", "another"))
    expected = reference(workspace)
    check_compiles(workspace, expected)
    assert workspace.cached("-c", other, *HOST_OPTIONS).status == 0
    for suffix in ("", ".zst"):
        paths = sorted(path for path in (workspace.cache / bucket).rglob("*") if path.suffix == suffix)
        paths = [path for path in paths if path.is_file()]
        contents = [path.read_bytes() for path in paths]
        for path, content in zip(paths, [*contents[1:], *contents[:1]], strict=True):
            path.write_bytes(content)
    check_compiles(workspace, expected)
    check_hits(workspace, expected)


@pytest.mark.parametrize(
    "bucket", ["blob-v1", "stage-v1", "manifest-v1", "tool-v1", "journal", "tmp", "locks"]
)
def test_parts_that_vanish_or_become_files(primed: tuple[Workspace, bytes], bucket: str) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache / bucket)
    check_compiles(workspace, expected)
    shutil.rmtree(workspace.cache / bucket, ignore_errors=True)
    (workspace.cache / bucket).write_text("a file")
    check_compiles(workspace, expected)
    check_compiles(workspace, expected)


def test_half_of_all_files_lost(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    for offset in range(2):
        check_compiles(workspace, expected)
        files = sorted(path for path in workspace.cache.rglob("*-v1/*/*") if path.is_file())
        for path in files[offset::2]:
            path.unlink()
        check_compiles(workspace, expected)
        check_hits(workspace, expected)


def test_all_blobs_lost_but_one(primed: tuple[Workspace, bytes]) -> None:
    """Making one intermediate again may take others that are lost, too."""
    workspace, expected = primed
    blobs = sorted(path for path in (workspace.cache / "blob-v1").rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in blobs}
    assert len(blobs) >= 6
    for kept in blobs:
        for path in blobs:
            path.unlink(missing_ok=True)
        kept.write_bytes(contents[kept])
        check_compiles(workspace, expected)
        check_hits(workspace, expected)


def test_damage_to_what_is_only_counted(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    workspace.cached("-c", "a.cu", *HOST_OPTIONS)
    for path in [*workspace.cache.glob("journal/*"), workspace.cache / "usage-v1"]:
        if path.is_file():
            path.write_bytes(b"\xff\x00 no number\n")
    workspace.write("a.cu", SOURCE.replace("STEP 1", "STEP 2"))
    assert compile_cached(workspace).status == 0
    workspace.write("a.cu", SOURCE)
    check_compiles(workspace, expected)
    assert (workspace.cache / "usage-v1").read_bytes().isdigit()


def test_readonly_stores_and_counts_nothing(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    check_compiles(workspace, expected, NVCCACHE_READONLY="1")
    assert not workspace.cache.exists()
    check_compiles(workspace, expected)
    names = sorted(workspace.cache.rglob("*"))
    totals = workspace.counters().calls
    log = workspace.directory / "log"
    check_compiles(workspace, expected, NVCCACHE_READONLY="1", NVCCACHE_LOG=str(log))
    assert "host_compile hit" in log.read_text()
    assert workspace.counters().calls == totals
    workspace.write("a.cu", SOURCE.replace("STEP 1", "STEP 2"))
    assert compile_cached(workspace, NVCCACHE_READONLY="1").status == 0
    assert [name for name in sorted(workspace.cache.rglob("*")) if "journal" not in str(name)] == [
        name for name in names if "journal" not in str(name)
    ]


def test_recache_runs_everything_and_stores_it_anew(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    _, counters = workspace.since(lambda: compile_cached(workspace, NVCCACHE_RECACHE="1"))
    assert counters.hit() == {}
    for path in workspace.cache.glob("stage-v1/*/*"):
        path.unlink()
    check_compiles(workspace, expected, NVCCACHE_RECACHE="1")
    check_hits(workspace, expected)


def test_disabled_is_plain_nvcc(primed: tuple[Workspace, bytes]) -> None:
    workspace, expected = primed
    shutil.rmtree(workspace.cache)
    result = compile_cached(workspace, NVCCACHE_DISABLE="1", NVCCACHE_STRICT="0")
    assert (result.status, result.stderr) == (0, b"")
    assert len((workspace.directory / "a.o").read_bytes()) >= len(expected)  # its name is in there
    assert not workspace.cache.exists()


@pytest.mark.parametrize("value", ["many", "-1", "1e999", "10Q"])
def test_a_setting_that_makes_no_sense(workspace: Workspace, value: str) -> None:
    """Strict mode shows it; otherwise nvcc runs, and `nvccache config` is the place that tells."""
    workspace.write("a.cu", SOURCE)
    result = compile_cached(workspace, NVCCACHE_MAX_SIZE=value, NVCCACHE_STRICT="0")
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").exists()
    assert compile_cached(workspace, NVCCACHE_MAX_SIZE=value).status == 1


@pytest.mark.parametrize("module", ["xxhash", "zstandard", "filelock"])
def test_a_fault_of_ours(workspace: Workspace, tmp_path: Path, module: str) -> None:
    """nvcc runs, with every product and no word of ours; the fault is counted and logged."""
    workspace.write("a.cu", SOURCE)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"{module}.py").write_text("raise RuntimeError('injected')\n")
    log = workspace.directory / "log"
    variables = {"PYTHONPATH": str(broken), "NVCCACHE_LOG": str(log)}
    result, counters = workspace.since(lambda: compile_cached(workspace, NVCCACHE_STRICT="0", **variables))
    assert (result.status, result.stdout, result.stderr) == (0, b"", b"")
    assert (workspace.directory / "a.o").exists()
    assert counters.outcome == "fault"
    assert "injected" in log.read_text()
    strict = compile_cached(workspace, **variables)
    assert strict.status == 1 and b"injected" in strict.stderr
    workspace.write("a.cu", BAD_INPUT["syntax error in device code"])
    plain = compile_plain(workspace)
    assert told(compile_cached(workspace, NVCCACHE_STRICT="0", **variables)) == told(plain)


def test_a_temporary_directory_that_cannot_be_used(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("a.cu", SOURCE)
    (tmp_path / "file").write_text("")
    for name in ("absent", "file"):
        variables = {"TMPDIR": str(tmp_path / name), "NVCCACHE_STRICT": "0"}
        plain, cached = compile_plain(workspace, **variables), compile_cached(workspace, **variables)
        assert told(cached) == told(plain)


@pytest.mark.parametrize("name", ["with a blank", "with'quote", 'with"double', "with$dollar", "back\\slash"])
def test_a_temporary_directory_with_a_difficult_name(workspace: Workspace, tmp_path: Path, name: str) -> None:
    workspace.write("a.cu", SOURCE)
    (tmp_path / name).mkdir()
    variables = {"TMPDIR": str(tmp_path / name)}
    plain = compile_plain(workspace, **variables)
    (workspace.directory / "a.o").unlink(missing_ok=True)
    cached = compile_cached(workspace, **variables)
    assert told(cached) == told(plain)
    assert (workspace.directory / "a.o").exists() == (plain.status == 0)
    assert not [path for path in (tmp_path / name).iterdir() if path.name.startswith("nvccache")]
