"""Queries (-M, -E, --version) are answered as nvcc answers them, from a record where that is certain."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import files_of, twice_like_plain, visible_result
from scenarios.support.terminals import on_terminal
from workspaces import OLD_ENOUGH, Counters, Workspace

pytestmark = pytest.mark.light_by_default

SOURCES = {
    "a.cu": '#include "h.h"\n#if __has_include("maybe.h")\n#include "maybe.h"\n#endif\n'
    "__global__ void k(int *x) { *x = VALUE; }\n",
    "b.cu": '#include "deep/inner.h"\n__global__ void l() {}\n',
    "plain.cpp": '#include "h.h"\nint value = VALUE;\n',
    "loud.cu": '#warning "look here"\n__global__ void k() {}\n',
    "include/h.h": "#define VALUE 1\n",
    "include/deep/inner.h": '#include "../h.h"\n',
    "include/deep/more.h": "struct More;\n",
    "options.txt": "-DFROM_FILE\n",
}
# Of each the words, and the file that it writes, if it writes one.
ANSWERED = {
    "dependencies": ("-M a.cu", ""),
    "dependencies without system headers": ("-MM a.cu", ""),
    "dependencies to the file of a rule": ("-M -MF a.d a.cu", "a.d"),
    "dependencies to a product": ("-MM -o a.d a.cu", "a.d"),
    "dependencies to one of two files": ("-M -MF b.d -o a.d a.cu", "a.d"),
    "dependencies to an object": ("-c -M a.cu -o a.o", "a.o"),
    "dependencies of another target": ("-MM -MT other -MP a.cu", ""),
    "dependencies of several": ("-MM a.cu b.cu plain.cpp", ""),
    "dependencies with a warning": ("-M loud.cu", ""),
    "text": ("-E a.cu", ""),
    "text to a file": ("-E a.cu -o a.ii", "a.ii"),
    "text of C++": ("-E plain.cpp", ""),
    "macros": ("-E -Xcompiler -dM a.cu", ""),
    "text with a warning": ("-E loud.cu", ""),
    "version": ("--version", ""),
    "help": ("--help", ""),
    "real architectures": ("-code-ls", ""),
}
INCLUDED = ("-I", "first", "-I", "include")


@pytest.fixture
def inputs(workspace: Workspace) -> Workspace:
    for name, text in SOURCES.items():
        workspace.write(name, text)
    (workspace.directory / "first").mkdir()
    (workspace.directory / "sub").mkdir()
    return workspace


def outcomes_like_plain(inputs: Workspace, *argv: str) -> list[str]:
    """The outcomes of a cold and a warm call, which equal plain nvcc's, whatever files existed before."""
    _, counted = twice_like_plain(inputs, lambda: inputs.plain(*argv), lambda: inputs.cached(*argv))
    return [counters.outcome for counters in counted]


@pytest.mark.by_default(
    "dependencies",
    "dependencies to the file of a rule",
    "dependencies to an object",
    "dependencies of several",
    "dependencies with a warning",
    "text",
    "text of C++",
    "version",
)
@pytest.mark.parametrize("case", ANSWERED)
def test_a_query_is_answered_as_nvcc_answers_it(inputs: Workspace, case: str) -> None:
    argv, product = ANSWERED[case]
    assert outcomes_like_plain(inputs, *argv.split(), *INCLUDED) == ["query_miss", "query_hit"]
    assert not product or (inputs.directory / product).stat().st_size > 10


@pytest.mark.parametrize("argv", ["-E missing.cu", "-MM -MF a.d missing.cu"])
def test_a_query_that_fails_does_so_each_time(inputs: Workspace, argv: str) -> None:
    assert outcomes_like_plain(inputs, *argv.split(), *INCLUDED) == ["failed", "failed"]


@pytest.mark.by_default("-V -nonsense-information", "-M -keep a.cu-preprocess_only")
@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ("-dryrun -c a.cu", "information"),
        ("-V -nonsense", "information"),
        ("-M -keep a.cu", "preprocess_only"),
        ("-MM -MG a.cu", "unknown_option"),
    ],
)
def test_unrecordable_queries_are_left_to_nvcc(inputs: Workspace, argv: str, reason: str) -> None:
    words = [*argv.split(), *INCLUDED]
    result, counters = inputs.since(lambda: inputs.cached(*words))
    assert counters.bypass_reasons == {reason: 1}
    assert result.status == inputs.plain(*words).status


def another_nvcc(inputs: Workspace) -> None:
    """Another program under the name of nvcc."""
    path = Path(inputs.nvcc)
    path.write_text(path.read_text().replace('"$@"', '-include b.cu "$@"'))


def append(name: str, text: str) -> Callable[[Workspace], None]:
    def change(inputs: Workspace) -> None:
        path = inputs.directory / name
        path.write_text((path.read_text() if path.exists() else "") + text)

    return change


# Of each the query, and what changes.
CHANGES: dict[str, tuple[str, Callable[[Workspace], None]]] = {
    "an edited source": ("-E", append("a.cu", '#include "b.cu"\n')),
    "an edited header": ("-MM", append("include/h.h", '#include "deep/more.h"\n')),
    "a header further up the search path": ("-M -MF a.d", append("first/h.h", "#define VALUE 2\n")),
    "a header that was looked for": ("-E -o a.ii", append("include/maybe.h", "struct Maybe;\n")),
    "another nvcc": ("-MM", another_nvcc),
    "an option file": ("-E", append("options.txt", "-include b.cu\n")),
}


def with_own_nvcc(inputs: Workspace) -> None:
    """Make nvcc a script that passes on its arguments."""
    path = inputs.write("bin/nvcc", f'#!/bin/sh\nexec "{inputs.nvcc}" "$@"\n')
    path.chmod(0o755)
    inputs.nvcc = str(path)


def like_plain(inputs: Workspace, *argv: str, **variables: str) -> Counters:
    """What was counted for a call that does as plain nvcc does."""
    plain = inputs.plain(*argv, **variables)
    expected = files_of(inputs)
    result, counters = inputs.since(lambda: inputs.cached(*argv, **variables))
    assert visible_result(result) == visible_result(plain)
    assert files_of(inputs) == expected
    return counters


@pytest.mark.by_default("an edited header", "a header that was looked for", "another nvcc")
@pytest.mark.parametrize("case", CHANGES)
def test_a_preprocess_or_dependency_call_misses_after_its_inputs_change(inputs: Workspace, case: str) -> None:
    with_own_nvcc(inputs)
    query, change = CHANGES[case]
    argv = [*query.split(), "a.cu", "-optf", "options.txt", *INCLUDED]
    assert like_plain(inputs, *argv).outcome == "query_miss"
    assert like_plain(inputs, *argv).outcome == "query_hit"
    change(inputs)
    assert like_plain(inputs, *argv).outcome == "query_miss"


def test_a_version_query_reports_a_replaced_nvcc(inputs: Workspace) -> None:
    with_own_nvcc(inputs)
    for outcome in ("query_miss", "query_hit"):
        assert like_plain(inputs, "--version").outcome == outcome
    path = Path(inputs.nvcc)
    path.write_text("#!/bin/sh\necho 'release 99.9'\n")
    assert b"99.9" in inputs.cached("--version").stdout
    assert b"99.9" in inputs.cached("--version").stdout


def test_a_query_hit_overwrites_an_existing_file_in_place(inputs: Workspace) -> None:
    argv = ["-MM", "-o", "a.d", "a.cu", *INCLUDED]
    inputs.cached(*argv)
    product = inputs.directory / "a.d"
    expected = product.read_bytes()
    product.write_bytes(b"x" * 100_000)
    product.chmod(0o640)
    os.link(product, inputs.directory / "b.d")
    _, counters = inputs.since(lambda: inputs.cached(*argv))
    assert counters.outcome == "query_hit"
    assert product.read_bytes() == (inputs.directory / "b.d").read_bytes() == expected
    assert product.stat().st_mode & 0o777 == 0o640


UNRECORDED = {
    "the time": ("-E clock.cu", "asks for the time"),
    "names of temporary files": (
        "-M a.cu -Xcompiler -v",
        "the output of nvcc contains names of temporary files",
    ),
    "a wrapper's report": ("-MM a.cu -ccbin {work}/reporting/g++", "writes"),
    "a wrapper that looks for its product": ("-E a.cu -o a.ii -ccbin {work}/looking/g++", "files "),
    "a wrapper that sets the mode": ("-E a.cu -o b.ii -ccbin {work}/hiding/g++", "the unusual mode"),
}


@pytest.mark.by_default("the time", "a wrapper that looks for its product")
@pytest.mark.parametrize("case", UNRECORDED)
def test_nondeterministic_queries_are_not_recorded(inputs: Workspace, case: str) -> None:
    inputs.write("clock.cu", "const char *now = __TIME__;\n")
    host = shutil.which("g++")
    texts = {
        "reporting": f"echo called >> {inputs.directory}/report\n",
        "hiding": "umask 077\n",
        "looking": f"test -e {inputs.directory}/a.ii\n",
    }
    for name, text in texts.items():
        inputs.write(f"{name}/g++", f'#!/bin/sh\n{text}exec {host} "$@"\n').chmod(0o755)
    argv, reason = UNRECORDED[case]
    source = argv.split()[1]
    words = [*argv.format(work=inputs.directory).split(), *INCLUDED]
    for _ in range(2):
        for name in ("report", "b.ii"):
            (inputs.directory / name).unlink(missing_ok=True)
        result, counters = inputs.since(lambda: inputs.cached(*words))
        assert (result.status, counters.outcome) == (0, "query_miss"), result.stderr
    explained = inputs.explain(source)
    assert reason in explained


# A query, and what a shell is to do with it; the status goes to standard error.
ENDS = {
    "a full device": ("-M loud.cu", "{call} > /dev/full; echo $? >&2"),
    "a closed descriptor of messages": ("-M loud.cu", "{call} 2>&- | cksum"),
    "a pipe that nobody reads": ("--version", "(sleep 1.5; {call}; echo $? >&2) | true"),
    "a pipe that is read in part": ("-E a.cu", "({call}; echo $? >&2) | head -c 100"),
    "a limit of size": ("-E a.cu", "(ulimit -f 8; {call} > answer; echo $? >&2); cksum answer"),
    "one file with the messages": ("-E loud.cu", "{call} > answer 2>&1; cksum answer"),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_answer_that_cannot_be_written_fails_as_nvcc_does(inputs: Workspace, case: str) -> None:
    inputs.write("a.cu", SOURCES["a.cu"] + "int filled[] = {\n" + "12345678,\n" * 50_000 + "};\n")
    argv, shell_text = ENDS[case]
    words = [*argv.split(), *INCLUDED]
    by_plain = [inputs.nvcc, *words]
    by_cache = [str(launcher_of_tree()), *by_plain]
    expected = shell(inputs, shell_text, by_plain)
    time.sleep(OLD_ENOUGH)
    assert shell(inputs, shell_text, by_cache) == expected
    inputs.cached(*words)
    assert inputs.since(lambda: inputs.cached(*words))[1].outcome == "query_hit"
    assert shell(inputs, shell_text, by_cache) == expected


def shell(inputs: Workspace, text: str, argv: list[str]) -> tuple[int, bytes, bytes]:
    words = " ".join(argv)
    return visible_result(inputs.run(["bash", "-c", text.format(call=words)]))


def test_queries_on_a_terminal_are_left_to_nvcc(inputs: Workspace) -> None:
    argv = ["-M", "loud.cu", *INCLUDED]
    by_cache = [sys.executable, "-m", "nvccache", inputs.nvcc, *argv]
    expected = on_terminal(inputs, [inputs.nvcc, *argv], {}, is_output=True)
    assert expected.status == 0 and b"loud.o" in expected.stderr
    inputs.cached(*argv)
    assert on_terminal(inputs, by_cache, {}, is_output=True) == expected
    assert inputs.counters().bypass_reasons == {"query_streams": 1}


def test_the_disable_readonly_and_recache_settings_hold_for_queries(inputs: Workspace) -> None:
    argv = ["-M", "a.cu", *INCLUDED]

    def outcome(**variables: str) -> str:
        return like_plain(inputs, *argv, **variables).outcome

    def count(name: str) -> dict[str, int]:
        return like_plain(inputs, *argv, **{name: "1"}).calls

    assert not any(count("NVCCACHE_DISABLE").values())
    assert not any(count("NVCCACHE_READONLY").values())
    assert outcome() == "query_miss"
    assert outcome() == "query_hit"
    assert outcome(NVCCACHE_RECACHE="1") == "query_miss"
    assert not any(count("NVCCACHE_READONLY").values())


def test_stats_and_explain_keep_queries_apart_from_compiles(inputs: Workspace) -> None:
    """The share of hits is that of compiles; what nvcc took is saved, and no more than that."""
    inputs.cached("-M", "a.cu", *INCLUDED)
    inputs.cached("-M", "a.cu", *INCLUDED)
    for _ in range(2):
        inputs.cached("--version")
    text = inputs.run([sys.executable, "-m", "nvccache", "stats"]).stdout.decode()
    assert re.search(r"^others +4  2 query_hit, 2 query_miss$", text, re.MULTILINE)
    assert "hit rate" not in text
    output = inputs.explain("a.cu")
    assert output == "`a.cu`: query hit, because no input has changed\n"
    append("include/h.h", "// more\n")(inputs)
    inputs.cached("-M", "a.cu", *INCLUDED)
    output = inputs.explain("a.cu")
    assert output == "`a.cu`: query miss, because no answer to this query with these inputs is recorded\n"


def test_query_results_are_shared_through_a_remote(inputs: Workspace, tmp_path: Path) -> None:
    remote = {"NVCCACHE_REMOTE": f"file://{tmp_path}/remote,rw"}
    (tmp_path / "remote").mkdir()
    argv = ["-M", "a.cu", *INCLUDED]
    assert like_plain(inputs, *argv, **remote).outcome == "query_miss"
    deadline = time.monotonic() + 60
    while any(inputs.cache.glob("remote/*/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shutil.rmtree(inputs.cache)
    assert like_plain(inputs, *argv, **remote).outcome == "query_hit"
