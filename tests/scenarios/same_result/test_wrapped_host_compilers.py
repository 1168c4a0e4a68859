"""Host compilers behind a wrapper that depends on the object's path, or writes files next to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from scenarios.support.cases import (
    KERNEL,
    Case,
    Change,
    call,
    check,
    compile_to_object,
    each,
    made_by_plain,
    write,
)
from scenarios.support.observed_wrappers import WRAPPED, script, use_wrapper
from workspaces import Counters, Workspace

SOURCE = KERNEL.replace("VALUE", "1")
FILES = {"a.cu": SOURCE, "debug/flags": ""}
MORE = "-fpatchable-function-entry=2"
HERE = compile_to_object(WRAPPED)
DEBUG = call(WRAPPED, line="-c a.cu -o debug/a.o", makes=("debug/a.o",))
INNER = 'case "$*" in *debug/*) set -- {more} "$@" ;; esac\nexec "{g++}" "$@"'
BECOMES = 'exec "{g++}" $V "$@"'
LOOP = """
output= before=
for word in "$@"; do
  if [ "$before" = -o ]; then output=$word; fi
  before=$word
done
"""


def chooses(text: str, first: str = "#!/bin/sh", name: str = "wrapper") -> Callable[[str], Change]:
    """A script that adds an option, `{more}` in its text, to the compile of `debug/a.o`."""
    return lambda option: script(text.replace("{more}", option), name, first)


def chooses_behind_another(option: str) -> Change:
    return each(script('exec {work}/inner "$@"'), chooses(INNER, name="inner")(option))


CHOOSERS = {
    "the word behind -o": chooses(LOOP + 'if [ "$output" = debug/a.o ]; then V={more}; fi\n' + BECOMES),
    "a script behind one that hands on all": chooses_behind_another,
}


@pytest.mark.by_default("a script behind one that hands on all")
@pytest.mark.parametrize("what", CHOOSERS)
def test_a_wrapper_that_chooses_options_by_the_object_path_gives_no_stale_object(
    workspace: Workspace, what: str
) -> None:
    put = CHOOSERS[what](MORE)
    check(workspace, Case(files=FILES, call=HERE, then=DEBUG, prepare=put))
    plain, debug = (made_by_plain(workspace, which).files for which in (HERE, DEBUG))
    assert plain["a.o"] != debug["debug/a.o"]


# Options added to the host compile, and the files they write next to the object.
BESIDE = {
    "coverage": ("--coverage", {"a.gcno"}),
    "the use of the stack": ("-fstack-usage", {"a.su"}),
    "temporary files": ("-save-temps=obj", {"a.s"}),
}
ADDS = {
    "a script": 'exec "{g++}" %s "$@"',
    "a script that heeds its arguments": 'case " $* " in *" -c "*) set -- %s "$@" ;; esac\nexec "{g++}" "$@"',
}
LINE = call(WRAPPED, line="-c a.cu -o out/a.o", makes=("out/a.o",))


def compile_into_empty_directory(
    workspace: Workspace, *, cached: bool = True
) -> tuple[set[str], bytes, Counters]:
    """Compile into an empty `out`: the names in it, the object and what was counted."""
    out = workspace.directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    run = workspace.cached if cached else workspace.plain
    result, counters = workspace.since(lambda: run(*LINE.argv(workspace)))
    assert result.status == 0, result.stderr
    return {path.name for path in out.iterdir()}, (out / "a.o").read_bytes(), counters


@pytest.mark.by_default("a script-coverage")
@pytest.mark.parametrize("what", BESIDE)
@pytest.mark.parametrize("adds", ADDS)
def test_files_that_a_wrapper_makes_gcc_write_beside_the_object_exist_after_every_compile(
    workspace: Workspace, adds: str, what: str
) -> None:
    options, beside = BESIDE[what]
    use_wrapper(workspace, ADDS[adds] % options, files=FILES)
    expected, _, _ = compile_into_empty_directory(workspace, cached=False)
    assert beside <= expected
    for _ in range(2):
        found, image, counters = compile_into_empty_directory(workspace)
        assert beside <= found
        assert b"product-" not in image
    assert counters.outcome == "partial_hit", "what lies beside is in no record"
    assert counters.ran() == {"host_compile": 1}, "what comes before it is cached, and it runs once"
    write("a.cu", SOURCE.replace("return 1", "return 2"))(workspace)
    assert beside <= compile_into_empty_directory(workspace)[0]


def test_a_wrapper_that_asks_whether_the_object_exists_runs_each_time(workspace: Workspace) -> None:
    text = LOOP + f'if [ -e "$output" ]; then V={MORE}; fi\n' + BECOMES
    use_wrapper(workspace, text, files=FILES)
    for command in (workspace.plain, workspace.cached, workspace.cached):
        images = []
        (workspace.directory / "a.o").unlink(missing_ok=True)
        for _ in range(2):
            assert command(*HERE.argv(workspace)).status == 0
            images.append((workspace.directory / "a.o").read_bytes())
        assert images[0] != images[1]


def test_a_file_that_a_wrapper_writes_beside_the_object_exists_after_every_compile(
    workspace: Workspace,
) -> None:
    text = LOOP + 'case $output in *.o) echo "$output" > "${output%.o}.log" ;; esac\nexec "{g++}" "$@"'
    use_wrapper(workspace, text, files=FILES)
    for _ in range(2):
        found, _, _ = compile_into_empty_directory(workspace)
        assert found == {"a.o", "a.log"}
        assert (workspace.directory / "out/a.log").read_text() == "out/a.o\n"
