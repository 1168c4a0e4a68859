"""Wrappers that leave, grow, lock or remove files next to the products, as under plain nvcc."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from scenarios.support.both_ways import by_cache, by_plain, rebuild
from scenarios.support.cases import (
    DEFAULT,
    OLD_ENOUGH,
    Case,
    Change,
    call,
    check,
    compile_to_object,
    each,
    made_by_cache,
    made_by_plain,
    make_directory,
    write,
)
from scenarios.support.observed_wrappers import WRAPPED, script, use_wrapper
from workspaces import Workspace

HERE = compile_to_object(WRAPPED)
IN_BIN = compile_to_object("-ccbin {work}/bin/wrapper")
THREE = call(
    line="-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 "
    "-gencode arch=compute_86,code=sm_86 -ccbin {work}/wrapper -c {work}/a.cu -o a.o",
    makes=("a.o",),
    NVCCACHE_JOBS="4",
)
BECOMES = 'exec "{g++}" "$@"'


def with_two(decides: str, ends: str = "") -> str:
    """A wrapper that compiles another value where something succeeds."""
    return f'{decides} 2>/dev/null && {{ {ends or ":"}; set -- -DVALUE=2 "$@"; }}\n{BECOMES}'


def in_python(decides: str) -> str:
    begin = f"import os, sys\nargv = sys.argv[1:]\ntry:\n    {decides}\n    argv.insert(0, '-DVALUE=2')\n"
    return begin + "except OSError: pass\nos.execv('{g++}', ['{g++}', *argv])\n"


def entries(log: Path) -> int:
    """The dependencies of how many compiles, or how many lines."""
    return sum(not line.startswith(" ") for line in log.read_text().splitlines())


@pytest.mark.by_default("log")
@pytest.mark.parametrize(
    "text", [f"echo x >> log\n{BECOMES}", f"export DEPENDENCIES_OUTPUT=log\n{BECOMES}"], ids=["log", "gcc"]
)
def test_a_log_that_several_stages_append_to_is_complete_after_each_compile(
    workspace: Workspace, text: str
) -> None:
    """The first stage creates it, and the others append to it: none may be a hit if another runs."""
    use_wrapper(workspace, text)
    log = workspace.directory / "log"
    made_by_plain(workspace, HERE)
    expected = entries(log)
    assert expected > 2
    for edit in ("", "int more() { return 5; }\n", ""):
        workspace.write("a.cu", (workspace.directory / "a.cu").read_text() + edit)
        time.sleep(OLD_ENOUGH)
        for before in (0, expected):  # made, and then added to
            if not before:
                log.unlink()
            made = made_by_cache(workspace, HERE)
            assert entries(log) == before + (0 if made.outcome == "direct_hit" else expected), (
                edit,
                made.outcome,
            )
            time.sleep(OLD_ENOUGH)
        kept = log.read_text()
        assert made == made_by_plain(workspace, HERE)
        log.write_text(kept)


def test_a_wrapper_that_appends_to_a_log_does_not_recompile_device_code(workspace: Workspace) -> None:
    use_wrapper(workspace, f"echo x >> log\n{BECOMES}", files={"log": "x\n"})
    made_by_cache(workspace, HERE)
    workspace.write("a.cu", f"{DEFAULT}// one\n")
    time.sleep(OLD_ENOUGH)
    _, counters = workspace.since(lambda: made_by_cache(workspace, HERE))
    assert counters.ran().keys().isdisjoint({"cicc", "ptxas"})


# Whether such a call is recorded depends on whether its stages, which run in parallel, meet at the lock.
DIRECTORY, FILE = make_directory("lock"), write("lock", "")
LOCKS: dict[str, tuple[str, str, Change]] = {
    "mkdir": (with_two("mkdir lock", "rmdir lock"), "#!/bin/sh", DIRECTORY),
    "O_EXCL": (
        in_python("os.close(os.open('lock', os.O_CREAT | os.O_EXCL)); os.unlink('lock')"),
        "#!{python}",
        FILE,
    ),
}


@pytest.mark.by_default("O_EXCL")
@pytest.mark.parametrize("lock", LOCKS)
def test_a_wrapper_that_got_a_lock_runs_again_once_the_lock_is_taken(workspace: Workspace, lock: str) -> None:
    text, first, takes = LOCKS[lock]
    files, put = {"a.cu": DEFAULT}, script(text, "bin/wrapper", first)
    check(workspace, Case(takes, (), files, IN_BIN, prepare=put, is_recorded=None))


@pytest.mark.by_default("mkdir")
@pytest.mark.parametrize("lock", LOCKS)
def test_a_wrapper_runs_again_once_the_lock_it_found_is_free(workspace: Workspace, lock: str) -> None:
    text, first, takes = LOCKS[lock]

    def freed(workspace: Workspace) -> None:
        path = workspace.directory / "lock"
        path.rmdir() if path.is_dir() else path.unlink()

    files, put = {"a.cu": DEFAULT}, each(script(text, "bin/wrapper", first), takes)
    check(workspace, Case(freed, (), files, IN_BIN, prepare=put, is_recorded=None))


def test_a_compile_whose_wrapper_deleted_a_file_is_no_hit_without_the_file(workspace: Workspace) -> None:
    """A compile that found it says nothing about one that does not."""
    use_wrapper(workspace, in_python("os.unlink('flag')"), "bin/wrapper", "#!{python}")
    which = call(line="-E -arch=sm_75 -ccbin {work}/bin/wrapper {work}/a.cu -o a.ii", makes=("a.ii",))
    expected = made_by_plain(workspace, which)
    workspace.write("flag", "x")
    time.sleep(OLD_ENOUGH)
    made_by_cache(workspace, which)
    assert not (workspace.directory / "flag").exists()
    for _ in range(2):
        time.sleep(OLD_ENOUGH)
        made = made_by_cache(workspace, which)
        assert made == expected


@pytest.mark.by_default("a lock")
@pytest.mark.parametrize(
    "text",
    [
        'mkdir busy || exit 9\n"{g++}" "$@"\nstatus=$?\nrmdir busy\nexit $status',
        'echo "#define VALUE 3" > tmp.h\n"{g++}" -include ./tmp.h "$@"\nstatus=$?\nrm tmp.h\nexit $status',
    ],
    ids=["a lock", "a temporary file"],
)
def test_wrappers_that_share_a_file_run_one_after_another(workspace: Workspace, text: str) -> None:
    """As nvcc runs them; other stages run concurrently."""
    use_wrapper(workspace, text)
    for number in range(2):
        made = made_by_cache(workspace, THREE)
        assert made == made_by_plain(workspace, THREE), made.stderr
        workspace.write("a.cu", f"{(workspace.directory / 'a.cu').read_text()}int more_{number};\n")
        time.sleep(OLD_ENOUGH)


KEEPING = {
    "unknown": 'for word; do [ -s "$word" ] && echo x >> "$TMPDIR/log"; done\nexec "{g++}" -g "$@"',
    "compressed": 'echo x >> "${TMPDIR:-/tmp}/log"\nexec "{g++}" -g -gz "$@"',
}


@pytest.mark.by_default("unknown")
@pytest.mark.parametrize("what", KEEPING)
def test_with_keep_debug_information_names_the_kept_intermediates(workspace: Workspace, what: str) -> None:
    """Where plain nvcc leaves them for the user, and not in a directory of ours."""
    use_wrapper(workspace, KEEPING[what])
    options = ("-keep", "-ccbin", f"{workspace.directory}/wrapper", "-arch=sm_75", "-c", "a.cu", "-o", "a.o")
    workspace.environ["TMPDIR"] = str(workspace.directory.parent)
    assert workspace.plain(*options).status == 0
    expected = (workspace.directory / "a.o").read_bytes()
    for _ in range(2):
        (workspace.directory / "a.o").unlink()
        assert workspace.cached(*options).status == 0
        assert (workspace.directory / "a.o").read_bytes() == expected


SIDE_FILES = {
    "split debug information": ("-g -Xcompiler -gsplit-dwarf", ("dwo",)),
    "coverage": ("-Xcompiler --coverage,-frandom-seed=a", ("gcno",)),
    "stack usage": ("-Xcompiler -fstack-usage", ("su",)),
    "all of them": (
        "-g -Xcompiler -gsplit-dwarf,--coverage,-fstack-usage,-frandom-seed=a",
        ("dwo", "gcno", "su"),
    ),
}


@pytest.mark.by_default("all of them")
@pytest.mark.parametrize("what", SIDE_FILES)
def test_files_that_gcc_writes_beside_a_host_object_are_outputs(workspace: Workspace, what: str) -> None:
    options, suffixes = SIDE_FILES[what]
    workspace.write("a.cpp", "int f(int i) { return i + 1; }\n")
    (workspace.directory / "out").mkdir()
    expected = ["miss", "direct_hit", "stage_hit", "miss"]
    for product, outcome in zip(["a.o", "a.o", "a.o", "out/b.c.o"], expected, strict=True):
        if outcome == "stage_hit":
            workspace.forget_calls()
        made = rebuild(workspace, *options.split(), "-c", "a.cpp", product=product)
        assert made.outcome == outcome
        stem = product.removesuffix(".o")
        assert set(made.files) == {product, *(f"{stem}.{suffix}" for suffix in suffixes)}


def test_files_that_gcc_writes_beside_an_object_are_outputs(workspace: Workspace) -> None:
    """They name intermediates of nvcc, whose paths are never the same."""
    options, suffixes = SIDE_FILES["all of them"]
    workspace.write("a.cu", DEFAULT)
    line = (*options.split(), "-arch=sm_75", "-c", "a.cu", "-o", "a.o")
    plain = by_plain(workspace, *line)
    first = by_cache(workspace, *line)
    assert first.files.keys() == plain.files.keys() == {"a.o", *(f"a.{suffix}" for suffix in suffixes)}
    time.sleep(OLD_ENOUGH)
    hit = by_cache(workspace, *line)
    assert (hit.outcome, hit.files) == ("direct_hit", first.files)
    modes = [{name: mode for name, (mode, _) in made.files.items()} for made in (plain, first, hit)]
    assert modes[0] == modes[1] == modes[2]
    usage = [re.sub(rb"^/\S*/\S*a\.cudafe1", b"", made["a.su"], flags=re.MULTILINE) for made in (plain, hit)]
    assert usage[0] == usage[1]


def test_split_debug_without_debug_information_makes_the_same_files_as_nvcc(workspace: Workspace) -> None:
    """Without debug information there is nothing to split."""
    workspace.write("a.cpp", "int f(int i) { return i + 1; }\n")
    line = ("-Xcompiler", "-gsplit-dwarf,-g0", "-c", "a.cpp", "-o", "a.o")
    assert by_cache(workspace, *line).files == by_plain(workspace, *line).files
