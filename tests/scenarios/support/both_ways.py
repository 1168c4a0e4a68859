"""One command line through nvccache and by plain nvcc, from the same files: everything must be the same.

Compared are the exit status, both streams, and every new or rewritten file with its mode. The reference is
made with `-keep`, whose names for intermediates are the same on every run, unless nvccache bypasses the call.
What differs is compared once more with what nvcc's tools make with our module id.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from scenarios.support.toolkits import HOST_OPTIONS
from scenarios.support.written_ids import compile_with_ids
from workspaces import REFERENCE_KEEP_DIRECTORY, Counters, Result, Workspace

Files = Mapping[str, tuple[int, bytes]]  # name -> mode and content

_TEMPORARY = re.compile(rb"(?:/tmp/)?tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_")
_ANYWHERE = re.compile(rb"(?:/[^\s:;'\"]*/)?tmpxft_[0-9a-f]{8}_[0-9a-f]{8}(?:-\d+_)?|/[^\s:;'\"]*/cc\w{6}\.s")
_MILLISECONDS = re.compile(rb"Compile time = [0-9.]+ ms")
_SYSTEM = ("/usr/", "/bin", "/lib", "/nowhere")  # nothing here changes while a test runs


@dataclasses.dataclass(frozen=True)
class Made:
    """The result and output files of a compile; through nvccache also what was counted."""

    status: int
    stdout: bytes
    stderr: bytes
    files: Files
    counters: Counters | None = dataclasses.field(default=None, compare=False, repr=False)

    def __getitem__(self, name: str) -> bytes:
        """The content of a file."""
        return self.files[name][1]

    @property
    def outcome(self) -> str:
        """What became of the call through nvccache."""
        assert self.counters
        return self.counters.outcome if any(self.counters.calls.values()) else "not counted"

    @property
    def result(self) -> Result:
        return Result(self.status, self.stdout, self.stderr)

    def ran(self) -> dict[str, int]:
        """Stage -> how often it was run."""
        assert self.counters
        return self.counters.ran()

    def compiled(self) -> dict[str, int]:
        """Like `ran`, without preprocessing."""
        assert self.counters
        return self.counters.compiled()


def both_ways(
    workspace: Workspace,
    *argv: str | Path,
    cwd: Path | None = None,
    keep: Path | None = None,
    **variables: str,
) -> Made:
    """Check that nvccache and plain nvcc make the same of a command line; new files are removed."""
    found = by_cache(workspace, *argv, cwd=cwd, **variables)
    check_like_plain(workspace, found, *argv, cwd=cwd, keep=keep, **variables)
    return found


def check_like_plain(
    workspace: Workspace,
    found: Made,
    *argv: str | Path,
    cwd: Path | None = None,
    keep: Path | None = None,
    **variables: str,
) -> None:
    """Check that nvccache has made of a command line what plain nvcc makes."""
    assert found.counters
    assert not found.counters.calls["fault"]
    is_bypassed = bool(found.counters.calls["bypass"])
    keep = keep or keep_of(workspace)
    plain = by_plain(workspace, *argv, cwd=cwd, keep=None if is_bypassed else keep, **variables)
    if is_bypassed:  # nvcc alone may write the time and its own process id
        shown, wanted = (
            dataclasses.replace(made, files=dict.fromkeys(made.files, (0, b""))) for made in (found, plain)
        )
    else:
        shown, wanted = found, plain
    differing = differences(readable_result(shown, keep), readable_result(wanted, keep))
    if differing and not is_bypassed and plain.status == 0:
        wanted = with_ids(workspace, plain, argv, cwd, keep, variables)
        differing = differences(readable_result(shown, keep), readable_result(wanted, keep))
    assert not differing, described(workspace, argv, differing, cwd, **variables)


def with_ids(
    workspace: Workspace,
    plain: Made,
    argv: Collection[str | Path],
    cwd: Path | None,
    keep: Path,
    variables: Mapping[str, str],
) -> Made:
    """The result of plain nvcc, with the files that its tools make with our ids; remembered likewise."""
    line = _with_host_compiler(argv)

    def run() -> Result:
        return Result(compile_with_ids(workspace, line, keep, cwd, variables), b"", b"")

    made = _remembered(
        lambda: _state(workspace, (*line, "with our ids", keep), cwd, (), variables),
        lambda: _made(workspace, cwd, (), run),
    )
    return dataclasses.replace(plain, files={**plain.files, **made.files}) if made.status == 0 else plain


def differences(found: Made, expected: Made) -> list[str]:
    """In which parts two results differ, with what each has."""
    parts = [
        f"{part}: {ours!r}, and by nvcc {theirs!r}"
        for part in ("status", "stdout", "stderr")
        if (ours := getattr(found, part)) != (theirs := getattr(expected, part))
    ]
    names = sorted(found.files.keys() | expected.files.keys())
    return parts + [
        f"`{name}`: {_file_words(found, name)}, and by nvcc {_file_words(expected, name)}"
        for name in names
        if found.files.get(name) != expected.files.get(name)
    ]


def _file_words(made: Made, name: str) -> str:
    mode, content = made.files.get(name, (0, b""))
    return f"mode {mode:o} and {len(content)} bytes" if name in made.files else "missing"


def described(
    workspace: Workspace,
    argv: Collection[str | Path],
    differing: list[str],
    cwd: Path | None = None,
    **variables: str,
) -> str:
    """A failure: both command lines as one can type them, what differs, and what `explain` says."""
    place = cwd or workspace.directory
    line = shlex.join(map(str, (workspace.nvcc, *_with_host_compiler(argv))))
    own = {"NVCCACHE_DIR": str(workspace.cache), **variables}
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in own.items())
    lines = (f"cd {place}", f"{settings} {line}", f"{settings} nvccache {line}")
    try:
        explained = workspace.explain(cwd=place, **variables)
    except AssertionError as nothing_recorded:
        explained = str(nothing_recorded)
    return "\n".join(("differs from nvcc:", *differing, "", *lines, "", explained))


def readable_result(made: Made, keep: Path) -> Made:
    streams = {part: readable(getattr(made, part), keep) for part in ("stdout", "stderr")}
    return dataclasses.replace(made, **streams)


def rebuild(
    workspace: Workspace,
    *argv: str | Path,
    product: str = "a.o",
    cwd: Path | None = None,
    keep: Path | None = None,
    **variables: str,
) -> Made:
    """The same for a compile that succeeds and is not bypassed."""
    made = both_ways(workspace, *argv, "-o", product, cwd=cwd, keep=keep, **variables)
    assert made.status == 0, made.stderr
    assert made.counters
    assert not made.counters.calls["bypass"], made.counters.bypass_reasons
    assert not _TEMPORARY.search(made.stdout + made.stderr)  # with -keep nvcc says no such name
    return made


def by_cache(
    workspace: Workspace,
    *argv: str | Path,
    cwd: Path | None = None,
    makes: Collection[str] = (),
    **variables: str,
) -> Made:
    """Compile through nvccache, with what it counted; a direct hit runs no stage."""
    counters = Counters({"calls": {}, "bypass_reasons": {}, "stages": {}})

    def compile_and_count() -> Result:
        nonlocal counters
        line = _with_host_compiler(argv)
        result, counters = workspace.since(lambda: workspace.cached(*line, cwd=cwd, **variables))
        return result

    made = _made(workspace, cwd, makes, compile_and_count)
    made = dataclasses.replace(made, counters=counters)
    assert made.outcome != "direct_hit" or counters.ran() == {}
    return made


def by_plain(
    workspace: Workspace,
    *argv: str | Path,
    cwd: Path | None = None,
    keep: Path | None = None,
    makes: Collection[str] = (),
    **variables: str,
) -> Made:
    """Compile with plain nvcc; with `keep`, its names for intermediates are the same on every run.

    A result is remembered as long as nothing below the test's directory changes that nvcc could read.
    """
    kept: tuple[str | Path, ...] = ()
    if keep:
        keep.mkdir(exist_ok=True)
        kept = ("-keep", "-keep-dir", keep)
    line = (*_with_host_compiler(argv), *kept)
    return _remembered(
        lambda: _state(workspace, line, cwd, makes, variables) if keep else None,
        lambda: _made(workspace, cwd, makes, lambda: workspace.plain(*line, cwd=cwd, **variables)),
    )


State = tuple[object, ...]
_results_of_nvcc: dict[State, Made] = {}


def _remembered(state: Callable[[], State | None], make: Callable[[], Made]) -> Made:
    """A result, made again unless the state is one from which it was made, and which that did not change."""
    before = state()
    if before is not None and before in _results_of_nvcc:
        return _results_of_nvcc[before]
    made = make()
    if before is not None and before == state():
        _results_of_nvcc[before] = made
    return made


def _state(
    workspace: Workspace,
    line: Collection[str | Path],
    cwd: Path | None,
    makes: Collection[str],
    variables: Mapping[str, str],
) -> State | None:
    """All that a compile by plain nvcc depends on; None where it may depend on what lies elsewhere."""
    root = workspace.directory.parent
    place = cwd or workspace.directory
    products = {os.path.normpath(place / name) for name in makes}
    own = (str(root), str(REFERENCE_KEEP_DIRECTORY), workspace.nvcc)
    text = "\n".join([*map(str, line), *variables.values()])
    words = re.findall(r"(?:^|[=,:I])(/[^,:=\n]+)", text, re.MULTILINE)
    if not all(word.startswith((*own, *_SYSTEM)) for word in words):
        return None
    found: list[tuple[object, ...]] = []
    for folder, folders, names in os.walk(root):
        if folder == str(root):  # the caches, and what only tests read
            folders[:] = [name for name in folders if name != "keep" and "cache" not in name]
            names[:] = {*names} - {"log", "trace"}
        for path in [os.path.join(folder, name) for name in (*folders, *names)]:
            status = os.lstat(path)
            moments = status.st_mtime_ns, status.st_ctime_ns
            if stat.S_ISDIR(status.st_mode):  # some change by what a compile makes in them
                is_changed = path in (str(workspace.directory), os.path.normpath(place))
                found.append((path, status.st_mode, () if is_changed else status.st_mtime_ns))
            elif path not in products:
                found.append((path, status.st_mode, status.st_ino, status.st_size, moments))
    mask = os.umask(0)
    os.umask(mask)
    environ = {**workspace.environ, **variables}.items()
    return (workspace.nvcc, *map(str, line), str(place), mask, *sorted(environ), *sorted(found))


def object_by_plain(workspace: Workspace, *argv: str | Path) -> bytes:
    """The content of the object that plain nvcc makes with `-keep`; the file is removed."""
    made = by_plain(workspace, "-c", *argv, "-o", "plain.o", keep=keep_of(workspace))
    assert made.status == 0, made.stderr
    return made["plain.o"]


def keep_of(workspace: Workspace) -> Path:
    """Where plain nvcc keeps its intermediates."""
    return workspace.directory.parent / "keep"


def twice_like_plain(
    workspace: Workspace, by_plain: Callable[[], Result], by_cache: Callable[[], Result]
) -> tuple[Result, list[Counters]]:
    """Check for the same status, messages and files, cold and warm; the plain result, and what was counted.

    For calls that fail, where remaining products matter, and for calls without products.
    """
    before = files_of(workspace)
    plain = by_plain()
    expected = files_of(workspace)
    counted = []
    for _ in ("cold", "warm"):
        for name in files_of(workspace).keys() - before.keys():
            (workspace.directory / name).unlink()
        for name, content in before.items():
            (workspace.directory / name).write_bytes(content)
        result, counters = workspace.since(by_cache)
        assert visible_result(result) == visible_result(plain)
        assert files_of(workspace) == expected
        counted.append(counters)
    return plain, counted


def visible_result(result: Result) -> tuple[int, bytes, bytes]:
    """The result as a user sees it, without the names of temporary files."""
    return result.status, result.stdout, _ANYWHERE.sub(b"", result.stderr)


def files_of(workspace: Workspace) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace.directory)): path.read_bytes()
        for path in workspace.directory.rglob("*")
        if path.is_file()
    }


def readable(diagnostics: bytes, keep: Path) -> bytes:
    """Diagnostics without names of temporary files and times, which differ from run to run."""
    diagnostics = _TEMPORARY.sub(b"", diagnostics.replace(os.fsencode(keep) + b"/", b""))
    return _MILLISECONDS.sub(b"Compile time = # ms", diagnostics)


def _with_host_compiler(argv: Collection[str | Path]) -> tuple[str | Path, ...]:
    names_one = any(str(word).partition("=")[0] in ("-ccbin", "--compiler-bindir") for word in argv)
    return (*argv, *(() if names_one else HOST_OPTIONS))


def _made(workspace: Workspace, cwd: Path | None, makes: Collection[str], run: Callable[[], Result]) -> Made:
    """Run a call; its files are those named in `makes`, removed beforehand, or else all that it writes."""
    place = cwd or workspace.directory
    if makes:
        for name in makes:
            (place / name).unlink(missing_ok=True)
        result = run()
        files = {name: _file(place / name) for name in makes if (place / name).is_file()}
        assert result.status != 0 or files.keys() == set(makes), result.stderr
    else:
        before = _stamps(workspace.directory, place)
        result = run()
        files = _take(workspace.directory, place, before)
    return Made(result.status, result.stdout, result.stderr, files)


def _file(path: Path) -> tuple[int, bytes]:
    return stat.S_IMODE(path.stat().st_mode), path.read_bytes()


def _stamps(*directories: Path) -> dict[Path, tuple[int, ...]]:
    """Path -> inode, time and size, one of which changes when a file is rewritten; empty for a directory."""
    found: dict[Path, tuple[int, ...]] = {}
    for path in {path for directory in directories for path in directory.rglob("*")}:
        status = path.lstat()
        is_file = stat.S_ISREG(status.st_mode)
        found[path] = (status.st_ino, status.st_mtime_ns, status.st_size) if is_file else ()
    return found


def _take(directory: Path, place: Path, before: Mapping[Path, tuple[int, ...]]) -> Files:
    """The files that were written; new ones are removed."""
    files = {}
    stamps = _stamps(directory, place)
    for path in sorted(path for path, stamp in stamps.items() if before.get(path) != stamp):
        if path.is_file():
            name = _TEMPORARY.sub(b"", os.fsencode(os.path.relpath(path, directory)))
            files[name.decode()] = _file(path)
    for path in sorted(stamps.keys() - before.keys()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return files
