"""Running only the link of a program: conditions for starting the linker, with an nvcc that is a script."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nvccache import config
from nvccache.commandline.invocation import Invocation, parse
from nvccache.compile import link_only
from nvccache.compile.call import Report
from nvccache.files import keys
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.records.request import Request
from nvccache.store.event_line import RAN, StageEvent, text_of_hit
from nvccache.store.store import Store

OBJECT, LINKED_DEVICE_CODE = b"an object", b"linked device code"
# Prints a dry run; $directory is that of the intermediates.
NVCC = """#!/bin/sh
for word; do directory=$last; last=$word; done
directory=$last
exec >&2
@LINES@
"""
# A linker that copies its inputs into the program, and prints its directory on both streams.
LINKER = """#!/bin/sh
ran=$0.ran; : > "$ran"
objects=
while [ $# -gt 0 ]; do
  case $1 in
    -o) program=$2; shift ;;
    -*) ;;
    *) objects="$objects $1" ;;
  esac
  shift
done
echo "linked in $TMPDIR/"
for object in $objects; do echo "$object: linked" >&2; done
cat $objects > "$program"
"""
LINK = "echo '#$ '\"{linker} -Wl,--start-group $directory/a_dlink.o $directory/a.o -Wl,--end-group -o a\""
LINE = ("a.cu", "-o", "a", "-MD", "-MF", "a.d")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The empty working directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    program(tmp_path / "linker", LINKER)
    return tmp_path / "work"


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def known(place: Path, *names: str) -> Answer:
    """What a record holds: the intermediates of these names, in the store."""
    cache = Store(str(place.parent / "cache"))
    made = Answer(Result())
    for name in names:
        content = LINKED_DEVICE_CODE if "dlink" in name else OBJECT
        cache.add_blob(keys.digest_bytes(content), content, compress=True)
        made.intermediates.append((name, keys.digest_bytes(content)))
    made.dependency_file, made.rule = "a.d", b"a : a.cu\n"
    made.result.stdout, made.result.stderr = b"said before\n", b"warned before\n"
    made.result.stages = [text_of_hit(StageEvent(kind, RAN, 2.0)) for kind in ("cicc", "ptxas")] + ["?"]
    return made


def linked(place: Path, given: Answer, lines: str = LINK) -> Report | None:
    nvcc = place.parent / "nvcc"
    program(nvcc, NVCC.replace("@LINES@", lines.replace("{linker}", str(place.parent / "linker"))))
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(place.parent)}
    call = parse(list(LINE), environ)
    assert isinstance(call, Invocation)
    settings = config.load({"NVCCACHE_DIR": str(place.parent / "cache")})
    request = Request(str(nvcc), list(LINE), environ, settings)
    request.invocation = call
    return link_only.carry_out(request, given)


def has_run(place: Path) -> bool:
    return (place.parent / "linker.ran").exists()


def left_behind(place: Path) -> list[str]:
    return [path.name for path in place.parent.iterdir() if path.name.startswith("nvccache-")]


def test_a_program_is_linked_from_what_the_store_has(place):
    report = linked(place, known(place, "a.o", "a_dlink.o"))
    assert report
    assert (place / "a").read_bytes() == LINKED_DEVICE_CODE + OBJECT
    assert (place / "a.d").read_bytes() == b"a : a.cu\n"
    assert report.product == "a"
    assert report.outcome == "stage_hit"
    assert report.is_linked
    assert report.tool_saved == 4.0
    assert not left_behind(place)


def test_what_is_said_names_no_scratch_directory(place):
    report = linked(place, known(place, "a.o", "a_dlink.o"))
    assert report
    assert report.stdout == b"said before\nlinked in " + os.fsencode(place.parent) + b"/\n"
    assert report.stderr == b"warned before\na_dlink.o: linked\na.o: linked\n"


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        (("a.o",), LINK),
        (("a.o", "a_dlink.o", "b.o"), LINK),
        (("b.o", "a_dlink.o"), LINK),
        (("a.o", "a_dlink.o"), "exit 1"),
        (("a.o", "a_dlink.o"), "true"),
        (("a.o", "a_dlink.o"), LINK.replace("-Wl,--start-group ", "")),
        (("a.o", "a_dlink.o"), LINK + "\necho '#$ something else'"),
        (("a.o", "a_dlink.o"), LINK.replace("-o a", "-o \\`a\\`")),
    ],
    ids=["unknown", "unread", "another", "failing", "silent", "no link", "not the last", "shell"],
)
def test_a_transcript_that_does_not_fit_the_record_runs_nothing(place, names, lines):
    assert linked(place, known(place, *names), lines) is None
    assert not has_run(place)
    assert list(place.iterdir()) == []
    assert not left_behind(place)


def test_an_intermediate_that_is_lost_runs_nothing(place):
    given = known(place, "a.o", "a_dlink.o")
    given.intermediates[0] = ("a.o", keys.digest_bytes(b"never stored"))
    assert linked(place, given) is None
    assert not has_run(place)


def test_a_dependency_file_that_cannot_be_written_runs_nothing(place):
    (place / "a.d").mkdir()
    assert linked(place, known(place, "a.o", "a_dlink.o")) is None
    assert not has_run(place)


@pytest.mark.parametrize(
    "linker", ["#!/bin/sh\nexit 1\n", "#!/nowhere\n"], ids=["fails", "cannot be started"]
)
def test_a_link_that_fails_is_for_the_long_way(place, linker):
    program(place.parent / "linker", linker)
    assert linked(place, known(place, "a.o", "a_dlink.o")) is None
    assert not left_behind(place)
