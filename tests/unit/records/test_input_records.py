"""Input records: what comes back from disk, what is in the key, and which signatures are kept."""

from __future__ import annotations

import ast
import os
import shutil
import time

import pytest

from answering import Answering
from nvccache.files import keys, signatures
from nvccache.records import input_records, record
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import InputRecord
from nvccache.store import sections
from world import ENVIRON, differences, everything, relink

HINTS = ("signatures", "directory_signatures", "cache_signatures", "reader")
LATER = 10 * 10**9  # nanoseconds


def odd_input_record(name: str) -> InputRecord:
    """Of a call in `/base/one`, with an odd name in each field."""
    made, below = InputRecord(), f"/base/one/{name}"
    made.files, made.kinds = [below, name, f"/usr/{name}"], "sps"
    made.digests, made.signatures = ["0" * 64, "1" * 64, "2" * 64], [(1, 2, 3, 4, 5)] * 3
    made.directories, made.names = [below], [[state + name for state in "-d+x!"]]
    made.directory_signatures = [signatures.UNKNOWN]
    made.links, made.dates = [(below, "/base/one/real")], [(name, f"{name}:1:2")]
    made.plain, made.listings = [below], [(below, "4" * 64)]
    made.variables, made.machine = [(name, "-")], [("native", name, "3" * 64)]
    made.sought, made.search_path = [name], f":{name}"
    return made


@pytest.mark.parametrize("name", ["new\nline", "\udcff\udc80", "-minus", ""])
def test_input_records_without_files_and_with_odd_names_survive_encoding(name):
    made = odd_input_record(name) if name else InputRecord()
    found = input_records.decode(input_records.encode(made))
    for field in {*InputRecord.__slots__} - {"cache_signatures"}:
        assert getattr(found, field) == getattr(made, field), field


@pytest.mark.parametrize(
    ("index", "section"),
    [(0, b"late/a.h\0"), (1, b"\xff\xff"), (2, b"0" * 192), (3, b"x\n"), (4, b"early\0"), (5, b"-x.h\0"),
     (5, b"-x.h\0+x.h//-y\0"), (6, b""), (7, b"ASKED\0"), (8, b"sh"), (14, b"native\0\0")],
)  # fmt: skip
def test_an_input_record_with_inconsistent_sections_is_refused(place, index, section):
    parts = sections.unpack("inputs-13", input_records.encode(everything()))
    parts[index] = section
    with pytest.raises(ValueError):
        input_records.decode(sections.pack("inputs-13", parts))


def key_of(front_key: str, made: InputRecord) -> str:
    return input_records.key_of(front_key, input_records.encode(made))


def test_the_key_of_a_result_covers_every_input_but_no_signatures(place):
    key = key_of("front", everything())
    assert key_of("front", everything(signed=False)) == key
    found = {key, key_of("other", everything())}
    counting = {*InputRecord.__slots__} - {*HINTS}
    for name in counting:
        made = everything()
        value = getattr(made, name)
        if isinstance(value, bool):
            setattr(made, name, not value)
        elif isinstance(value, str):
            setattr(made, name, "other")
        elif isinstance(value[-1], str):
            setattr(made, name, [*value[:-1], "other"])
        else:
            setattr(made, name, [*value[:-1], type(value[-1])(["-y", "z"])])
        found.add(key_of("front", made))
    assert len(found) == 2 + len(counting)


def test_file_signatures_that_could_outlive_a_change_are_not_stored(place):
    made = everything()
    input_records.forget_unsettled(made, time.time_ns() + LATER)
    assert signatures.UNKNOWN not in made.signatures
    input_records.forget_unsettled(made, max(signature[4] for signature in made.signatures) + 1)
    assert signatures.UNKNOWN in made.signatures
    assert differences(made) == []


@pytest.mark.parametrize(
    ("names", "lasts"),
    [([], True), (["-x.h", "-sub"], True), (["dfolder", "-x.h"], True), (["xtool"], False),
     (["+b.h"], False), (["!loop"], False), (["-dangling"], False), (["dsame"], False)],
    ids=["none", "absent names", "a folder", "a program", "a file", "a loop", "a dangling link", "a link"],
)  # fmt: skip
def test_a_directory_signature_is_used_only_if_it_shows_every_change_of_the_names(place, names, lasts):
    (place / "listed/dangling").symlink_to("nowhere")
    found = input_records.signature_of_directory("listed", names, time.time_ns() + LATER)
    assert found == (signatures.signature_of("listed") if lasts else signatures.UNKNOWN)


@pytest.mark.parametrize("directory", ["listed", "never", "/proc/sys", "/sys/kernel"])
def test_a_recently_changed_directory_has_no_usable_signature(place, directory):
    os.utime("listed")  # a build writes one file after the other
    since = time.time_ns() + (10**9 if directory == "listed" else LATER)
    assert input_records.signature_of_directory(directory, ["-x"], since) == signatures.UNKNOWN


def test_a_dangling_link_whose_target_appears_is_a_change(place):
    (place / "early/x.h").symlink_to("../elsewhere.h")
    now = Answering()
    now.since_ns = time.time_ns() + LATER
    made = InputRecord()
    made.directories, made.names, made.directory_signatures = ["early"], [["-x.h"]], [signatures.UNKNOWN]
    record.take_signatures(made, now)
    assert differences(made) == []
    (place / "elsewhere.h").write_text("")
    assert differences(made) == [("appeared", "early/x.h")]


def test_names_of_the_working_directory_and_its_parents_are_left_out_of_records():
    made = InputRecord()
    made.directories = ["/b", "/b/checkouts", "/b/checkouts/one", "/b/check"]
    made.names = [["dcheckouts", "-x.h"], ["done", "dother", "-one.h"], ["-one"], ["-outs"]]
    input_records.forget_parents_of("/b/checkouts/one", made)
    assert made.names == [["-x.h"], ["dother", "-one.h"], ["-one"], ["-outs"]]


# What is compared, beside the table of changes.


def test_another_value_of_path_is_a_change_only_if_it_finds_another_program(place):
    made = InputRecord()
    made.sought, made.search_path = ["sh"], ENVIRON["PATH"]
    (place / "mine").mkdir()
    for path, found in ((f"{place}/mine:/usr/bin:/bin", []), (f"/usr/bin:/bin:{place}/mine", [])):
        assert differences(made, {"PATH": path}) == found
    shutil.copy("tool", "mine/sh")
    assert differences(made, {"PATH": f"{place}/mine:/usr/bin:/bin"}) == [("variable", "PATH")]
    assert differences(made, {"PATH": f"/usr/bin:/bin:{place}/mine"}) == []
    made.sought = []
    assert differences(made, {"PATH": ""}) == []


def test_the_target_of_a_link_may_be_relative_to_the_working_directory(place):
    made = InputRecord()
    made.links = [("link", "late/a.h"), ("early/../link", os.path.realpath("late/a.h"))]
    assert differences(made) == []
    relink("link", "a.cu")
    assert differences(made) == [("moved", "link"), ("moved", "early/../link")]


def test_an_input_file_is_digested_only_if_its_signature_differs_and_once_in_a_call(place):
    made, now = everything(), Answering(ENVIRON)
    made.digests = ["0" * 64] * len(made.files)
    assert differences(made) == []
    made.signatures[0] = signatures.UNKNOWN
    assert differences(made) == [("changed", "a.cu")]
    first = now.signatures(["late/a.h"])
    (place / "late/a.h").write_text("other")
    assert now.signatures(["late/a.h", "missing"]) == [*first, None]
    other = CurrentState({"ASKED": "2"}, now)
    assert (other.signatures(["late/a.h"]), other.environ) == (first, {"ASKED": "2"})


def test_names_in_a_directory_are_checked_only_if_its_signature_differs(place):
    made = everything()
    made.names[0] = ["-other.h"]
    assert differences(made) == []
    made.directory_signatures[0] = signatures.UNKNOWN
    assert differences(made) == [("appeared", "early/other.h")]


def test_a_record_of_another_user_checks_that_paths_are_readable(place, monkeypatch):
    made = everything()
    made.reader = "another"
    assert differences(made) == []
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *mode, **named: path != "late" if named else access(path, *mode)
    )
    assert differences(made) == [("unreadable", "late")]


def test_a_source_is_compared_without_comments_unless_another_input_has_equal_content(place):
    """The digest of its code is that of its content."""
    made = InputRecord()
    made.files, made.kinds = ["a.cu", "late/a.h"], input_records.CODE + input_records.SOURCE
    made.digests = [keys.digest_file(path) for path in made.files]
    made.signatures = [signatures.UNKNOWN] * 2
    now = Answering(ENVIRON)
    assert input_records.is_unchanged(made, now)
    assert not input_records.is_outdated(input_records.encode(made), now)
    made.digests[0] = "0" * 64
    assert input_records.is_outdated(input_records.encode(made), now)
    made.digests = [keys.digest_file("a.cu")] * 2
    assert ("changed", "a.cu") in differences(made)


@pytest.mark.parametrize(
    ("fields", "follows"),
    [
        ({}, False), ({"files": ["a.h"]}, True), ({"files": ["/usr/a.h"]}, False),
        ({"names": {"inc": ["+a.h"]}}, True), ({"names": {"inc": ["-a.h", "ddeep"]}}, False),
        ({"names": {"/usr": ["+a.h"]}}, False), ({"names": {"inc": ["-a.h", "xtool"]}}, True),
        ({"dates": [("a.h", "1")]}, True), ({"dates": [("/usr/a.h", "1")]}, False),
        ({"listings": [("inc", "1")]}, True), ({"listings": [("/usr", "1")]}, False),
        # Absolute names in places to which relative ones lead; the directory itself is always one.
        ({"files": ["HERE/a.h"]}, True), ({"dates": [("HERE/a.h", "1")]}, True),
        ({"files": ["UP/a.h"]}, False), ({"files": ["UP/a.h"], "plain": ["/"]}, False),
        ({"files": ["UP/a.h"], "plain": [".."]}, True),
        ({"files": ["UP/b/a.h"], "links": [("../b", "UP/c")]}, True),
        ({"files": ["UP/b/a.h"], "names": {"..": ["db"]}}, True),
        ({"files": ["UP/b/a.h"], "names": {"..": ["-b"]}}, False),
        ({"files": ["UP/bc/a.h"], "names": {"..": ["db"]}}, False),
        ({"names": {"HERE/inc": ["-a.h"]}}, True), ({"names": {"UP": ["-a.h"]}}, False),
        ({"names": {"UP": ["-a.h"]}, "plain": [".."]}, True),
        ({"names": {"UP": ["done"]}, "plain": [".."]}, False),  # of the directory's own path
    ],
)  # fmt: skip
def test_a_result_follows_the_directory_if_a_relative_name_may_lead_elsewhere(
    tmp_path, monkeypatch, fields, follows
):
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    assert input_records.follows_directory(record_with(tmp_path, fields)) == follows


def record_with(up, fields):
    made = InputRecord()
    text = repr(fields).replace("HERE", f"{up}/one").replace("UP", str(up))
    for name, value in ast.literal_eval(text).items():
        setattr(made, name, list(value.values()) if name == "names" else value)
        made.directories = list(value) if name == "names" else made.directories
    made.kinds = made.kinds or input_records.SOURCE * len(made.files)
    return made


@pytest.mark.parametrize(
    ("fields", "searched", "expected"),
    [
        ({"files": ["UP/bin/x"], "kinds": "p"}, False, True),
        ({"files": ["UP/bin/x"], "kinds": "p"}, True, False), ({"files": ["UP/bin/x"]}, True, True),
        ({"files": ["UP/other/x"], "kinds": "p"}, True, True),
        ({"names": {"UP/bin": ["-x"]}}, False, True), ({"names": {"UP/bin": ["-x"]}}, True, False),
    ],
)  # fmt: skip
def test_programs_on_the_search_path_do_not_count_as_absolute_names(tmp_path, fields, searched, expected):
    made = record_with(tmp_path, fields)
    searched_in = [f"{tmp_path}/bin"] if searched else []
    assert input_records.names_any_in([str(tmp_path)], made, searched_in) == expected
