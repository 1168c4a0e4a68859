"""Explanations: the clause that names what differs from the last compile of an object, and object records."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from nvccache import config, environment
from nvccache.commandline import invocation
from nvccache.explain import miss_reason
from nvccache.explain.miss_reason import Explanation, ObjectRecord
from nvccache.files import keys
from nvccache.files.signatures import UNKNOWN
from nvccache.records import call_key, input_records
from nvccache.records import record as records
from nvccache.records.direct_hit import Request
from nvccache.records.input_records import InputRecord
from nvccache.run.report import Report
from nvccache.store import store
from nvccache.store.store import Store

FIRST = "no earlier compile is recorded"
LOST = "the earlier result is no longer in the cache"
LINE = "-c a.cu -O2 -o a.o"
PRODUCT = "/project/a.o"
RECORD = ObjectRecord(
    digest_key="ab" * 16,
    record_name="c" * 64,
    scope="placed",
    reason_against_record="`\udcff` uses `__TIME__`",
    components=[("argument", [("-O2", ""), ("-DN=…", "0" * 64)]), ("nvcc", [("nvcc", "")])],
)
ASKED = ("CPATH", "LANG", "SECRET")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory: `a.cu` was read, `tool` was run, `early/x.h` is missing."""
    (tmp_path / "work" / "early").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work" / "a.cu").write_text("int a;\n")
    (tmp_path / "work" / "tool").write_text("tool")
    (tmp_path / "work" / "tool").chmod(0o755)
    return tmp_path / "work"


def case(line: str = LINE, nvcc: str = "nvcc", **environ: str) -> Request:
    arguments = line.split()
    call = invocation.parse(arguments, environ)
    assert isinstance(call, invocation.Invocation)
    request = Request(nvcc, arguments, environ, config.load(environ))
    request.invocation = call
    return request


def begun(given: Request, cache: Store, *further: str) -> Explanation:
    """Begin the explanation of a call that makes these objects, too."""
    explanation = Explanation(is_recaching=given.config.recache)
    explanation.begin(given, [given.invocation.output or "a.o", *further], cache)
    return explanation


def record(given: Request, cache: Store, reason_against_record: str = "", *further: str) -> Report:
    """Note a compile as when recorded: with an input record, or the reason for none."""
    made = InputRecord()
    made.files, made.kinds = ["a.cu", "tool"], input_records.SOURCE + input_records.PROGRAM
    made.digests, made.signatures = [keys.digest_file(path) for path in made.files], [UNKNOWN] * 2
    made.directories, made.names, made.directory_signatures = ["early"], [["-x.h"]], [UNKNOWN]
    made.variables = [(name, environment.digest_of(name, given.environ)) for name in ASKED]
    made.sought, made.search_path = ["sh"], given.environ.get("PATH", "")
    report = Report()
    report.reason_against_record = reason_against_record
    if not reason_against_record:
        lookup_key = call_key.make_lookup_key(given, call_key.SAME_DIRECTORY)
        report.record = records.Entry(lookup_key, made, records.Result())
        records.add([report.record], cache, time.time_ns())
    begun(given, cache, *further).end(report)
    return report


def cause_of(given: Request, cache: Store) -> list[str]:
    return begun(given, cache).causes


def test_a_recache_or_readonly_setting_is_given_as_the_cause_of_a_miss(place, cache, tmp_path):
    assert cause_of(case(), cache) == [FIRST]
    record(case(), cache)
    assert cause_of(case(NVCCACHE_RECACHE="1"), cache) == ["NVCCACHE_RECACHE is set"]
    read_only = Store(str(tmp_path / "another"), is_readonly=True)
    assert cause_of(case(), read_only) == ["NVCCACHE_READONLY is set, so nothing is recorded"]


@pytest.mark.parametrize(
    ("change", "clauses"),
    [
        (lambda: os.rename("tool", "a.cu"), ["`a.cu` changed", "the program `tool` is gone"]),
        (lambda: write("tool", "TOOL"), ["the program `tool` changed"]),
        (lambda: write("early/x.h", ""), ["`early/x.h` has appeared"]),
    ],
)
def test_a_changed_file_is_given_as_the_cause_of_a_miss(place, cache, change, clauses):
    record(case(), cache)
    change()
    assert cause_of(case(), cache) == clauses


def test_at_most_ten_changed_inputs_are_named_as_causes_of_a_miss(place, cache, monkeypatch):
    names = tuple(f"NAME{number:02}" for number in range(30))
    monkeypatch.setitem(globals(), "ASKED", names)
    record(case(), cache)
    clauses = [f"the environment variable `{name}` was set" for name in names]
    assert cause_of(case("-c a.cu -O3 -o a.o", **dict.fromkeys(names, "x")), cache) == [
        "`-O3` replaced `-O2`",
        *clauses[:10],
    ]


def write(path: str, text: str) -> None:
    status = os.stat(path) if os.path.exists(path) else None
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    if status:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("other", "clauses"),
    [
        (case, [LOST]),
        (lambda: case("-c a.cu -O2 -DKEY=s3cret -o a.o"), ["`-DKEY=…` was added to the command line"]),
        (lambda: case(nvcc="/opt/nvcc"), ["nvcc is now `/opt/nvcc` instead of `nvcc`"]),
        (lambda: case(CPATH="x"), ["the environment variable `CPATH` was set"]),
        (lambda: case(PATH="/usr/bin:/bin"), ["the environment variable `PATH` changed"]),
        (lambda: case(OTHER="x"), [LOST]),
        (lambda: case(NVCC_APPEND_FLAGS="-DX"), ["`-DX` was added to the command line"]),
        (
            lambda: case("-c a.cu --optimize=2 -o x/a.o -o a.o"),
            ["`-o=x/a.o` was added to the command line", "`-o=a.o` was added to the command line"],
        ),
        (lambda: case(PWD="/link"), ["the environment variable `PWD` was set or unset"]),
    ],
)
def test_a_changed_argument_or_variable_is_given_as_the_cause_of_a_miss(place, cache, other, clauses):
    record(case(), cache)
    assert cause_of(other(), cache) == clauses


SECRETS = "-c a.cu -DKEY=s3cret -DKEY2=s3cret -Xcompiler -DTOKEN=s3cret -o a.o"


def test_causes_of_a_miss_show_no_values_of_macros_and_variables(place, cache):
    record(case(SECRETS, CPATH="s3cret", NVCC_APPEND_FLAGS="-DX=s3cret"), cache)
    same = case(SECRETS, CPATH="s3cret", NVCC_APPEND_FLAGS="-DX=s3cret")
    assert cause_of(same, cache) == [LOST]
    other = SECRETS.replace("KEY=s3cret", "KEY=s3cret2").replace("TOKEN=s3cret", "TOKEN=s3cret2")
    assert cause_of(case(other, CPATH="s3cret2", NVCC_APPEND_FLAGS="-DX=s3cret"), cache) == [
        "the value of `-DKEY` changed",
        "the value of `-Xcompiler -DTOKEN` changed",
        "the environment variable `CPATH` changed",
    ]


def test_records_for_explain_hold_macro_values_only_as_digests_unique_to_each_record(place, cache):
    """Otherwise the digest of an argument that many records have could be looked up."""
    digests = []
    for name in ("a.o", "b.o"):
        given = case(SECRETS.replace("a.o", name), CPATH="s3cret", NVCC_APPEND_FLAGS="-DX=s3cret")
        record(given, cache)
        body = cache.find_record(store.OBJECT, miss_reason.key_of_object(str(place / name)))
        assert b"KEY" in body
        assert b"s3cret" not in body
        components = miss_reason.find_record(str(place / name), cache).components
        digests.append({digest for _, digest in dict(components)["argument"]} - {""})
        assert len(digests[-1]) == 4
    assert not digests[0] & digests[1]


def test_another_working_directory_is_given_as_the_cause_of_a_miss(place, cache, monkeypatch):
    line = f"-c a.cu -o {place}/a.o"
    record(case(line), cache)
    monkeypatch.chdir(place.parent)
    found = cause_of(case(line), cache)
    assert found[0] == f"the working directory changed from `{place}`"


def test_an_evicted_result_is_reported_as_lost(place, cache):
    recorded = record(case(), cache)
    assert cause_of(case(), cache) == [LOST]
    cache.remove_damaged(store.RECORD, recorded.record.lookup_key.key)
    assert cause_of(case(), cache) == [LOST]


def test_a_result_under_another_key_is_not_called_lost(place, cache, monkeypatch):
    record(case(), cache)
    below_base = case()
    below_base.checkout = str(place)
    assert cause_of(below_base, cache) == ["`NVCCACHE_BASE_DIR` was set"]
    monkeypatch.setattr(call_key, "keys", SimpleNamespace(key_of=lambda *_: "0" * 64))
    record(case(), cache)
    monkeypatch.setattr(call_key, "keys", SimpleNamespace(key_of=lambda *_: "1" * 64))
    assert cause_of(case(), cache) == ["the cache key changed, but it is not recorded which part of the key"]


def test_a_failed_compile_has_a_cause_and_the_next_one_is_compared_with_the_one_before(place, cache):
    record(case(), cache)
    failed = Report()
    failed.status, failed.reason_against_record = 1, "the compile failed"
    begun(case("-c a.cu -O3 -o a.o"), cache).end(failed)
    assert failed.causes == ["`-O3` replaced `-O2`"]
    assert cause_of(case("-c a.cu -O1 -o a.o"), cache) == ["`-O1` replaced `-O2`"]


def test_why_a_call_was_not_recorded_is_given_as_the_cause_of_a_miss(place, cache):
    first = record(case(), cache, "`a.cu` uses `__TIME__`")
    assert first.causes[1:] == ["the call was not recorded as a whole: `a.cu` uses `__TIME__`"]
    assert cause_of(case(), cache) == ["the call was not recorded as a whole: `a.cu` uses `__TIME__`"]
    cache.fault = "disk_full"
    record(case(), cache)
    cache.fault = ""
    (found,) = cause_of(case(), cache)
    assert found.startswith("the call was not recorded as a whole: the results could not be stored")


def test_explain_finds_a_call_under_each_of_its_objects(place, cache):
    record(case(), cache, "", str(place / "x" / ".." / "b.o"))
    for product in (str(place / "a.o"), str(place / "b.o")):
        components = dict(miss_reason.find_record(product, cache).components)
        assert components["argument"] == [("-c", ""), ("a.cu", ""), ("-O2", "")]
        assert (components["nvcc"], components["directory"][0]) == ([("nvcc", "")], (str(place), ""))
    assert miss_reason.find_record(str(place / "c.o"), cache) is None


def test_an_added_output_option_is_a_cause_of_a_miss_but_another_output_name_is_not(place, cache):
    record(case("-c a.cu -O2 -o a.o -t 2 -MD -MF a.d"), cache)
    other = "-c a.cu -O3 --threads=4 -MD -o a.o"
    assert cause_of(case(f"{other} -MF b.d"), cache) == ["`-O3` replaced `-O2`"]
    named = "`-o`, `-odir` or `-MF` was added or removed"
    assert cause_of(case(other), cache) == ["`-O3` replaced `-O2`", named]


def test_a_miss_is_compared_with_the_last_compile_of_the_same_object(place, cache):
    for options in ("-O2", "-O3"):
        record(case(f"-c a.cu {options} -o a.o"), cache)
    write("a.cu", "int changed;\n")
    assert cause_of(case("-c a.cu -O2 -o a.o"), cache) == ["`-O2` replaced `-O3`", "`a.cu` changed"]
    assert cause_of(case("-c a.cu -O2 -o b.o"), cache) == ["no earlier compile is recorded"]


def test_an_object_record_is_found_under_the_path_of_each_of_its_objects(cache):
    miss_reason.add_record([PRODUCT, "/project/x/../b.o"], RECORD, cache)
    for product in ("/project/./a.o", "/project/b.o"):
        assert miss_reason.find_record(product, cache) == RECORD
    assert miss_reason.find_record("/project/c.o", cache) is None


def test_an_object_record_is_readable_only_by_its_owner(cache):
    miss_reason.add_record([PRODUCT], RECORD, cache)
    assert not os.stat(cache.path(store.OBJECT, miss_reason.key_of_object(PRODUCT))).st_mode & 0o077


def hidden(text: str, digest_key: str = "key") -> str:
    """The digest that is stored of the value of a macro."""
    ((_, [(shown, digest)]),) = miss_reason.stored_form([("argument", (f"-DX={text}",))], digest_key)
    assert shown == "-DX=…"
    return digest


def test_hidden_values_have_digests_that_depend_on_value_and_object():
    assert len({hidden(text, key) for key in ("a", "b") for text in ("x", "y", "\udcff")}) == 6
    assert hidden("x") == hidden("x")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"1", b'["", "", "", "", [1]]'])
def test_a_malformed_object_record_is_ignored(cache, body):
    cache.add_record(store.OBJECT, miss_reason.key_of_object(PRODUCT), body)
    assert miss_reason.find_record(PRODUCT, cache) is None
