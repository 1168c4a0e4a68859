"""Input records: every way in which what was read can have become another thing."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from damage import changed, shuffled, torn
from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.records import differences, input_records, levels
from nvccache.records.base_dir import Relocation
from nvccache.records.differences import Present
from nvccache.records.input_records import InputRecord
from nvccache.store import sections

MACHINE = [("native", "", "a digest"), ("libraries", "/etc/ld.so.cache:libm.so.6", "another")]
NOWHERE = Relocation("", "/")
ENVIRON = {"ASKED": "1", "EMPTY": "", "GROUP_A": "2", "PATH": "/usr/bin:/bin", "OTHER": "3"}
ASKED = ("ASKED", "EMPTY", "UNSET", "GROUP_*")


def ask(topic: str, subject: str) -> str:
    return next(answer for known, about, answer in MACHINE if (known, about) == (topic, subject))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory: `late/x.h` was read, `early/x.h` is missing, `link` leads to `late/x.h`.

    `bin` has a program and a directory, and was listed.
    """
    monkeypatch.chdir(tmp_path)
    for directory in ("early", "late", "bin", "bin/folder"):
        (tmp_path / directory).mkdir()
    (tmp_path / "bin" / "tool").write_text("")
    (tmp_path / "bin" / "tool").chmod(0o755)
    (tmp_path / "bin" / "loop").symlink_to("loop")
    (tmp_path / "late" / "x.h").write_text("int x;\n")
    (tmp_path / "link").symlink_to("late/x.h")
    return tmp_path


def taken(signed: bool = True) -> InputRecord:
    """An input record with everything in it; without signatures all is looked at."""
    made = InputRecord()
    made.files, made.kinds = ["late/x.h", "link"], input_records.SOURCE * 2
    made.digests = [keys.digest_file(path) for path in made.files]
    made.directories = ["bin", "early", "late"]
    made.names = [["!loop", "dfolder", "xtool"], ["-sub", "-x.h"], ["+x.h", "-libm.so.6"]]
    looked_at = (*made.files, *made.directories)
    known = [signatures.of(path) if signed else signatures.UNKNOWN for path in looked_at]
    made.signatures, made.directory_signatures = known[:2], known[2:]
    made.links = [("link", os.path.realpath("link"))]
    made.dates = [("late/x.h", presence.date_and_size("late/x.h")), ("never", "")]
    made.plain, made.listings = ["bin"], [("bin", presence.digest_of_listing("bin"))]
    made.duplicates = [("late/x.h", "late/x.h", "11")]
    made.variables = [(name, environment.digest_of(name, ENVIRON)) for name in ASKED]
    made.sought, made.search_path = ["sh"], ENVIRON["PATH"]
    made.machine = list(MACHINE)
    return made


def kept(made: InputRecord, relocation: Relocation = NOWHERE) -> bytes:
    return input_records.encode(made, b"", relocation)


def unlike(made: InputRecord, ask=ask, environ=ENVIRON) -> list[tuple[str, str]]:
    found = differences.differences(made, Present(environ), False, ask)
    return [(difference.what, difference.path) for difference in found]


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
        ("move the link", [("changed", "link"), ("moved", "link")]),
        ("move the link to the same", [("moved", "link")]),
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
def test_each_difference_is_told(place, signed, change, found):
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


def test_a_file_that_is_gone_is_told_with_the_name_that_vanished(place):
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
def test_a_variable_that_was_asked_for_is_told_by_its_name(place, environ, found):
    assert unlike(taken(), environ=environ) == found


def test_another_path_is_told_if_it_leads_to_another_program(place):
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
    """The directories of PATH are among those whose names were looked at."""
    made = taken()
    made.search_path, made.names[1] = f"early:{ENVIRON['PATH']}", ["-sh"]
    environ = {**ENVIRON, "PATH": made.search_path}
    assert unlike(made, environ=environ) == []
    shutil.copy("bin/tool", "early/sh")
    assert unlike(made, environ=environ) == [("appeared", "early/sh")]


def test_a_name_in_the_working_directory_is_told_without_a_dot(place):
    made = InputRecord()
    made.directories, made.names, made.directory_signatures = ["."], [["-a.h"]], [signatures.UNKNOWN]
    (place / "a.h").write_text("")
    assert unlike(made) == [("appeared", "a.h")]


def test_a_file_that_becomes_a_link_to_the_same_content_is_told(place):
    """gcc names a system header by where links lead."""
    made = taken(signed=False)
    made.plain, made.listings, made.dates = [], [], []
    (place / "copy.h").write_text("int x;\n")
    (place / "late" / "x.h").unlink()
    (place / "late" / "x.h").symlink_to("../copy.h")
    assert unlike(made) == [("moved", "late/x.h"), ("moved", "link")]


def test_copies_of_which_only_one_is_touched_are_told(place):
    made = InputRecord()
    (place / "one").write_text("")
    (place / "other").write_text("")
    for path in ("one", "other"):
        os.utime(path, (5, 5))
    made.duplicates = [("one", "other", presence.likeness("one", "other"))]
    assert unlike(made) == []
    os.utime("other", (5, 6))
    assert unlike(made) == [("redated", "one")]


def test_copies_that_become_one_file_are_told(place):
    """As a store of packages does that saves space; clang takes them for one then."""
    made = InputRecord()
    for name in ("one", "other"):
        (place / name).write_text("")
        os.utime(place / name, (5, 5))
    made.duplicates = [("one", "other", presence.likeness("one", "other"))]
    (place / "other").unlink()
    os.link("one", "other")
    assert unlike(made) == [("redated", "one")]


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


def test_another_processor_is_told_only_where_it_counts(place):
    made = taken()
    assert unlike(made, lambda topic, _: "another" if topic == "native" else ask(topic, _)) == [
        ("processor", "")
    ]
    made.machine = []
    assert unlike(made, lambda *_: pytest.fail("nobody asked for the processor")) == []


def test_what_the_loaders_cache_says_is_told_by_its_name(place):
    assert unlike(taken(), lambda topic, _: "new" if topic == "libraries" else ask(topic, _)) == [
        ("libraries", "/etc/ld.so.cache")
    ]


def test_a_library_that_appears_where_it_would_be_found_first_is_told(place):
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


def test_one_difference_is_enough_where_that_is_all_one_asks(place):
    made = taken()
    (place / "early" / "x.h").write_text("")
    os.unlink("late/x.h")
    assert len(differences.differences(made, Present(ENVIRON), True, ask)) == 1
    assert len(unlike(made)) > 2


def test_a_signature_that_holds_spares_reading_the_file(place):
    made = taken()
    made.digests = ["0" * 32, "0" * 32]
    assert unlike(made) == []
    made.signatures[0] = signatures.UNKNOWN
    assert unlike(made) == [("changed", "late/x.h")]


def test_a_directory_is_looked_into_only_when_its_signature_is_another(place):
    made = taken()
    made.names[1:] = [["-sub"], ["-x.h"]]
    assert unlike(made) == []
    made.directory_signatures = [signatures.UNKNOWN] * 3
    assert unlike(made) == [("appeared", "late/x.h")]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("wanted", [presence.ABSENT, presence.PRESENT])
def test_a_link_in_a_directory_can_come_to_life_or_die_elsewhere(place, wanted, again):
    """What a link leads to leaves no trace in the directory that holds the link."""
    (place / "early" / "x.h").symlink_to("../elsewhere.h")
    if wanted == presence.PRESENT:
        (place / "elsewhere.h").write_text("")
    later = time.time_ns() + 10 * 10**9
    made = InputRecord()
    made.directories, made.names = ["early"], [[wanted + "x.h"]]
    made.directory_signatures = [input_records.signature_of_directory("early", made.names[0], later)]
    if again:
        levels._record_again(made, Present({}), later)
    assert unlike(made) == []
    if wanted == presence.PRESENT:
        (place / "elsewhere.h").unlink()
    else:
        (place / "elsewhere.h").write_text("")
    assert len(unlike(made)) == 1


def test_each_file_is_looked_at_once_in_a_call(place):
    seen = Present({})
    first = seen.signatures(["late/x.h"])
    (place / "late" / "x.h").write_text("int other;\n")
    assert seen.signatures(["late/x.h", "missing"]) == [*first, None]
    assert Present({}).signatures(["late/x.h"]) != first


def test_a_input_record_comes_back(place):
    made = taken()
    assert_same(input_records.decode(kept(made), NOWHERE)[0], made)
    assert_same(input_records.decode(kept(InputRecord()), NOWHERE)[0], InputRecord())


@pytest.mark.parametrize("name", ["with blank", "new\nline", "tab\t", "\udcff\udc80", "é", "-minus", "+plus"])
@pytest.mark.parametrize("base", ["", "/base"])
def test_odd_names_come_back(name, base):
    relocation = Relocation(base, "/base/one")
    made = odd_input_record(name)
    assert_same(input_records.decode(kept(made, relocation), relocation)[0], made)


def test_a_input_record_of_one_checkout_speaks_of_the_files_of_another():
    record = kept(odd_input_record("x"), Relocation("/base", "/base/one"))
    found, _ = input_records.decode(record, Relocation("/base", "/base/two"))
    assert found.files == ["/base/two/x", "x", "/usr/x"]
    assert found.directories == ["/base/two/x"]
    assert found.links == [("/base/two/x", "/base/two/real")]
    assert (found.plain, found.listings) == (["/base/two/x"], [("/base/two/x", "4" * 32)])
    assert found.duplicates == [("/base/two/x", "x", "1")]
    assert b"/base/one" not in record


def test_what_is_kept_relative_to_a_base_directory_is_refused_without_one():
    record = kept(odd_input_record("x"), Relocation("/base", "/base/one/deep"))
    for relocation in (NOWHERE, Relocation("/base", "/base")):
        with pytest.raises(ValueError):
            input_records.decode(record, relocation)


def odd_input_record(name: str) -> InputRecord:
    made = InputRecord()
    made.files, made.kinds = [f"/base/one/{name}", name, f"/usr/{name}"], "sps"
    made.digests, made.signatures = ["0" * 32, "1" * 32, "2" * 32], [(1, 2, 3, 4, 5)] * 3
    made.directories = [f"/base/one/{name}"]
    made.names = [[state + name for state in "-d+x!"]]
    made.directory_signatures = [signatures.UNKNOWN]
    made.links = [(f"/base/one/{name}", "/base/one/real")]
    made.dates = [(name, f"{name}:1:2")]
    made.plain, made.listings = [f"/base/one/{name}"], [(f"/base/one/{name}", "4" * 32)]
    made.duplicates, made.variables = [(f"/base/one/{name}", name, "1")], [(name, "-")]
    made.sought, made.search_path, made.is_observed = [name], f":{name}", False
    made.machine = [("native", name, "3" * 32)]
    return made


def assert_same(found: InputRecord, given: InputRecord) -> None:
    for name in InputRecord.__slots__:
        assert getattr(found, name) == getattr(given, name), name


def decoded(record: bytes) -> InputRecord | None:
    """None for what is refused; any exception but ValueError fails the test."""
    try:
        return input_records.decode(record, NOWHERE)[0]
    except ValueError:
        return None


def test_damaged_input_records_are_refused_or_can_be_compared(place):
    whole = kept(taken())
    assert [record for record in torn(whole) if decoded(record)] == []
    for record in (*changed(whole), *shuffled(whole, 2000)):
        found = decoded(record)
        if found:
            differences.differences(found, Present({}), False, lambda topic, subject: "")


@pytest.mark.parametrize(
    ("index", "section"),
    [
        (0, b"late/x.h\0"),
        (1, b"s"),
        (1, b"\xff\xff"),
        (2, b"0" * 96),
        (3, b"1 2 3 4 5\n"),
        (3, b"1 2 3 4 5 6\n"),
        (3, b"x\n"),
        (4, b"early\0"),
        (5, b"-x.h\0"),
        (5, b"-x.h\0x.h\0"),
        (5, b"-x.h\0+x.h//-y\0"),
        (6, b""),
        (6, b"1\0reader\0"),
        (6, b"1\0reader\0/bin\0more\0"),
        (7, b"link\0"),
        (8, b"no end"),
        (9, b"bin\0"),
        (10, b"late/x.h\0"),
        (11, b"late/x.h\0link\0"),
        (12, b"ASKED\0"),
        (13, b"sh"),
        (14, b"\xff"),
        (14, b"native\0\0"),
    ],
)
def test_sections_that_do_not_fit_together_are_refused(place, index, section):
    parts = sections.unpack("input-record-6", kept(taken()), 16)
    parts[index] = section
    with pytest.raises(ValueError):
        input_records.decode(sections.pack("input-record-6", parts), NOWHERE)


def test_what_is_kept_beside_it_comes_back(place):
    for attached in (b"", b"attached\0\1"):
        found, beside = input_records.decode(input_records.encode(taken(), attached, NOWHERE), NOWHERE)
        assert beside == attached
        assert_same(found, taken())


def test_everything_but_the_hints_is_in_the_key(place):
    key = input_records.key_of("front", taken())
    assert input_records.key_of("front", taken(signed=False)) == key
    assert input_records.key_of("other", taken()) != key
    found = {key}
    assert {*COUNTING, *HINTS} == {*InputRecord.__slots__}
    for name in COUNTING:
        made = taken()
        value = getattr(made, name)
        if isinstance(value, bool):
            setattr(made, name, not value)
        elif isinstance(value, str):
            setattr(made, name, "other")
        elif isinstance(value[-1], str):
            setattr(made, name, [*value[:-1], "other"])
        else:
            setattr(made, name, [*value[:-1], type(value[-1])(["-y", "z"])])
        found.add(input_records.key_of("front", made))
    assert len(found) == 1 + len(COUNTING)


HINTS = ("signatures", "directory_signatures", "cache_signatures", "reader")
COUNTING = ("files", "kinds", "digests", "directories", "names", "links", "plain", "listings", "dates",
            "duplicates", "variables", "search_path", "sought", "machine", "is_observed")  # fmt: skip


def test_hints_that_could_outlive_a_change_are_dropped(place):
    made = taken()
    input_records.forget_unsettled(made, time.time_ns() + 10 * 10**9)
    assert signatures.UNKNOWN not in [*made.signatures, *made.directory_signatures]
    input_records.forget_unsettled(made, max(signature[4] for signature in made.signatures) + 1)
    assert made.signatures == [signatures.UNKNOWN] * 2
    assert unlike(made) == []


def test_a_date_is_what_a_tool_sees(place):
    os.utime("late/x.h", (1234567890.75, 1234567890.75))
    assert presence.date_and_size("late/x.h") == "late/x.h:1234567890:7"
    assert presence.date_and_size("missing") == presence.date_and_size("nul\0") == ""


@pytest.mark.parametrize(
    ("names", "lasts"),
    [
        ([], True),
        (["-x.h", "-sub"], True),
        (["dfolder", "-x.h"], True),
        (["xtool"], False),
        (["+x.h"], False),
        (["!loop"], False),
        (["-dangling"], False),
        (["dlinked"], False),
    ],
)
def test_a_directory_stands_for_names_of_which_every_change_shows_in_it(place, names, lasts):
    (place / "bin" / "dangling").symlink_to("nowhere")
    (place / "bin" / "linked").symlink_to("folder")
    later = time.time_ns() + 10 * 10**9
    found = input_records.signature_of_directory("bin", names, later)
    assert found == (signatures.of("bin") if lasts else signatures.UNKNOWN)


def test_a_directory_that_is_written_to_or_missing_stands_for_nothing(place):
    now = time.time_ns()
    assert input_records.signature_of_directory("bin", [], now) == signatures.UNKNOWN
    assert input_records.signature_of_directory("never", [], now + 10 * 10**9) == signatures.UNKNOWN
