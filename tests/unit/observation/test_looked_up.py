"""What a stage looked up: where it is recorded, and when nothing can be known."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from answering import Answering
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


def taken(process: Process, *files: str, search_path: str = "", counts=lambda _: True) -> InputRecord:
    looked = begin(*files)
    looked.take(process, counts)
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
        ("inc/never/b.h", "inc", "-never"),
        ("inc/never/deep/er/b.h", "inc", "-never"),
        ("never/deep/b.h", ".", "-never"),
        ("inc/a.h/b.h", "inc", "+a.h"),
        ("inc/a.h/deep/b.h", "inc", "+a.h"),
        ("link/never.h", "link", "-never.h"),
        ("/nvccache-never/b.h", "/", "-nvccache-never"),
        ("inc/never/", "inc", "-never"),
        ("inc//never.h", "inc", "-never.h"),
    ],
)
def test_a_missing_path_is_its_topmost_missing_part(place, path, directory, name):
    assert names(taken(process(absent={path}))) == {directory: [name]}


def test_paths_with_the_same_missing_part_are_one_name(place):
    absent = {f"inc/never/{number}/x.h" for number in range(100)} | {"inc/never.h"}
    assert names(taken(process(absent=absent))) == {"inc": ["-never", "-never.h"]}


@pytest.mark.parametrize(
    ("path", "mode", "name"),
    [
        ("inc/a.h", FILE, "+a.h"),
        ("inc/a.h", 0, "+a.h"),
        ("bin/tool", FILE, "xtool"),
        ("bin/tool", 0, "xtool"),
        ("inc", FOLDER, "dinc"),
        ("inc/", FOLDER, "dinc"),
        ("inc", 0, "dinc"),
    ],
)
def test_what_was_found_is_noted_with_what_it_is(place, path, mode, name):
    ((_, noted),) = names(taken(process(found={path: mode}))).items()
    assert noted == [name]


def test_what_was_opened_and_is_no_file_is_noted(place):
    os.mkfifo("inc/pipe")
    made = taken(process(others={"inc/pipe": stat.S_IFIFO | 0o644, "inc": FOLDER}))
    assert names(made) == {".": ["dinc"], "inc": ["+pipe"]}


def test_what_could_not_be_reached_is_noted_as_it_is(place):
    made = taken(process(denied={"bin/loop": errno.ELOOP, "inc/a.h": errno.EACCES}))
    assert names(made) == {"bin": ["!loop"], "inc": ["+a.h"]}


def test_a_file_that_was_read_is_noted_among_files_alone(place):
    made = taken(process(found={"inc/a.h": FILE}, links={"inc/a.h"}), "inc/a.h")
    assert (made.directories, made.links) == ([], [])
    assert made.plain == ["inc"]


def test_what_does_not_count_is_not_noted(place):
    seen = process(
        absent={"/scratch/x"}, found={"/scratch/y": FILE}, links={"/scratch/z"}, denied={"/scratch/w": 13}
    )
    made = taken(seen, counts=lambda path: not path.startswith("/scratch"))
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
def test_what_is_otherwise_by_now_has_changed_meanwhile(place, seen):
    with pytest.raises(UnreadableError, match="while it was compiled"):
        taken(process(**seen))


def test_a_link_that_was_made_meanwhile_is_none_that_was_seen(place):
    looked = CallNames(os.lstat("link").st_ctime_ns - 1).begin(())
    looked.follow("link")
    with pytest.raises(UnreadableError, match="while it was compiled"):
        finished(looked)


def test_where_a_link_led_and_each_plain_directory_on_the_way_are_noted(place):
    (place / "inc" / "deep").mkdir()
    (place / "inc" / "deep" / "b.h").symlink_to("../a.h")
    made = taken(process(links={"link/deep/b.h"}))
    assert made.links == [("link", f"{place}/inc"), ("link/deep/b.h", f"{place}/inc/a.h")]
    assert made.plain == ["link/deep"]
    made = taken(process(resolved={f"{place}/inc/deep"}))
    assert {f"{place}/inc", f"{place}/inc/deep", str(place)} <= set(made.plain)
    assert made.links == []


def test_directories_are_noted_with_which_of_them_are_the_same(place):
    seen = process(found={"inc": FOLDER, "link": FOLDER, "bin": 0}, others={"late": FOLDER})
    assert taken(seen).identities == [("inc", "inc"), ("late", "late"), ("link", "inc")]


def test_a_directory_of_one_letter_is_on_the_way_like_others(place):
    (place / "x" / "y").mkdir(parents=True)
    assert taken(process(found={"x/y": FOLDER})).plain == ["x", "x/y"]


def test_a_way_that_leads_up_has_no_links_of_its_own(place):
    made = taken(process(links={"bin/../inc/./a.h"}))
    assert made.plain == ["bin", "bin/../inc", "bin/../inc/./a.h"]


def test_a_link_that_leads_nowhere_is_an_absent_name(place):
    (place / "inc" / "dangling.h").symlink_to("nowhere")
    made = taken(process(absent={"inc/dangling.h"}, links={"inc/dangling.h"}))
    assert names(made) == {"inc": ["-dangling.h"]}
    assert made.directory_signatures == [signatures.UNKNOWN], "its end may appear elsewhere"


def test_links_of_sources_are_recorded_even_if_not_looked_up(place):
    """gcc names a header by its path, and finds others next to it."""
    (place / "copy.h").symlink_to("inc/a.h")
    assert taken(process(), "copy.h", "inc/a.h").links == [("copy.h", f"{place}/inc/a.h")]


def test_a_program_that_was_started_is_followed(place):
    (place / "bin" / "alias").symlink_to("tool")
    made = taken(process(started=["bin/alias"]), search_path="")
    assert made.links == [("bin/alias", f"{place}/bin/tool")]
    assert names(made) == {"bin": ["xalias"]}


def test_a_search_on_path_ends_where_it_finds(place):
    looked = begin()
    looked.add_search("tool", "never:inc:bin:late")
    made = finished(looked, search_path="never:inc:bin:late")
    assert names(made) == {".": ["-never"], "bin": ["xtool"], "inc": ["-tool"]}
    assert (made.sought, made.search_path) == (["tool"], "never:inc:bin:late")


def test_a_search_in_the_working_directory_is_one_there(place, monkeypatch):
    monkeypatch.chdir(place / "bin")
    looked = begin()
    looked.add_search("tool", "")
    made = finished(looked)
    assert names(made) == {".": ["xtool"]}
    assert (made.sought, made.search_path) == (["tool"], "")


def test_what_was_tried_in_the_directories_of_path_was_looked_for_by_its_name(place):
    """execvp and shells try them one by one."""
    seen = process(absent={"inc/tool", "elsewhere/other"}, found={"bin/tool": FILE}, executable={"inc/x"})
    made = taken(seen, search_path="inc:bin")
    assert (made.sought, made.search_path) == (["tool", "x"], "inc:bin")
    made = taken(seen, search_path="/usr/bin")
    assert (made.sought, made.search_path) == ([], "")


def test_a_program_beside_the_path_is_found_on_it_all_the_same(place):
    made = taken(process(found={"bin/tool": FILE}), "bin/tool", search_path="bin")
    assert (made.sought, made.directories) == (["tool"], [])


def test_a_directory_that_is_still_says_for_all_names_in_it(place):
    os.utime("inc", (1, 1))
    made = taken(process(absent={"inc/x.h", "inc/y.h"}))
    assert made.directory_signatures == [signatures.of("inc")]
    made = taken(process(absent={"inc/x.h"}, found={"inc/a.h": FILE}))
    assert made.directory_signatures == [signatures.UNKNOWN], "its mode may change"


def test_a_directory_whose_dates_are_unreliable_says_for_no_name(place, monkeypatch):
    """As in an image of a file system: another with the same dates may contain other names."""
    os.utime("inc", (1, 1))
    monkeypatch.setattr(signatures, "_kinds_by_device", {os.stat("inc").st_dev: "squashfs"})
    assert taken(process(absent={"inc/x.h", "inc/y.h"})).directory_signatures == [signatures.UNKNOWN]


def test_each_name_is_looked_at_once_in_a_call(place):
    call = CallNames(time.time_ns() + LATER)
    first = call.begin(())
    first.take(process(absent={"inc/x.h"}), lambda _: True)
    (place / "inc" / "x.h").write_text("")
    second = call.begin(())
    second.take(process(absent={"inc/x.h"}), lambda _: True)
    assert names(finished(second)) == {"inc": ["-x.h"]}


def test_names_of_two_stages_come_together(place):
    made = InputRecord()
    CallNames(time.time_ns() + LATER).add_names(made, {"inc": {"-y.h", "-x.h"}, "bin": {"xtool"}}, set())
    assert names(made) == {"bin": ["xtool"], "inc": ["-x.h", "-y.h"]}
    assert made.directory_signatures == [signatures.UNKNOWN, signatures.of("inc")]


def test_what_was_noted_differs_once_it_is_otherwise(place):
    """From what a stage looked up to the comparison by a later call."""
    (place / "inc" / "deep").mkdir()
    seen = process(
        absent={"inc/never/x.h", "inc/b.h"},
        found={"bin/tool": FILE, "inc/deep": FOLDER, "inc/a.h": FILE},
        links={"link/a.h"},
    )
    made = taken(seen, search_path="late:bin")
    environ = {"PATH": "late:bin"}

    def unlike() -> set[tuple[str, str]]:
        found = input_records.differences(made, Answering(environ))
        return {(difference.what, difference.path) for difference in found}

    assert unlike() == set()
    changes = [
        (lambda: os.mkdir("inc/never"), lambda: os.rmdir("inc/never"), {("appeared", "inc/never")}),
        (lambda: Path("inc/b.h").touch(), lambda: os.unlink("inc/b.h"), {("appeared", "inc/b.h")}),
        (lambda: os.chmod("bin/tool", 0o600), lambda: os.chmod("bin/tool", 0o755), {("changed", "bin/tool")}),
        (lambda: os.chmod("inc/a.h", 0o755), lambda: os.chmod("inc/a.h", 0o644), {("changed", "inc/a.h")}),
        (lambda: os.rmdir("inc/deep"), lambda: os.mkdir("inc/deep"), {("gone", "inc/deep")}),
        (relink, lambda: None, {("moved", "link")}),
    ]
    for change, undo, expected in changes:
        change()
        assert expected <= unlike(), expected
        undo()


def relink() -> None:
    shutil.copytree("inc", "other")
    os.unlink("link")
    os.symlink("other", "link")


@pytest.mark.parametrize(
    ("target", "name", "leads_elsewhere"),
    [
        ("/proc/self/cwd", "here/inc/a.h", True),
        ("/proc/thread-self/root", "here/never", True),
        ("inner", "here/inc/a.h", True),
        ("/proc/sys", "here/never", False),
        ("/dev", "here/never", False),
        ("here", "inc/a.h", False),
    ],
)
def test_a_link_that_leads_elsewhere_for_each_process(place, target, name, leads_elsewhere):
    Path("here").symlink_to(target)
    Path("inner").symlink_to("/dev/fd/../cwd")
    looked = begin(*([name] if name.endswith("a.h") else []))
    looked.add_absent([] if name.endswith("a.h") else [name])
    made = InputRecord()
    made.files, made.kinds = ([name], "s") if name.endswith("a.h") else ([], "")
    if leads_elsewhere:
        with pytest.raises(UnreadableError, match=r"`here.*` leads elsewhere for each process"):
            looked.put_into(made, "")
    else:
        looked.put_into(made, "")


def test_a_name_that_the_caller_has_given_is_looked_for_by_us(place):
    looked = begin()
    looked.add_tool("/proc/self/cwd/bin/tool", "")
    made = InputRecord()
    looked.put_into(made, "")
    assert made.plain == ["/proc/self/cwd/bin", "/proc/self/cwd/bin/tool"] and made.links == []


@pytest.mark.parametrize("changed", ["inc/first.h", "middle", "late/last.h", ""])
def test_no_link_on_the_way_may_have_changed_since_the_call_began(place, changed):
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
    looked.take(process(resolved={"inc/first.h"}), lambda _: True)
    if not changed:
        assert finished(looked).links == [("inc/first.h", f"{place}/inc/a.h")]
        return
    with pytest.raises(UnreadableError, match="appeared or disappeared"):
        finished(looked)
