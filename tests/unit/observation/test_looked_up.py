"""What a stage looked up: where it is recorded, and when nothing can be known."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from nvccache.files import signatures
from nvccache.observation.looked_up import CallNames, StageNames
from nvccache.observation.observed_process import Process
from nvccache.records import input_records
from nvccache.records.input_records import InputRecord, UnreadableError

LATER = 60 * 10**9  # nanoseconds
FILE, FOLDER = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """`inc/a.h`, `bin/tool` (a program), `late/tool` (another), `link` to `inc`, `bin/loop`."""
    monkeypatch.chdir(tmp_path)
    for name in ("inc/a.h", "bin/tool", "late/tool"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    for name in ("bin/tool", "late/tool"):
        (tmp_path / name).chmod(0o755)
    (tmp_path / "link").symlink_to("inc")
    (tmp_path / "bin" / "loop").symlink_to("loop")
    return tmp_path


def begin(*files: str) -> StageNames:
    """A stage of a call that began long after all of these files were created."""
    return CallNames(time.time_ns() + LATER).begin(files)


def taken(process: Process, *files: str, search_path: str = "", relevant=list) -> InputRecord:
    looked = begin(*files)
    looked.take(process, relevant)
    return finished(looked, *files, search_path=search_path)


def finished(looked: StageNames, *files: str, search_path: str = "") -> InputRecord:
    made = InputRecord()
    made.files, made.kinds = sorted(files), input_records.SOURCE * len(files)
    looked.put_into(made, search_path)
    return made


def names(made: InputRecord) -> dict[str, list[str]]:
    return dict(zip(made.directories, made.names, strict=True))


def process(**seen) -> Process:
    return Process("/usr/bin/x", **seen)


@pytest.mark.parametrize(
    ("path", "directory", "name"),
    [
        ("inc/never.h", "inc", "-never.h"),
        ("never.h", ".", "-never.h"),
        # Of a missing directory, its topmost missing part.
        ("inc/never/b.h", "inc", "-never"),
        ("inc/never/deep/er/b.h", "inc", "-never"),
        ("never/deep/b.h", ".", "-never"),
        ("inc/a.h/deep/b.h", "inc", "+a.h"),
        ("link/never.h", "link", "-never.h"),
        ("/nvccache-never/b.h", "/", "-nvccache-never"),
        ("inc/never/", "inc", "-never"),
        ("inc//never.h", "inc", "-never.h"),
    ],
)
def test_an_absent_path_is_recorded_as_a_missing_name_in_a_directory(place, path, directory, name):
    assert names(taken(process(absent={path}))) == {directory: [name]}


NUMBERED = {f"inc/never/{number}/x.h" for number in range(100)}
TRIED = {"absent": {"inc/tool", "inc/x", "never/other"}, "found": {"bin/tool": FILE}}
DANGLING = {"absent": {"inc/dangling.h"}, "links": {"inc/dangling.h"}}
# What was seen, with the files that were read and PATH; and fields of the input record.
RECORDED = [
    ({"absent": NUMBERED | {"inc/never.h"}}, {"names": {"inc": ["-never", "-never.h"]}}),
    *[({"found": {"inc/a.h": mode}}, {"names": {"inc": ["+a.h"]}}) for mode in (FILE, 0)],
    *[({"found": {"bin/tool": mode}}, {"names": {"bin": ["xtool"]}}) for mode in (FILE, 0)],
    *[
        ({"found": found}, {"names": {".": ["dinc"]}})
        for found in ({"inc": FOLDER}, {"inc/": FOLDER}, {"inc": 0})
    ],
    ({"others": {"inc/pipe": stat.S_IFIFO, "inc": FOLDER}}, {"names": {".": ["dinc"], "inc": ["+pipe"]}}),
    ({"denied": {"bin/loop": 40, "inc/a.h": 13}}, {"names": {"bin": ["!loop"], "inc": ["+a.h"]}}),
    # A file that was read is recorded among files only; links of sources even if they were not looked up.
    (
        {"found": {"inc/a.h": FILE}, "links": {"inc/a.h"}, "read": ["inc/a.h"]},
        {"names": {}, "plain": ["inc"]},
    ),
    ({"read": ["copy.h", "inc/a.h"]}, {"links": [("copy.h", "inc/a.h")]}),
    ({"found": {"link/a.h": FILE, "inc/a.h": FILE}, "read": ["inc/a.h"]}, {"names": {"link": ["+a.h"]}}),
    ({"found": {"/": FOLDER, "//": FOLDER}}, {"names": {}}),
    ({"absent": {"./x.h", "./y.h"}}, {"names": {".": ["-x.h", "-y.h"]}}),
    ({"absent": {"no/x.h", "no/y.h", "inc/x.h"}}, {"names": {".": ["-no"], "inc": ["-x.h"]}}),
    # Links and plain directories on the way.
    ({"links": {"link/deep/b.h"}}, {"links": [("link", "inc"), ("link/deep/b.h", "inc/a.h")]}),
    ({"links": {"link/deep/b.h"}}, {"plain": ["link/deep"]}),
    ({"found": {"x/y": FOLDER}}, {"plain": ["x", "x/y"]}),
    ({"links": {"bin/../inc/./a.h"}}, {"plain": ["bin", "bin/../inc", "bin/../inc/./a.h"]}),
    ({"found": {"inc": FOLDER, "link": FOLDER}}, {"plain": ["inc"], "links": [("link", "inc")]}),
    # A dangling link is an absent name, whose end may appear elsewhere.
    (DANGLING, {"names": {"inc": ["-dangling.h"]}, "directory_signatures": [signatures.UNKNOWN]}),
    ({"started": ["inc/dangling.h"]}, {"links": [("inc/dangling.h", "inc/nowhere")], "plain": ["inc"]}),
    ({"started": ["inc/never"]}, {"names": {"inc": ["-never"]}, "plain": ["inc/never"], "links": []}),
    ({"started": ["bin/alias"]}, {"names": {"bin": ["xalias"]}, "links": [("bin/alias", "bin/tool")]}),
    # What was tried in directories of PATH, by execvp or a shell, was searched for there.
    (TRIED | {"path": "inc:bin"}, {"sought": ["tool", "x"], "search_path": "inc:bin"}),
    (TRIED | {"path": "/usr/bin"}, {"sought": [], "search_path": ""}),
    (
        {"found": {"bin/tool": FILE}, "read": ["bin/tool"], "path": "bin"},
        {"sought": ["tool"], "directories": []},
    ),
]


@pytest.mark.parametrize(("seen", "expected"), RECORDED)
def test_each_kind_of_lookup_is_recorded_in_its_own_field_of_an_input_record(place, seen, expected):
    os.mkfifo("inc/pipe")
    Path("inc/deep").mkdir()
    Path("x/y").mkdir(parents=True)
    links = {"inc/deep/b.h": "../a.h", "inc/dangling.h": "nowhere", "copy.h": "inc/a.h", "bin/alias": "tool"}
    for path, target in links.items():
        os.symlink(target, path)
    fields = {name: seen[name] for name in seen.keys() - {"read", "path"}}
    made = taken(process(**fields), *seen.get("read", ()), search_path=seen.get("path", ""))
    made.links = [(path, os.path.relpath(target)) for path, target in made.links]
    for name, value in expected.items():
        assert (names(made) if name == "names" else getattr(made, name)) == value


def test_lookups_in_the_scratch_directory_are_not_recorded(place):
    seen = process(
        absent={"/scratch/x"}, found={"/scratch/y": FILE}, links={"/scratch/z"}, denied={"/scratch/w": 13}
    )
    made = taken(seen, relevant=lambda paths: [path for path in paths if not path.startswith("/scratch")])
    assert (made.directories, made.links, made.plain) == ([], [], [])


@pytest.mark.parametrize(
    "seen",
    [
        {"absent": {"inc/a.h"}},
        {"absent": {"inc"}},
        {"found": {"inc/gone.h": FILE}},
        {"found": {"inc/gone.h": 0}},
        {"found": {"gone": FOLDER}},
        {"found": {"inc/a.h": FOLDER}},
        {"found": {"inc": FILE}},
        {"others": {"inc/gone": stat.S_IFIFO}},
        {"denied": {"inc/gone.h": errno.EACCES}},
    ],
    ids=str,
)
def test_a_looked_up_name_that_changed_during_the_compile_leaves_no_record(place, seen):
    with pytest.raises(UnreadableError, match="during the compile"):
        taken(process(**seen))


def test_a_link_created_during_the_compile_prevents_a_record(place):
    looked = CallNames(os.lstat("link").st_ctime_ns - 1).begin(())
    looked.follow("link")
    with pytest.raises(UnreadableError, match="during the compile"):
        finished(looked)


def test_a_path_search_is_recorded_up_to_where_the_program_is_found(place):
    looked = begin()
    looked.add_search("tool", "never:inc:bin:late")
    made = finished(looked, search_path="never:inc:bin:late")
    assert names(made) == {".": ["-never"], "bin": ["xtool"], "inc": ["-tool"]}
    assert (made.sought, made.search_path) == (["tool"], "never:inc:bin:late")


def test_an_empty_path_variable_searches_the_working_directory(place, monkeypatch):
    monkeypatch.chdir(place / "bin")
    looked = begin()
    looked.add_search("tool", "")
    made = finished(looked)
    assert names(made) == {".": ["xtool"]}
    assert (made.sought, made.search_path) == (["tool"], "")


def test_the_signature_of_an_unchanged_directory_covers_absent_names(place):
    os.utime("inc", (1, 1))
    made = taken(process(absent={"inc/x.h", "inc/y.h"}))
    assert made.directory_signatures == [signatures.signature_of("inc")]
    made = taken(process(absent={"inc/x.h"}, found={"inc/a.h": FILE}))
    assert made.directory_signatures == [signatures.UNKNOWN], "its mode may change"


def test_a_name_that_several_stages_looked_up_is_checked_once_in_a_call(place):
    call = CallNames(time.time_ns() + LATER)
    first = call.begin(())
    first.take(process(absent={"inc/x.h"}), list)
    (place / "inc" / "x.h").write_text("")
    second = call.begin(())
    second.take(process(absent={"inc/x.h"}), list)
    assert names(finished(second)) == {"inc": ["-x.h"]}


@pytest.mark.parametrize("changed", ["inc/first.h", "middle", "late/last.h", ""])
def test_a_link_changed_since_the_call_began_prevents_a_record(place, changed):
    """No process has read the file that is there now, though its own dates are old."""
    ways = {"inc/first.h": "../middle/last.h", "middle": "late", "late/last.h": "../inc/a.h"}
    for path, leads_to in ways.items():
        os.symlink(leads_to, path)
    time.sleep(0.05)
    looked = CallNames(time.time_ns()).begin([])
    time.sleep(0.01)
    if changed:
        os.unlink(changed)
        os.symlink(ways[changed], changed)
    looked.take(process(links={"inc/first.h"}), list)
    if not changed:
        assert finished(looked).links == [("inc/first.h", f"{place}/inc/a.h")]
        return
    with pytest.raises(UnreadableError, match="appeared or disappeared"):
        finished(looked)
