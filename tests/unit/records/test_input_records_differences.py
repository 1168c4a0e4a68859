"""Differences from an input record: every way in which inputs can have changed."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from answering import Answering
from nvccache.files import presence, signatures
from nvccache.records import input_records
from nvccache.records.input_records import InputRecord
from sample_input_record import ENVIRON, ask, place, taken, unlike

__all__ = ["place"]  # the fixtures


@pytest.mark.parametrize("signed", [True, False])
def test_nothing_differs_while_nothing_is_done(place, signed):
    assert unlike(taken(signed)) == []
    assert unlike(InputRecord()) == []


@pytest.mark.parametrize("signed", [True, False])
def test_a_touched_file_is_the_same(place, signed):
    made = taken(signed)
    made.dates = []
    for path in ("late/x.h", "late", "early", "bin"):
        os.utime(path, (1, 1))
    assert unlike(made) == []


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("write", [("changed", "late/x.h"), ("changed", "link"), ("redated", "late/x.h")]),
        ("appear", [("appeared", "early/x.h")]),
        ("appear as a directory", [("appeared", "early/sub")]),
        ("move the link", [("changed", "link"), ("moved", "link"), ("redated", "link")]),
        ("move the link to the same", [("moved", "link"), ("redated", "link")]),
        ("date", [("redated", "late/x.h")]),
        ("dated file appears", [("redated", "never")]),
        ("program becomes a file", [("changed", "bin/tool")]),
        ("program goes", [("gone", "bin/tool"), ("relisted", "bin")]),
        ("directory becomes a file", [("changed", "bin/folder"), ("relisted", "bin")]),
        ("unreachable becomes a file", [("changed", "bin/loop"), ("relisted", "bin")]),
        ("name in what was listed", [("relisted", "bin")]),
        ("link in the place of a directory", [("moved", "bin")]),
    ],
)
def test_each_difference_is_reported(place, signed, change, found):
    made = taken(signed)
    if change == "write":
        (place / "late" / "x.h").write_text("int other;\n")
    elif change == "appear":
        (place / "early" / "x.h").write_text("")
    elif change == "appear as a directory":
        (place / "early" / "sub").mkdir()
    elif change.startswith("move the link"):
        (place / "other.h").write_text("int x;\n" if change.endswith("same") else "int y;\n")
        (place / "link").unlink()
        (place / "link").symlink_to("other.h")
    elif change == "date":
        os.utime("late/x.h", (1, 1))
    elif change == "dated file appears":
        (place / "never").write_text("")
    elif change == "program becomes a file":
        (place / "bin" / "tool").chmod(0o644)
        made.directory_signatures[0] = signatures.UNKNOWN  # as it is where such a name counts
    elif change == "program goes":
        (place / "bin" / "tool").unlink()
    elif change == "directory becomes a file":
        (place / "bin" / "folder").rmdir()
        (place / "bin" / "folder").write_text("")
    elif change == "unreachable becomes a file":
        (place / "bin" / "loop").unlink()
        (place / "bin" / "loop").write_text("")
    elif change == "name in what was listed":
        (place / "bin" / "new").write_text("")
    else:
        (place / "bin").rename(place / "elsewhere")
        (place / "bin").symlink_to("elsewhere")
    assert unlike(made) == found


def test_a_missing_file_is_reported_by_the_name_that_vanished(place):
    made = taken()
    os.unlink("late/x.h")
    assert unlike(made) == [
        ("gone", "late/x.h"), ("gone", "late/x.h"), ("gone", "link"), ("redated", "late/x.h"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({**ENVIRON, "OTHER": "4", "GROUP": "5", "ASKED_": "6"}, []),
        ({**ENVIRON, "ASKED": "2"}, [("variable", "ASKED")]),
        ({**ENVIRON, "ASKED": ""}, [("variable", "ASKED")]),
        ({**ENVIRON, "UNSET": ""}, [("variable", "UNSET")]),
        ({**ENVIRON, "GROUP_B": "2"}, [("variable", "GROUP_*")]),
        ({"PATH": "/usr/bin:/bin", "ASKED": "1", "GROUP_A": "2"}, [("variable", "EMPTY")]),
        ({**ENVIRON, "EMPTY": "x", "GROUP_A": "1"}, [("variable", "EMPTY"), ("variable", "GROUP_*")]),
    ],
    ids=str,
)
def test_a_variable_that_was_read_is_named(place, environ, found):
    assert unlike(taken(), environ=environ) == found


def test_another_path_counts_if_it_leads_to_another_program(place):
    made = taken()
    (place / "mine").mkdir()
    assert unlike(made, environ={**ENVIRON, "PATH": f"{place}/mine:/usr/bin:/bin"}) == []
    shutil.copy("bin/tool", "mine/sh")
    assert unlike(made, environ={**ENVIRON, "PATH": f"{place}/mine:/usr/bin:/bin"}) == [("variable", "PATH")]
    assert unlike(made, environ={**ENVIRON, "PATH": f"/usr/bin:/bin:{place}/mine"}) == []
    assert unlike(made, environ={**ENVIRON, "PATH": ""}) == [("variable", "PATH")]
    made.sought = []
    assert unlike(made, environ={**ENVIRON, "PATH": ""}) == []


def test_a_program_that_appears_earlier_on_the_same_path_is_an_absent_name(place):
    """The directories of PATH are among those whose names were recorded."""
    made = taken()
    made.search_path, made.names[1] = f"early:{ENVIRON['PATH']}", ["-sh"]
    environ = {**ENVIRON, "PATH": made.search_path}
    assert unlike(made, environ=environ) == []
    shutil.copy("bin/tool", "early/sh")
    assert unlike(made, environ=environ) == [("appeared", "early/sh")]


def test_a_name_in_the_working_directory_has_no_dot(place):
    made = InputRecord()
    made.directories, made.names, made.directory_signatures = ["."], [["-a.h"]], [signatures.UNKNOWN]
    (place / "a.h").write_text("")
    assert unlike(made) == [("appeared", "a.h")]


def test_a_file_that_becomes_a_link_to_the_same_content_is_reported(place):
    """gcc names a system header by its resolved path."""
    made = taken(signed=False)
    made.plain, made.listings, made.dates, made.duplicates = [], [], [], []
    (place / "copy.h").write_text("int x;\n")
    (place / "late" / "x.h").unlink()
    (place / "late" / "x.h").symlink_to("../copy.h")
    assert unlike(made) == [("moved", "late/x.h"), ("moved", "link")]


def test_duplicates_with_new_dates_are_reported(place):
    made = InputRecord()
    (place / "one").write_text("")
    (place / "other").write_text("")
    (place / "third").write_text("")
    for at, path in enumerate(("one", "other", "third")):
        os.utime(path, (at, at))
    made.duplicates = duplicate_headers("one", "other", "third")
    assert unlike(made) == []
    os.utime("third", (5, 5))
    assert unlike(made) == []
    os.utime("third", (1, 1))
    assert unlike(made) == [("redated", "third")]


def test_duplicates_that_become_one_file_are_reported(place):
    """As package stores do to save space; clang then treats them as one."""
    made = InputRecord()
    for name in ("one", "other"):
        (place / name).write_text("")
        os.utime(place / name, (5, 5))
    made.duplicates = duplicate_headers("one", "other")
    (place / "other").unlink()
    assert unlike(made) == [], "which is reported for what was read"
    os.link("one", "other")
    assert unlike(made) == [("redated", "other")]


def duplicate_headers(*paths: str) -> list[tuple[str, ...]]:
    return presence.duplicate_headers((path, "", signatures.of(path)) for path in paths)


def test_directories_that_become_one_and_the_same_are_reported(place):
    """Compilers search it once, no matter under which name."""
    made = InputRecord()
    (place / "third").mkdir()
    made.identities = presence.identities(["bin/folder", "early", "third", "never"])
    assert made.identities == [(path, path) for path in ("bin/folder", "early", "third", "never")]
    (place / "third").rename(place / "before")
    (place / "third").mkdir()
    assert unlike(made) == []
    (place / "third").rmdir()
    (place / "third").symlink_to("early")
    assert unlike(made) == [("identified", "third")]
    made.identities = presence.identities(["early", "third"])
    (place / "third").unlink()
    (place / "third").mkdir()
    assert unlike(made) == [("separated", "third")]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("late/x.h", presence.PRESENT), ("late", presence.FOLDER), ("bin/tool", presence.EXECUTABLE),
        ("bin/loop", presence.UNREACHABLE), ("never", presence.ABSENT), ("late/x.h/below", presence.ABSENT),
        ("link", presence.PRESENT), ("nul\0", presence.UNREACHABLE), ("x" * 5000, presence.UNREACHABLE),
        ("/dev/null", presence.PRESENT),
    ],
)  # fmt: skip
def test_the_states_of_names(place, name, state):
    assert presence.state_of(name) == state


def test_what_cannot_be_listed_has_no_digest(place):
    assert presence.digest_of_listing("bin") != presence.digest_of_listing("early") != ""
    for path in ("never", "late/x.h", "nul\0"):
        assert presence.digest_of_listing(path) == ""


def test_another_processor_is_reported_only_where_it_counts(place):
    made = taken()
    assert unlike(made, lambda topic, _: "another" if topic == "native" else ask(topic, _)) == [
        ("native", "")
    ]
    made.machine = []
    assert unlike(made, lambda *_: pytest.fail("no record depends on the processor")) == []


def test_a_changed_loader_cache_is_named(place):
    assert unlike(taken(), lambda topic, _: "new" if topic == "libraries" else ask(topic, _)) == [
        ("libraries", "/etc/ld.so.cache")
    ]


def test_a_library_that_appears_where_it_would_be_found_first_is_reported(place):
    made = taken()
    (place / "late" / "libm.so.6").write_text("")
    assert unlike(made) == [("appeared", "late/libm.so.6")]


def test_content_of_the_same_size_and_date_is_noticed(place):
    made = taken()
    status = os.stat("late/x.h")
    time.sleep(0.02)
    (place / "late" / "x.h").write_text("int y;\n")
    os.utime("late/x.h", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert os.stat("late/x.h").st_size == status.st_size
    assert unlike(made) == [("changed", "late/x.h"), ("changed", "link")]


@pytest.mark.parametrize("kind", ["directory", "FIFO", "device", "unreadable link", "loop"])
def test_a_file_replaced_by_something_else_is_noticed_without_reading_it(place, kind):
    made = taken(signed=False)
    made.links, made.dates, made.directories, made.names, made.directory_signatures = [], [], [], [], []
    made.duplicates = []
    os.unlink("late/x.h")
    if kind == "directory":
        os.mkdir("late/x.h")
    elif kind == "FIFO":
        os.mkfifo("late/x.h")
    else:
        os.symlink({"device": "/dev/zero", "loop": "x.h"}.get(kind, "nowhere"), "late/x.h")
    what = "changed" if kind in ("directory", "FIFO", "device") else "gone"
    assert unlike(made) == [(what, "late/x.h"), (what, "link")]


def test_files_are_not_looked_at_again_for_another_environment(place):
    seen = Answering(ENVIRON)
    first = seen.signatures(["late/x.h"])
    (place / "late" / "x.h").write_text("int other;\n")
    other = seen.in_environment({"ASKED": "2"})
    assert other.signatures(["late/x.h"]) == first
    assert (other.environ, seen.environ) == ({"ASKED": "2"}, ENVIRON)


def test_one_difference_is_enough_where_that_is_all_one_asks(place):
    made = taken()
    (place / "early" / "x.h").write_text("")
    os.unlink("late/x.h")
    assert len(input_records.differences(made, Answering(ENVIRON, ask), is_one_enough=True)) == 1
    assert len(unlike(made)) > 2


def test_a_signature_that_holds_spares_reading_the_file(place):
    made = taken()
    made.digests = ["0" * 64, "0" * 64]
    assert unlike(made) == []
    made.signatures[0] = signatures.UNKNOWN
    assert unlike(made) == [("changed", "late/x.h")]


def test_a_directory_is_looked_into_only_when_its_signature_is_another(place):
    made = taken()
    made.names[1:] = [["-sub"], ["-x.h"]]
    assert unlike(made) == []
    made.directory_signatures = [signatures.UNKNOWN] * 3
    assert unlike(made) == [("appeared", "late/x.h")]


def test_each_file_is_looked_at_once_in_a_call(place):
    seen = Answering()
    first = seen.signatures(["late/x.h"])
    (place / "late" / "x.h").write_text("int other;\n")
    assert seen.signatures(["late/x.h", "missing"]) == [*first, None]
    assert Answering().signatures(["late/x.h"]) != first


def test_a_date_is_what_a_tool_sees(place):
    os.utime("late/x.h", (1234567890.75, 1234567890.75))
    assert presence.date_and_size("late/x.h") == "late/x.h:1234567890:7"
    assert presence.date_and_size("missing") == presence.date_and_size("nul\0") == ""
