"""Names below /proc and /dev that are files like any other: those that /proc only renames, and /dev/shm.

Files that the kernel generates on reading are in test_observed_clocks.py and test_observed_callers.py.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.support.cases import (
    DEFAULT,
    KERNEL,
    Case,
    Link,
    call,
    check,
    link,
    uses,
    value,
    write,
)
from scenarios.support.observed_wrappers import script, wrapped

pytestmark = pytest.mark.light

INCLUDING = uses("<h.h>")
HERE, TOP = "/proc/self/cwd", "/proc/self/root"
HEADERS = {"a.cu": INCLUDING, "inc/h.h": value(1)}
EMBEDDING = KERNEL.replace("VALUE", "1") + 'asm(".data\\n.incbin \\"/proc/self/cwd/data\\"\\n.text");\n'


CASES = {
    "a header": Case(change=write("inc/h.h", value(2)), files=HEADERS, call=call(f"-I {HERE}/inc")),
    "a link that turns": Case(
        change=link("inc", "two"),
        files={"a.cu": INCLUDING, "one/h.h": value(1), "two/h.h": value(2), "inc": Link("one")},
        call=call(f"-I {HERE}/inc"),
    ),
    "a file that is embedded": Case(
        change=write("data", "2"), files={"a.cu": EMBEDDING, "data": "1"}, call=call()
    ),
    "a compiler": Case(
        change=script('exec "{g++}" -DVALUE=2 "$@"'),
        files={"a.cu": DEFAULT},
        call=call(f"-ccbin {HERE}/wrapper"),
        prepare=script('exec "{g++}" -DVALUE=1 "$@"'),
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


@pytest.mark.parametrize("which", CASES)
@pytest.mark.by_default("a header", "a file of a script that works elsewhere")
def test_a_name_that_proc_only_renames(workspace, which):
    check(workspace, CASES[which])


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
    "a source": lambda place: Case(
        change=write(f"{place}/a.cu", KERNEL.replace("VALUE", "2")),
        files={f"{place}/a.cu": KERNEL.replace("VALUE", "1")},
        call=call(line=f"-c {place}/a.cu -o a.o", makes=("a.o",)),
    ),
}


@pytest.mark.parametrize("which", IN_MEMORY)
@pytest.mark.by_default("a header that appears")
def test_files_in_memory_are_files(workspace, memory, which):
    check(workspace, IN_MEMORY[which](memory))
