"""Input records on disk and in keys: what comes back, what is refused, and which signatures are kept."""

from __future__ import annotations

import time

import pytest

from answering import Answering
from damage import changed, shuffled, torn
from nvccache.files import presence, signatures
from nvccache.records import input_records, record
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord
from nvccache.store import sections
from sample_input_record import NOWHERE, place, taken, unlike

__all__ = ["place"]  # the fixtures


def kept(made: InputRecord, relocation: Relocation = NOWHERE) -> bytes:
    return input_records.encode(made, relocation)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("wanted", [presence.ABSENT, presence.PRESENT])
def test_a_link_in_a_directory_can_come_to_life_or_die_elsewhere(place, wanted, again):
    """A change of a link's target does not change the directory that has the link."""
    (place / "early" / "x.h").symlink_to("../elsewhere.h")
    if wanted == presence.PRESENT:
        (place / "elsewhere.h").write_text("")
    later = time.time_ns() + 10 * 10**9
    made = InputRecord()
    made.directories, made.names = ["early"], [[wanted + "x.h"]]
    made.directory_signatures = [input_records.signature_of_directory("early", made.names[0], later)]
    if again:
        now = Answering()
        now.since_ns = later
        record.take_signatures(made, now)
    assert unlike(made) == []
    if wanted == presence.PRESENT:
        (place / "elsewhere.h").unlink()
    else:
        (place / "elsewhere.h").write_text("")
    assert len(unlike(made)) == 1


def test_a_input_record_comes_back(place):
    made = taken()
    assert_same(input_records.decode(kept(made), NOWHERE), made)
    assert_same(input_records.decode(kept(InputRecord()), NOWHERE), InputRecord())


@pytest.mark.parametrize("name", ["with blank", "new\nline", "tab\t", "\udcff\udc80", "é", "-minus", "+plus"])
@pytest.mark.parametrize("base", ["", "/base"])
def test_odd_names_come_back(name, base):
    relocation = Relocation(base, "/base/one")
    made = odd_input_record(name)
    assert_same(input_records.decode(kept(made, relocation), relocation), made)


def test_a_input_record_of_one_checkout_speaks_of_the_files_of_another():
    body = kept(odd_input_record("x"), Relocation("/base", "/base/one"))
    found = input_records.decode(body, Relocation("/base", "/base/two"))
    assert found.files == ["/base/two/x", "x", "/usr/x"]
    assert found.directories == ["/base/two/x"]
    assert found.links == [("/base/two/x", "/base/two/real")]
    assert (found.plain, found.listings) == (["/base/two/x"], [("/base/two/x", "4" * 64)])
    assert found.duplicates == [("/base/two/x", "x", "/base/two/x")]
    assert found.identities == [("/base/two/x", "x")]
    assert b"/base/one" not in body


def test_what_is_kept_relative_to_a_base_directory_is_refused_without_one():
    body = kept(odd_input_record("x"), Relocation("/base", "/base/one/deep"))
    for relocation in (NOWHERE, Relocation("/base", "/base")):
        with pytest.raises(ValueError):
            input_records.decode(body, relocation)


def odd_input_record(name: str) -> InputRecord:
    made = InputRecord()
    made.files, made.kinds = [f"/base/one/{name}", name, f"/usr/{name}"], "sps"
    made.digests, made.signatures = ["0" * 64, "1" * 64, "2" * 64], [(1, 2, 3, 4, 5)] * 3
    made.directories = [f"/base/one/{name}"]
    made.names = [[state + name for state in "-d+x!"]]
    made.directory_signatures = [signatures.UNKNOWN]
    made.links = [(f"/base/one/{name}", "/base/one/real")]
    made.dates = [(name, f"{name}:1:2")]
    made.plain, made.listings = [f"/base/one/{name}"], [(f"/base/one/{name}", "4" * 64)]
    made.identities = [(f"/base/one/{name}", name)]
    made.duplicates = [(f"/base/one/{name}", name, f"/base/one/{name}")]
    made.variables = [(name, "-")]
    made.sought, made.search_path, made.is_observed = [name], f":{name}", False
    made.machine = [("native", name, "3" * 64)]
    return made


def assert_same(found: InputRecord, given: InputRecord) -> None:
    for name in InputRecord.__slots__:
        assert getattr(found, name) == getattr(given, name), name


def decoded(body: bytes) -> InputRecord | None:
    """None for what is refused; any exception but ValueError fails the test."""
    try:
        return input_records.decode(body, NOWHERE)
    except ValueError:
        return None


def test_damaged_input_records_are_refused_or_can_be_compared(place):
    whole = kept(taken())
    assert [body for body in torn(whole) if decoded(body)] == []
    for body in (*changed(whole), *shuffled(whole, 2000)):
        found = decoded(body)
        if found:
            input_records.differences(found, Answering())


@pytest.mark.parametrize(
    ("index", "section"),
    [
        (0, b"late/x.h\0"),
        (1, b"s"),
        (1, b"\xff\xff"),
        (2, b"0" * 192),
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
        (7, b"ASKED\0"),
        (8, b"sh"),
        (9, b"bin\0"),
        (10, b"link\0"),
        (11, b"no end"),
        (12, b"late\0"),
        (13, b"late/x.h\0"),
        (14, b"late/x.h\0link\0"),
        (15, b"\xff"),
        (15, b"native\0\0"),
    ],
)
def test_sections_that_do_not_fit_together_are_refused(place, index, section):
    parts = sections.unpack("inputs-9", kept(taken()), 16)
    parts[index] = section
    with pytest.raises(ValueError):
        input_records.decode(sections.pack("inputs-9", parts), NOWHERE)


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
COUNTING = ("files", "kinds", "digests", "directories", "names", "links", "plain", "listings",
            "dates", "identities", "duplicates", "variables", "search_path", "sought", "machine",
            "is_observed")  # fmt: skip


def test_hints_that_could_outlive_a_change_are_dropped(place):
    made = taken()
    input_records.forget_unsettled(made, time.time_ns() + 10 * 10**9)
    assert signatures.UNKNOWN not in [*made.signatures, *made.directory_signatures]
    input_records.forget_unsettled(made, max(signature[4] for signature in made.signatures) + 1)
    assert made.signatures == [signatures.UNKNOWN] * 2
    assert unlike(made) == []


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
    for since in (now, now + 10**9):  # a build writes one file after the other
        assert input_records.signature_of_directory("bin", [], since) == signatures.UNKNOWN
    assert input_records.signature_of_directory("never", [], now + 10 * 10**9) == signatures.UNKNOWN


@pytest.mark.parametrize("directory", ["/proc/sys", "/sys/kernel"])
def test_a_directory_whose_dates_say_nothing_stands_for_nothing(directory):
    later = time.time_ns() + 10 * 10**9
    assert input_records.signature_of_directory(directory, ["-never"], later) == signatures.UNKNOWN


def test_the_way_to_the_working_directory_is_called_otherwise_elsewhere():
    made = InputRecord()
    made.directories = ["/b", "/b/checkouts", "/b/checkouts/one", "/b/check"]
    made.names = [
        [presence.FOLDER + "checkouts", presence.ABSENT + "x.h"],
        [presence.FOLDER + "one", presence.FOLDER + "other", presence.ABSENT + "one.h"],
        [presence.ABSENT + "one"],
        [presence.ABSENT + "outs"],
    ]
    input_records.forget_parents_of("/b/checkouts/one", made)
    assert made.names == [
        [presence.ABSENT + "x.h"],
        [presence.FOLDER + "other", presence.ABSENT + "one.h"],
        [presence.ABSENT + "one"],
        [presence.ABSENT + "outs"],
    ]
