"""Messages that quote the source quote its present text, and a terminal gets what a pipe gets."""

from __future__ import annotations

import time

import pytest

from installations import launcher_of_tree
from scenarios.support.both_ways import rebuild
from scenarios.support.edits import compile_once, put
from scenarios.support.terminals import MILLISECONDS, on_terminal
from scenarios.support.toolkits import HOST_OPTIONS
from workspaces import OLD_ENOUGH, Result, Workspace

pytestmark = pytest.mark.light_by_default
WORDS = ("-c", "a.cu", "-Xcompiler", "-Wall,-Wextra")
FILES = {
    "h.h": "static inline int in_header(unsigned u, int i) { return u < i; /* one */ }\n",
    "m.h": "#define LESS(a, b) ((a) < (b)) /* spelled */\n#define OPERAND i\n",
    "a.cu": '#include "h.h"\n#include "m.h"\n#warning said /* so */\n'
    "__global__ void kernel(int *x) { *x = 1; }\n"
    "int in_source(unsigned u, int i) { return u < i; /* one */ }\n"
    "int in_macro(unsigned u, int i) { return LESS(u, i) + in_header(u, i); }\n"
    "int odd() { return 'ab'; /* one */ }\n",
}
# Of none of them the preprocessed text tells.
EDITS = {
    "a comment in the source": ("a.cu", "i; /* one */", "i; /* two */"),
    "a macro for an operand": ("a.cu", "u < i", "u < OPERAND"),
    "a comment in a header": ("h.h", "one", "two"),
    "a comment behind a definition": ("m.h", "spelled", "written"),
    "a comment on a line that the front ends quote": ("a.cu", "'ab'; /* one */", "'ab'; /* two */"),
}


def test_diagnostics_quote_the_current_source_lines(workspace: Workspace) -> None:
    """After each edit, and when it is taken back."""
    put(workspace, FILES)
    first = rebuild(workspace, *WORDS)
    assert all(text in first.stderr for text in (b"one */", b"so */", b"'ab'"))
    before = dict(FILES)
    for edit, (name, old, new) in EDITS.items():
        after = {**before, name: before[name].replace(old, new, 1)}
        assert after != before, edit
        put(workspace, after)
        rebuild(workspace, *WORDS)
        before = after
    put(workspace, FILES)
    workspace.forget_calls()
    result = rebuild(workspace, *WORDS)
    assert result == first
    assert result.compiled() == {}


def test_quoted_source_text_is_an_input_only_of_stages_that_printed_diagnostics(workspace: Workspace) -> None:
    """Only a stage that printed diagnostics depends on the text they quote."""
    put(workspace, FILES)
    silent = ("-c", "a.cu", "-w")
    compile_once(workspace, *silent)
    put(workspace, {"h.h": FILES["h.h"].replace("one", "two")})
    made = rebuild(workspace, *silent)
    assert made.compiled() == {}


BY_ALL = '#line 1 "{}"\n#warning said\nint f{}(unsigned u, int i) {{ return u < i; }}\n'
NAMES = {"other.txt": "other.txt", "sub/../next.txt": "next.txt", "./a b\\\\c.txt": "a b\\c.txt"}


def test_a_file_that_only_a_line_directive_names_is_quoted(workspace: Workspace) -> None:
    """No pass enters it; it may change and go."""
    (workspace.directory / "sub").mkdir()
    put(workspace, {"a.cu": "".join(BY_ALL.format(name, number) for number, name in enumerate(NAMES))})
    messages = []
    for content in ("said\nshown\n", "said anew\nshown anew\n", None):
        put(workspace, dict.fromkeys(NAMES.values(), content))
        result = rebuild(workspace, *WORDS)
        messages.append(result.stderr)
        workspace.forget_calls()
        assert workspace.cached(*WORDS, *HOST_OPTIONS, "-o", "a.o").stderr == result.stderr
    assert messages[1].count(b"shown anew\n") == len(NAMES)
    assert messages[1].count(b"said anew\n") == 2 * len(NAMES)


def test_a_line_directive_that_names_stdin_gives_the_result_of_nvcc(workspace: Workspace) -> None:
    put(workspace, {"a.cu": BY_ALL.format("/dev/stdin", 0)})
    for _ in range(2):
        rebuild(workspace, *WORDS)


def test_names_of_line_directives_are_in_the_dependency_file(workspace: Workspace) -> None:
    """By nvcc a name that begins a file is a dependency; by us too, in every way to answer a call."""
    text = '#include "h.h"\n#line 1 "/dev/stdin"\n__global__ void k() {}\n#line 1 ""\n#line 1 "none.h"\n'
    put(workspace, {**FILES, "a.cu": text + '#line 2 "second.h"\n# 1 "a b.h" 3\nint x;\n'})
    argv = ("-c", "a.cu", "-MMD", "-MP", "-MF", "a.d")
    rule = workspace.directory / "a.d"
    assert workspace.plain(*argv, *HOST_OPTIONS, "-o", "a.o").status == 0
    expected = rule.read_bytes()
    assert all(name in expected for name in (b" /dev/stdin ", b" none.h"))
    for outcome in ("miss", "direct_hit", "stage_hit"):
        rule.unlink()
        result, counters = workspace.since(lambda: workspace.cached(*argv, *HOST_OPTIONS, "-o", "a.o"))
        assert (result.status, rule.read_bytes()) == (0, expected)
        assert counters.outcome == outcome
        if outcome == "direct_hit":
            workspace.forget_calls()


# A warning of the preprocessor, of both front ends, of ptxas and of the host compiler.
LOUD = (
    '#warning "look here"\n'
    "__global__ void k(int *p) { int unused; *p = 1; }\n"
    "static int never(int a) { int b; return a; }\n"
)
TALKING = (*HOST_OPTIONS, "-arch=sm_80", "-Xcompiler", "-Wall", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o")
COLOURED = {"TERM": "xterm-256color"}
ESCAPE = b"\x1b["


@pytest.fixture
def loud(workspace: Workspace) -> Workspace:
    workspace.write("a.cu", LOUD)
    for name in ("TERM", "COLORTERM", "COLUMNS", "GCC_COLORS", "NO_COLOR"):
        workspace.environ.pop(name, None)
    return workspace


def cached_on_terminal(workspace: Workspace, *argv: str) -> tuple[Result, str]:
    """What nvccache shows on a terminal, and what became of the call."""
    time.sleep(OLD_ENOUGH)
    launched = [str(launcher_of_tree()), workspace.nvcc, *argv]
    found, counters = workspace.since(lambda: on_terminal(workspace, launched, COLOURED))
    # A terminal makes "\r\n" of line ends.
    return Result(found.status, found.stdout, found.stderr.replace(b"\r\n", b"\n")), counters.outcome


def through_pipe(workspace: Workspace, *argv: str) -> Result:
    plain = workspace.plain(*argv, **COLOURED)
    return Result(plain.status, plain.stdout, MILLISECONDS.sub(b"# ms", plain.stderr))


@pytest.mark.parametrize("options", [(), ("-Xcompiler", "-fdiagnostics-color=always")], ids=["", "coloured"])
def test_messages_on_a_terminal_equal_those_in_a_pipe(loud: Workspace, options: tuple[str, ...]) -> None:
    """As a miss, a replay and a stage hit; so a pipe and a terminal share a result."""
    argv = (*TALKING, *options)
    expected = through_pipe(loud, *argv)
    assert b"unused" in expected.stderr and (ESCAPE in expected.stderr) == bool(options)
    assert cached_on_terminal(loud, *argv) == (expected, "miss")
    assert cached_on_terminal(loud, *argv) == (expected, "direct_hit")
    loud.forget_calls()
    assert cached_on_terminal(loud, *argv) == (expected, "stage_hit")


def test_a_bypassed_call_writes_to_the_terminal_with_colours(loud: Workspace) -> None:
    argv = (*TALKING, "-objtemp")
    found, outcome = cached_on_terminal(loud, *argv)
    plain = on_terminal(loud, [loud.nvcc, *argv], COLOURED)
    assert found.stderr == plain.stderr.replace(b"\r\n", b"\n")
    assert (found.stderr.count(ESCAPE) > 8, outcome) == (True, "bypass")
