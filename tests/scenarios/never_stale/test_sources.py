"""A file that was read has changed: its content counts, however it changed and however it is spelled."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DEFAULT,
    DIRECT_HIT,
    EITHER,
    KERNEL,
    OLD_ENOUGH,
    TWO_IF,
    TWO_IF_LAST,
    Call,
    Case,
    Change,
    Link,
    behind,
    call,
    check,
    each,
    link,
    made_by_cache,
    made_by_plain,
    make_directory,
    remove,
    rewrite,
    set_up,
    swap,
    touch,
    uses,
    value,
    write,
)
from scenarios.support.observed_wrappers import wrapped
from scenarios.support.toolkits import cuda_release
from workspaces import Workspace

pytestmark = pytest.mark.light
HEADER = {"inc/h.h": value(1)}
SEARCHED = Call("-Iinc")
BOTH = Call("-Iinc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90")
CHANGED = "because `inc/h.h` changed"
NOTED = "#pragma once\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"
ONCE = {"a.cu": '#include "x/h.h"\n#include "y/h.h"\n' + KERNEL, "x/h.h": NOTED, "y/h.h": Link("../x/h.h")}


def seen_if(condition: str) -> str:
    """A source that includes the header in some passes only."""
    return f'#if {condition}\n#include "h.h"\n#else\n#define VALUE 0\n#endif\n' + KERNEL


def second(name: str, files: dict[str, str | Link | None] = HEADER, call: Call = SEARCHED) -> Case:
    """A header gets another value."""
    return Case(write(name, value(2)), f"because `{name}` changed", files, call)


CASES = {
    "a header": Case(write("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED, undo=write("inc/h.h", value(1))),
    "a header that only one device pass sees": second(
        "inc/h.h", {**HEADER, "a.cu": seen_if("__CUDA_ARCH__ >= 900")}, BOTH
    ),
    "a header that an option for the host compiler includes": second(
        "inc/h.h", {**HEADER, "a.cu": KERNEL}, Call("-Xcompiler -include,inc/h.h")
    ),
    "a header behind include_next": second(
        "two/h.h",
        {"one/h.h": "#include_next <h.h>\n", "two/h.h": value(1)},
        Call("-Ione -Itwo"),
    ),
    "a header with a hash and a colon": second(
        "inc/#h:1.h", {"a.cu": uses('"#h:1.h"'), "inc/#h:1.h": value(1)}
    ),
    "a header for PTX": second(
        "inc/h.h", call=Call("-Iinc", line="-ptx a.cu -MD -MF a.d -o a.ptx", makes=("a.ptx", "a.d"))
    ),
    "the same size and date": Case(rewrite("inc/h.h", value(2)), CHANGED, HEADER, SEARCHED),
    "a comment": Case(
        write("inc/h.h", "// one\n" + value(1)), CHANGED, HEADER, SEARCHED, changes_product=False
    ),
    "a link that leads elsewhere": Case(
        link("inc/h.h", "../two.h"),
        CHANGED,
        {"one.h": value(1), "two.h": value(2), "inc/h.h": Link("../one.h")},
        SEARCHED,
    ),
    # Read: compiled twice, the second time by the record, with a.cu (which includes "h.h") and these files;
    # then the change is made, and `explain` must give this cause; SEARCHED is the command line, with -Iinc.
    # By default a case also says that plain nvcc now makes something else, and that no direct hit is allowed.
    "what a link leads to": Case(
        change=write("one.h", value(2)),
        cause=CHANGED,
        files={"one.h": value(1), "inc/h.h": Link("../one.h")},
        call=SEARCHED,
    ),
    "a linked directory that leads elsewhere": Case(
        link("inc", "two"),
        CHANGED,
        {"one/h.h": value(1), "two/h.h": value(2), "inc": Link("one")},
        SEARCHED,
    ),
    "a link to what is included once": Case(
        each(remove("y/h.h"), write("y/h.h", NOTED + "// other\n")), "`y/h.h` changed", ONCE
    ),
}
HARMLESS: dict[str, Change] = {
    "a header is touched": touch("inc/h.h", 0),
    "a header gets a date in the past": touch("inc/h.h", -1e8),
    "a header is replaced by the same": swap("inc/h.h", value(1)),
    "a file that is not read is written": write("inc/other.h", value(2)),
}
DEBUG = {
    "a header under -g": second("inc/h.h", call=Call("-Iinc -g")),
    "a touched header under -g": Case(
        touch("inc/h.h", 0), (), HEADER, Call("-Iinc -g"), outcome=EITHER, changes_product=False
    ),
}


@pytest.mark.by_default(
    "a header that only one device pass sees",
    "a header with a hash and a colon",
    "the same size and date",
    "what a link leads to",
    smoke={"the same size and date": "changed input"},
)
@pytest.mark.parametrize("rule", CASES)
def test_other_content_is_seen(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])


@pytest.mark.by_default("a header is touched", "a header is replaced by the same")
@pytest.mark.parametrize("rule", HARMLESS)
def test_the_same_content_is_a_direct_hit(workspace: Workspace, rule: str) -> None:
    case = Case(HARMLESS[rule], (), HEADER, SEARCHED, outcome=DIRECT_HIT, changes_product=False)
    check(workspace, case)


@pytest.mark.by_default("a touched header under -g")
@pytest.mark.parametrize("rule", DEBUG)
def test_debug_information_names_the_right_files(
    workspace: Workspace, rule: str, reference_directory: Path
) -> None:
    check(workspace, DEBUG[rule], reference_directory)


@pytest.mark.by_default("inc/h.h")
@pytest.mark.parametrize("name", ["a.cu", "inc/h.h"])
def test_a_date_that_the_cubin_holds_is_the_one_of_the_source(workspace: Workspace, name: str) -> None:
    """Up to 13.2 ptxas writes down the date and size of the files that line information names."""
    code = "__device__ inline int twice(int i) { return i * 2; }\n"
    files = {"inc/h.h": code, "a.cu": '#include "h.h"\n__global__ void k(int *x) { *x = twice(*x); }\n'}
    changes = None if cuda_release(workspace) > (13, 2) or name != "a.cu" else True
    change = touch(name, -1e7)
    check(
        workspace, Case(change, (), files, Call("-Iinc -lineinfo"), outcome=EITHER, changes_product=changes)
    )


def test_the_date_decides_what_is_included_once(workspace: Workspace) -> None:
    """The host compiler treats two files as one if size, date and content are the same."""
    counted = "".join(f"#elif VALUE == {at}\n#undef VALUE\n#define VALUE {at + 1}\n" for at in (1, 2))
    counted = f"#pragma once\n#ifndef VALUE\n#define VALUE 1\n{counted}#endif\n"
    names = ("x/h.h", "y/h.h", "z/h.h")
    source = "".join(f'#include "{name}"\n' for name in names) + KERNEL
    case = Case(files={"a.cu": source, **dict.fromkeys(names, counted)})
    set_up(workspace, case)
    for dates in ((1e9, 1e9, 2e9), (1e9, 2e9, 3e9), (1e9, 3e9, 3e9)):
        for name, date in zip(names, dates, strict=True):
            os.utime(workspace.directory / name, (date, date))
        for _ in ("changed", "unchanged"):
            made = made_by_cache(workspace, case.call)
            assert made == made_by_plain(workspace, case.call)


def test_a_checkout_there_and_back_is_a_direct_hit(workspace: Workspace) -> None:
    set_up(workspace, Case(files=HEADER))
    made = {}
    for number in (1, 2, 1, 2):
        workspace.write("inc/h.h", value(number))
        time.sleep(OLD_ENOUGH)
        now = made_by_cache(workspace, SEARCHED)
        assert (now.outcome == "direct_hit") == (number in made)
        assert made.setdefault(number, now) == now
    assert made[1] != made[2]
    assert made[2] == made_by_plain(workspace, SEARCHED)


ANOTHER = "#undef VALUE\n#define VALUE 2\n"
MAYBE = '__has_include("maybe.h")'


def asks(condition: str = MAYBE, before: str = "", options: str = "") -> Case:
    """A name that was looked up and absent, and then exists."""
    text = before + TWO_IF.format(condition) + KERNEL + "/* the end of a comment */\n"
    return Case(change=write("maybe.h", ""), files={"a.cu": text}, call=call(options))


# Each looks up a name by another syntax, or follows something that can be mistaken for a string or comment.
ASKED = {
    "by a word that is pasted": asks(
        'ASK("maybe.h")', "#define J(a, b) a##b\n#define ASK J(__has_, include)\n"
    ),
    "by a macro of the command line": asks('ASK("maybe.h")', options="-DASK=__has_include"),
}
FORCED = {
    "for the last compile": TWO_IF_LAST.format(MAYBE),
    "for the last compile, by a word that is pasted": "#define J(a, b) a##b\n"
    + TWO_IF_LAST.format('J(__has_, include)("maybe.h")'),
}
FORMS = {
    "plain": '#include "h.h"',
    "by a macro": '#define H "h.h"\n#include H',
}
TRIGRAPHS = "-Xcompiler -trigraphs"


@pytest.mark.by_default("by a word that is pasted")
@pytest.mark.parametrize("way", ASKED)
def test_a_name_that_is_asked_for(workspace: Workspace, way: str) -> None:
    check(workspace, ASKED[way])


@pytest.mark.by_default("for the last compile")
@pytest.mark.parametrize("way", FORCED)
def test_a_name_that_a_file_of_the_command_line_asks_for(workspace: Workspace, way: str) -> None:
    files = {"a.cu": DEFAULT, "forced.h": FORCED[way]}
    check(workspace, Case(write("maybe.h", ""), (), files, call("-Xcompiler -include,forced.h")))


@pytest.mark.by_default("by a macro")
@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_appears_earlier(workspace: Workspace, form: str) -> None:
    files = {"a.cu": behind(FORMS[form]), "early": None, "late/h.h": value(1)}
    check(
        workspace,
        Case(change=write("early/h.h", value(2)), files=files, call=call(f"-Iearly -Ilate {TRIGRAPHS}")),
    )


@pytest.mark.by_default("plain")
@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_appears_where_one_was_passed_over(workspace: Workspace, form: str) -> None:
    """It had been read already, so the second inclusion leaves no trace in the preprocessed text."""
    files = {
        "a.cu": behind('#include <h.h>\n#include "sub/outer.h"'),
        "inc/h.h": "#ifndef GUARD\n#define GUARD\n#define VALUE 1\n#endif\n",
        "sub/outer.h": FORMS[form] + "\n",
    }
    check(workspace, Case(change=write("sub/h.h", ANOTHER), files=files, call=call(f"-Iinc {TRIGRAPHS}")))


@pytest.mark.by_default('_Pragma("once")')
@pytest.mark.parametrize("once", ["#pragma once", '_Pragma("once")'])
def test_a_header_that_is_read_once(workspace: Workspace, once: str) -> None:
    """Nor does one with `#pragma once`."""
    files = {
        "a.cu": behind('#include <h.h>\n#include "sub/outer.h"'),
        "inc/h.h": f"{once}\n{value(1)}",
        "sub/outer.h": '#define H "h.h"\n#include H\n',
    }
    check(workspace, Case(change=write("sub/h.h", ANOTHER), files=files, call=call("-Iinc")))


@pytest.mark.full
@pytest.mark.parametrize("once", ["#pragma once", '_Pragma("once")'])
def test_a_copy_that_was_passed_over_and_is_edited(workspace: Workspace, once: str) -> None:
    """The host compiler treats files of the same size, date and content as one."""
    text = once + "\n#ifdef VALUE\n#undef VALUE\n#define VALUE 2\n#else\n#define VALUE 1\n#endif\n"

    def same_date(workspace: Workspace) -> None:
        for name in ("x/h.h", "y/h.h"):
            os.utime(workspace.directory / name, (1e9, 1e9))

    files = {"a.cu": behind('#include "x/h.h"\n#define H "y/h.h"\n#include H'), "x/h.h": text, "y/h.h": text}
    check(workspace, Case(change=write("y/h.h", text), files=files, prepare=same_date))


PLACES = {
    "a header whose name begins with <": Case(
        change=write("<h>.h", value(2)),
        files={"a.cu": behind('#include "<h>.h"'), "<h>.h": value(1)},
    ),
    "a header whose name is that of no file": Case(
        change=write("<built-in>", value(2)),
        files={"a.cu": behind('#include "<built-in>"'), "<built-in>": value(1)},
    ),
    "a directory in the place of what was asked for": Case(
        change=each(remove("maybe.h"), make_directory("maybe.h")),
        files={"a.cu": TWO_IF.format(MAYBE) + KERNEL, "maybe.h": ""},
    ),
    "a directory in the place of a header that was passed over": Case(
        change=each(remove("sub/h.h"), make_directory("sub/h.h")),
        files={
            "a.cu": behind('#include "sub/h.h"\n#include "sub/outer.h"'),
            "sub/h.h": "#pragma once\n" + value(1),
            "sub/outer.h": '#include "h.h"\n',
            "late/sub/h.h": value(3),
        },
        call=call("-Ilate"),
    ),
    "a file in the place of a directory of that name": Case(
        change=each(
            lambda workspace: (workspace.directory / "early/h.h").rmdir(), write("early/h.h", value(2))
        ),
        files={"a.cu": behind("#include <h.h>"), "early/h.h": None, "late/h.h": value(1)},
        call=call("-Iearly -Ilate"),
    ),
    "a header under the name of another": Case(
        change=write("h.h", '#line 1 "other.h"\n' + value(2)),
        files={"a.cu": behind('#include "h.h"'), "h.h": '#line 1 "other.h"\n' + value(1), "other.h": ""},
    ),
}


@pytest.mark.by_default("a directory in the place of a header that was passed over")
@pytest.mark.parametrize("place", PLACES)
def test_what_was_read(workspace: Workspace, place: str) -> None:
    check(workspace, PLACES[place])


INCLUDING = uses("<h.h>")
HERE, TOP = "/proc/self/cwd", "/proc/self/root"
HEADERS = {"a.cu": INCLUDING, "inc/h.h": value(1)}
RENAMED = {
    "a header": Case(change=write("inc/h.h", value(2)), files=HEADERS, call=call(f"-I {HERE}/inc")),
    "a link that turns": Case(
        change=link("inc", "two"),
        files={"a.cu": INCLUDING, "one/h.h": value(1), "two/h.h": value(2), "inc": Link("one")},
        call=call(f"-I {HERE}/inc"),
    ),
    "a file of a script that works elsewhere": wrapped(
        'value=$(cd {work}/inner && cat /proc/self/cwd/number)\nexec "{g++}" -DVALUE=$value "$@"',
        write("inner/number", "2"),
        {"inner/number": "1", "number": "3"},
    ),
    "a name that a script asks for": wrapped(
        f'[ -e {HERE}/more ] && set -- -DVALUE=2 "$@"\nexec "{{g++}}" "$@"', write("more", "")
    ),
}


@pytest.mark.parametrize("which", RENAMED)
@pytest.mark.by_default("a header", "a file of a script that works elsewhere")
def test_a_name_that_proc_only_renames(workspace, which):
    check(workspace, RENAMED[which])


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on /dev/shm."""
    try:
        made = tempfile.mkdtemp(prefix="nvccache-test-", dir="/dev/shm")
    except OSError:
        pytest.skip("nothing can be written to /dev/shm here")
    yield Path(made)
    shutil.rmtree(made)


IN_MEMORY = {
    "a header that appears": lambda place: Case(
        change=write(f"{place}/gen/h.h", value(2)),
        files={**HEADERS, f"{place}/gen": None},
        call=call(f"-I {place}/gen -I inc"),
    ),
    "a header": lambda place: Case(
        change=write(f"{place}/h.h", value(2)),
        files={"a.cu": INCLUDING, f"{place}/h.h": value(1)},
        call=call(f"-I {place}"),
    ),
}


@pytest.mark.parametrize("which", IN_MEMORY)
@pytest.mark.by_default("a header that appears")
def test_files_in_memory_are_files(workspace, memory, which):
    check(workspace, IN_MEMORY[which](memory))
