"""Where headers are looked for: options that no table lists, links on the way, precompiled forms."""

from __future__ import annotations

import os
import shlex
import time

import pytest

from installations import launcher_of_tree
from scenarios.support.cases import (
    KERNEL,
    OLD_ENOUGH,
    Case,
    Change,
    Link,
    behind,
    both,
    call,
    check,
    compile_twice,
    each,
    link,
    made_by_cache,
    move,
    set_up,
    value,
    write,
)
from scenarios.support.toolkits import HOST_COMPILER
from workspaces import Workspace

pytestmark = pytest.mark.light

# nvcc splits at a comma unless a backslash precedes it.
OPTIONS = {
    "-Wp,-I": "-Xcompiler -Wp\\,-Iearly,-Wp\\,-Ilate",
    "-iprefix": "-Xcompiler -iprefix,{work}/,-iwithprefixbefore,early,-iwithprefixbefore,late",
    "-idirafter": "-Xcompiler -idirafter,early,-idirafter,late",
    "-I= below --sysroot": "-Xcompiler --sysroot={work}/root,-I=/early,-I=/late",
}
EARLY = {
    "-I= below --sysroot": "root/early",
}
SYSTEM = {f"root/{name}": Link(f"/{name}") for name in ("usr", "lib", "lib64") if os.path.exists(f"/{name}")}
SAME = both("early/h.h", "late/h.h")
LINKS = {
    "an empty directory that becomes a link": Case(
        change=each(lambda workspace: (workspace.directory / "early").rmdir(), link("early", "other")),
        files={"a.cu": behind("#include <h.h>"), "early": None, "late/h.h": value(1), "other/h.h": value(2)},
        call=call("-Iearly -Ilate"),
    ),
    "a copy of a directory that becomes a link to it": Case(
        change=each(move("b", "away"), link("b", "a")),
        files={"a.cu": behind("#include <h.h>"), **both("a/i/h.h", "b/i/h.h"), "late/h.h": value(2)},
        call=call("-Ia/i -Ilate -isystem b/i"),
    ),
    "a directory that becomes a link to the next": Case(
        change=each(move("early", "away"), link("early", "late")),
        files={
            "a.cu": behind("#include <h.h>"),
            "early/h.h": "#include_next <h.h>\n",
            "late/h.h": "#include_next <h.h>\n",
            "last/h.h": value(1),
        },
        call=call("-Iearly -Ilate -Ilast"),
    ),
    "a way up from a link to what was read": Case(
        change=link("way", "two/below"),
        files={
            "a.cu": behind("#include <h.h>"),
            "one/below": None,
            "two/below": None,
            "one/inc/h.h": value(1),
            "two/inc/h.h": value(2),
            "way": Link("one/below"),
        },
        call=call("-Iway/../inc"),
    ),
}
# Two mounts of one directory differ only when compared with each other.
BOUND = 'mount --bind early other && exec "$@"'
MORE = "#ifndef __CUDACC__\nextern const int more;\nconst int more = {};\n#endif\n"
PRECOMPILED = call("-Xcompiler -include,forced.h")


@pytest.mark.by_default("-Wp,-I")
@pytest.mark.parametrize("option", OPTIONS)
def test_a_header_that_appears_in_a_directory_of_an_option(workspace: Workspace, option: str) -> None:
    early = EARLY.get(option, "early")
    late = early.replace("early", "late") if "root" in early else "late"
    files = {"a.cu": behind("#include <h.h>"), early: None, f"{late}/h.h": value(1), **SYSTEM}
    check(workspace, Case(change=write(f"{early}/h.h", value(2)), files=files, call=call(OPTIONS[option])))


@pytest.mark.by_default("a way up from a link to what was read")
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_on_the_way(workspace: Workspace, kind: str) -> None:
    check(workspace, LINKS[kind])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a directory")
def test_a_directory_that_becomes_another_by_a_mount(workspace: Workspace) -> None:
    """gcc then drops it from its position on the search path."""
    files = {"a.cu": behind("#include <h.h>"), **both("early/h.h", "other/h.h"), "late/h.h": value(2)}
    which = call("-Iearly -Ilate -isystem other")
    set_up(workspace, Case(files=files))
    before = compile_twice(workspace, which, True)
    mounted = ["unshare", "--mount", "sh", "-c", BOUND, "sh"]
    if workspace.run([*mounted, "true"]).status:
        pytest.skip("no directory can be mounted here")

    def made_by(program: list[str], *more: str) -> bytes:
        time.sleep(OLD_ENOUGH)
        done = workspace.run([*mounted, *program, *which.argv(workspace), *more])
        assert done.status == 0, done.stderr
        return (workspace.directory / "a.o").read_bytes()

    expected = made_by([workspace.nvcc], "-keep", "-keep-dir", "..")
    assert expected != before["a.o"]
    cached = [str(launcher_of_tree()), workspace.nvcc]
    assert [made_by(cached) for _ in range(2)] == [expected] * 2
    again = made_by_cache(workspace, which)
    assert (again, again.outcome) == (before, "direct_hit")


def precompile(number: int, product: str = "forced.h.gch") -> Change:
    """Make a precompiled header with another value, for the last run of the host compiler."""

    def apply(workspace: Workspace) -> None:
        asked = workspace.plain(*call().argv(workspace), "--dryrun").stderr.decode()
        line = next(line for line in reversed(asked.splitlines()) if " -c -x c++ " in line)
        argv = shlex.split(line.removeprefix("#$ "))
        argv = [word for word in argv[: argv.index("-o") - 1] if word != "-c"]
        argv[argv.index("c++")] = "c++-header"
        header = workspace.directory / "forced.h"
        before = header.read_text()
        header.write_text(MORE.format(number))
        (workspace.directory / product).parent.mkdir(exist_ok=True)
        done = workspace.run([*argv, "forced.h", "-o", product])
        assert done.status == 0, done.stderr
        header.write_text(before)

    return apply


GCH = {
    "that appears": Case(change=precompile(2)),
    "that is made again": Case(change=precompile(3), prepare=precompile(2)),
    "of several": Case(change=precompile(3, "forced.h.gch/b"), prepare=precompile(2, "forced.h.gch/b")),
}


@pytest.mark.by_default("that appears")
@pytest.mark.parametrize("form", GCH)
def test_a_precompiled_form(workspace: Workspace, form: str) -> None:
    if "clang" in os.path.realpath(HOST_COMPILER):
        pytest.skip("the host compiler is not gcc")
    case = GCH[form]
    files = {"a.cu": KERNEL.replace("VALUE", "1"), "forced.h": MORE.format(1), **case.files}
    check(workspace, Case(change=case.change, files=files, call=PRECOMPILED, prepare=case.prepare))
