"""Where headers are looked for: what appears, goes, or leads elsewhere on the search path counts."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.cases import (
    EITHER,
    KERNEL,
    OLD_ENOUGH,
    Call,
    Case,
    Change,
    Link,
    behind,
    both,
    call,
    check,
    check_again,
    compile_twice,
    each,
    link,
    made_by_cache,
    made_by_plain,
    make_directory,
    move,
    remove,
    remove_directory,
    set_up,
    uses,
    value,
    write,
)
from scenarios.support.toolkits import HOST_COMPILER
from workspaces import Workspace

pytestmark = pytest.mark.light
SEARCHED = Call("-Iearly -Ilate")
LATE = {"late/h.h": value(1)}
BOTH = {"early/h.h": value(2), **LATE}
APPEARED = "because `early/h.h` has appeared"
GONE = "because `early/h.h` is gone"
MAYBE = "#if {}\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"


def asks(condition: str, before: str = "") -> str:
    """A source whose value is 2 where the condition holds."""
    return before + MAYBE.format(condition) + KERNEL


def appears(
    name: str, files: dict[str, str | Link | None], call: Call = SEARCHED, text: str = "", cause: str = ""
) -> Case:
    """A file appears, and disappears again."""
    parents = [str(parent) for parent in Path(name).parents if str(parent) != "."]
    made = [parent for parent in parents if not any(f"{path}/".startswith(f"{parent}/") for path in files)]
    undo = each(remove(name), *map(remove_directory, made))
    cause = cause or f"because `{name}` has appeared"
    return Case(write(name, text or value(2)), cause, files, call, undo=undo)


# A name that appears earlier on the search path than the file that was read.
EARLIER = {
    "in a directory that was empty": appears("early/h.h", {**LATE, "early": None}),
    "beside the header that includes it": appears(
        "inc/inner.h",
        {"a.cu": uses("<h.h>"), "inc/h.h": '#include "inner.h"\n', "late/inner.h": value(1)},
        Call("-Iinc -Ilate"),
    ),
    "in a directory for quoted names": appears("quoted/h.h", LATE, Call("-Ilate -Xcompiler -iquote,quoted")),
    "behind include_next": appears(
        "middle/h.h",
        {"early/h.h": "#include_next <h.h>\n", **LATE},
        Call("-Iearly -Imiddle -Ilate"),
    ),
    "for an option that includes it": appears(
        "h.h", {**LATE, "a.cu": KERNEL}, Call("-include h.h -Iearly -Ilate")
    ),
    "in place of a system's header": appears(
        "early/climits",
        {"a.cu": "#include <climits>\n#ifndef VALUE\n#define VALUE 1\n#endif\n" + KERNEL, "early": None},
        text="#include_next <climits>\n#define VALUE 2\n",
    ),
}
DIRECTORIES = {
    "a directory behind one that was not there": Case(
        make_directory("gate"),
        "`gate` has appeared",
        BOTH,
        Call("-Igate/../early -Ilate"),
        undo=lambda workspace: (workspace.directory / "gate").rmdir(),
    ),
    "what a dangling link leads to": Case(
        write("h", value(2)), APPEARED, {**LATE, "early/h.h": Link("../h")}, SEARCHED, undo=remove("h")
    ),
    "a directory that is moved there": Case(
        move("new", "early"),
        (APPEARED, "`early` has appeared"),
        {**LATE, "new/h.h": value(2)},
        SEARCHED,
        undo=move("early", "new"),
    ),
    "a header that is removed": Case(
        remove("early/h.h"), GONE, BOTH, SEARCHED, undo=write("early/h.h", value(2))
    ),
    "a directory in the place of a header": Case(
        each(remove("early/h.h"), make_directory("early/h.h")),
        (GONE, "`early/h.h` changed"),
        BOTH,
        SEARCHED,
    ),
    "the only header, removed": Case(
        remove("late/h.h"), (), LATE, SEARCHED, undo=write("late/h.h", value(1))
    ),
}
# gcc gives the headers of system directories the shorter name that remains when links are resolved.
LINKED = "a_long_name_for_a_link_to_a_version"
VERSIONS = {"1/h.h": value(1), "2/h.h": value(2)}
SYSTEM = {
    "a folder that a system header names": Case(
        link(f"inc/{LINKED}", "../2"),
        (),
        {
            "a.cu": uses("<outer.h>"),
            "inc/outer.h": f"#include <{LINKED}/h.h>\n",
            **VERSIONS,
            f"inc/{LINKED}": Link("../1"),
        },
        Call("-isystem {work}/inc"),
    ),
    "a header": Case(
        link(f"inc/{LINKED}.h", "../2/h.h"),
        f"`{{work}}/inc/{LINKED}.h` leads to another file",
        {"a.cu": uses(f"<{LINKED}.h>"), **VERSIONS, f"inc/{LINKED}.h": Link("../1/h.h")},
        Call("-isystem {work}/inc"),
    ),
}
# Names that are only looked up.
ASKED = {
    "a bracketed name": appears(
        "inc/maybe.h", {"a.cu": asks("__has_include(<maybe.h>)"), "inc": None}, Call("-Iinc")
    ),
    "a name of a header's own folder": appears(
        "inc/maybe.h", {"inc/h.h": MAYBE.format('__has_include("maybe.h")')}, Call("-Iinc")
    ),
    "a name that is there": Case(
        remove("maybe.h"),
        "because `maybe.h` is gone",
        {"a.cu": asks('__has_include("maybe.h")'), "maybe.h": ""},
        undo=write("maybe.h", ""),
    ),
    "a name behind a directory": appears(
        "late/h.h", {"a.cu": uses("<h.h>"), "early/h.h": MAYBE.format("__has_include_next(<h.h>)")}
    ),
    "a name by a macro of the command line": appears(
        "maybe.h",
        {"a.cu": uses('"t.h"'), "t.h": MAYBE.format("__has_include(NAME)")},
        Call("-DNAME=<maybe.h> -I."),
    ),
}


@pytest.mark.by_default("beside the header that includes it", "for an option that includes it")
@pytest.mark.parametrize("rule", EARLIER)
def test_a_header_that_appears_earlier_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, EARLIER[rule])


@pytest.mark.by_default("a directory that is moved there", "a directory in the place of a header")
@pytest.mark.parametrize("rule", DIRECTORIES)
def test_a_place_that_changes_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, DIRECTORIES[rule])


@pytest.mark.by_default("a folder that a system header names")
@pytest.mark.parametrize("rule", SYSTEM)
def test_a_link_on_the_systems_search_path_that_leads_elsewhere_is_seen(
    workspace: Workspace, rule: str
) -> None:
    check(workspace, SYSTEM[rule])


@pytest.mark.by_default("a bracketed name", "a name by a macro of the command line")
@pytest.mark.parametrize("rule", ASKED)
def test_a_file_that_was_asked_for_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, ASKED[rule])


def test_a_header_that_appears_later_on_the_path_does_not_matter(workspace: Workspace) -> None:
    files = {"early/h.h": value(2)}
    case = Case(write("late/h.h", value(1)), (), files, SEARCHED, outcome=EITHER, changes_product=False)
    check(workspace, case)


def test_a_failing_compile_is_not_answered_from_a_record(workspace: Workspace) -> None:
    set_up(workspace, Case())
    for number in (None, 1, None, 2):
        if number:
            workspace.write("late/h.h", value(number))
        else:
            shutil.rmtree(workspace.directory / "late", ignore_errors=True)
        expected = made_by_plain(workspace, SEARCHED)
        assert (expected.status == 0) == bool(number)
        for is_recorded in (False, bool(number)):
            check_again(workspace, SEARCHED, expected, is_recorded)
            time.sleep(OLD_ENOUGH)


# nvcc splits at a comma unless a backslash precedes it.
OPTIONS = {
    "-Wp,-I": "-Xcompiler -Wp\\,-Iearly,-Wp\\,-Ilate",
    "-idirafter": "-Xcompiler -idirafter,early,-idirafter,late",
    "-I= below --sysroot": "-Xcompiler --sysroot={work}/root,-I=/early,-I=/late",
}
EARLY = {
    "-I= below --sysroot": "root/early",
}
ROOT = {f"root/{name}": Link(f"/{name}") for name in ("usr", "lib", "lib64") if os.path.exists(f"/{name}")}
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
    files = {"a.cu": behind("#include <h.h>"), early: None, f"{late}/h.h": value(1), **ROOT}
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
