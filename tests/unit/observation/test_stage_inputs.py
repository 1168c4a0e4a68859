"""From the files and variables that a stage was observed to read to an input record, or a reason for none."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs
from nvccache.records import facts
from nvccache.records.facts import CurrentState
from nvccache.records.input_records import LIBRARIES, LIBRARY, PROGRAM, SOURCE, UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import toolchain
from observed_stages import (
    DEVICE,
    ENVIRON,
    FILE,
    FOLDER,
    LATER,
    asked,
    changes_since,
    inputs,
    kinds,
    place,
    ran,
    read_by,
    subject,
)

__all__ = ["place"]  # the fixtures


def test_files_programs_and_libraries_are_recorded_with_digest_and_signature(place):
    libx = {f"{place}/libx.so": signatures.signature_of("libx.so")}
    made = read_by(place, ran(files=["a.h"], loaded=libx), ran("as"))
    assert kinds(made) == {
        "a.h": SOURCE, "libx.so": LIBRARY, "bin/cc1plus": PROGRAM, "bin/as": PROGRAM, "bin/g++": PROGRAM,
    }  # fmt: skip
    assert made.files == sorted(made.files)
    assert made.digests == [keys.digest_file(path) for path in made.files]
    assert made.signatures == [signatures.signature_of(path) for path in made.files]


def test_an_incomplete_observation_gives_no_input_record(place):
    with pytest.raises(UnreadableError, match="could not be observed: it is static"):
        inputs(place).input_record(Observation([ran()], set(), "it is static"), subject())


def loading(name: str, *paths: str):
    return ran(name, loaded={path: signatures.signature_of(path) for path in paths})


def test_loaded_libraries_are_recorded_as_inputs(place, monkeypatch):
    cached = place / "ld.so.cache"
    cached.write_bytes(b"libx.so\0/lib/libx.so\0")
    monkeypatch.setattr(facts, "CACHE_OF_LOADER", str(cached))
    monkeypatch.setattr(toolchain, "PRELOAD_LIST", f"{place}/preload")
    made = read_by(place, loading("cc1plus", f"{place}/libx.so"))
    assert kinds(made)["libx.so"] == LIBRARY
    assert made.machine == [(LIBRARIES, f"{cached}:libx.so", made.machine[0][2])]
    assert {"LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES"} <= {name for name, _ in made.variables}
    assert changes_since(made) == []
    (place / "libx.so").write_text("y")
    assert changes_since(made) == [("changed", f"{place}/libx.so")]


@pytest.mark.parametrize(
    "appears", ["preload", "early/libx.so", "lib/libx.so", "own/libx.so", "own/glibc-hwcaps"]
)
def test_a_library_appearing_earlier_on_the_search_path_is_a_change(place, monkeypatch, appears):
    """Also one beside another library of the program, where run paths lead."""
    monkeypatch.setattr(toolchain, "PRELOAD_LIST", f"{place}/preload")
    for name in ("early", "lib", "own"):
        (place / name).mkdir()
    (place / "own/liby.so").write_text("")
    process = loading("cc1plus", f"{place}/libx.so", f"{place}/own/liby.so")
    made = read_by(place, process, of=subject(environ={**ENVIRON, "LD_LIBRARY_PATH": f"{place}/early"}))
    assert not [path for what, path in changes_since(made) if what == "appeared"]
    (place / appears).touch()
    assert ("appeared", f"{place}/{appears}") in changes_since(made)


def test_a_library_that_the_loader_rejected_is_read_too(place):
    (place / "early").mkdir()
    (place / "early/libx.so").write_text("for another architecture")
    environ = {**ENVIRON, "LD_LIBRARY_PATH": f"{place}/early"}
    made = read_by(place, loading("cc1plus", f"{place}/libx.so"), of=subject(environ=environ))
    assert kinds(made)["early/libx.so"] == LIBRARY


def test_a_new_library_directory_invalidates_the_record_of_a_tool_identified_by_content(place):
    """Its stage may have run in another toolkit, where the record of the stage has looked."""
    of = subject("ptxas", is_known_by_content=True)
    (place / "libc.so.6").touch()
    made = read_by(place, loading("ptxas", f"{place}/libc.so.6"), of=of)
    assert kinds(made) == {"libc.so.6": LIBRARY}
    assert not {"LD_LIBRARY_PATH", "GLIBC_TUNABLES"} & {name for name, _ in made.variables}
    for record in (made, inputs(place).tool_record(of)):
        assert not [path for what, path in changes_since(record) if what == "appeared"]
        (place / "lib").mkdir()
        assert ("appeared", f"{place}/lib") in changes_since(record)
        (place / "lib").rmdir()


def test_a_tool_identified_by_content_may_read_other_files_only_outside_its_toolkit(place):
    """In another toolkit, the same tool would read other files."""
    of = subject("ptxas", is_known_by_content=True)
    assert read_by(place, ran("ptxas", files=[keys.__file__]), of=of).files == [keys.__file__]
    for process in (ran("ptxas", files=["a.h"]), loading("ptxas", f"{place}/libx.so")):
        with pytest.raises(UnreadableError, match=r"uses `.*(a.h|libx.so)`, which is not in the stage's key"):
            read_by(place, process, of=of)
    with pytest.raises(UnreadableError, match=r"uses `/usr/.*env`, which is not in the stage's key"):
        read_by(place, ran("ptxas"), Process("/usr/bin/env", ["env"]), of=of)


@pytest.mark.parametrize(
    "change",
    [
        lambda: Path("a.h").write_text("int z;"),
        lambda: os.utime("a.h"),
        lambda: os.rename("b.h", "a.h"),
        lambda: os.unlink("a.h"),
        lambda: Path("libx.so").write_text("y"),
    ],
    ids=["rewritten", "touched", "replaced", "gone", "a library"],
)
def test_a_file_that_is_another_than_was_opened_has_no_input_record(place, change):
    process = ran(files=["a.h"], loaded={f"{place}/libx.so": signatures.signature_of("libx.so")})
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    change()
    with pytest.raises(UnreadableError, match="changed during"):
        read_by(place, process)


def test_a_file_that_was_changed_since_the_call_began_has_no_input_record(place):
    """One stage may have read its old content, and another its new one."""
    began = signatures.signature_of("a.h")[4]
    with pytest.raises(UnreadableError, match="changed during"):
        inputs(place, began).input_record(Observation([ran(files=["a.h"])], set()), subject())
    since = began + 21_000_000
    assert inputs(place, since).input_record(Observation([ran(files=["a.h"])], set()), subject())


def test_scratch_files_outputs_and_kernel_files_are_not_recorded_as_inputs(place):
    """Its own files, tools' outputs, inputs in the key, and files that the kernel generates."""
    own = f"{place}/scratch/a.ii"
    process = ran(
        files=[own, "a.h", "b.h", "/proc/self/maps"],
        found={own: FILE, "a.h": FILE},
        absent={f"{place}/scratch/b.ii", "/proc/self/never"},
        links={own},
        listed={f"{place}/scratch"},
        others={"/dev/null": DEVICE},
    )
    made = read_by(place, process, written={"a.h"}, of=subject(known=frozenset({"b.h"})))
    assert kinds(made) == {"bin/cc1plus": PROGRAM, "bin/g++": PROGRAM}
    recorded = [*made.directories, *(path for path, _ in made.links), *made.plain, *made.listings]
    assert not [path for path in recorded if path.startswith((f"{place}/scratch", "/proc"))]


def test_dates_of_different_files_with_equal_content_are_recorded(place):
    """Also of two names of one file, which may be two files later, but not of empty files."""
    (place / "link.h").symlink_to("b.h")
    for name in ("empty.h", "empty2.h"):
        (place / name).touch()
    made = read_by(place, ran(files=["a.h", "copy.h", "b.h", "link.h", "empty.h", "empty2.h"]))
    assert [path for path, _ in made.dates] == ["a.h", "b.h", "copy.h", "link.h"]


def test_temporary_files_and_tmpdir_are_no_inputs(place):
    """Their names are new each time, and any directory will do."""
    environ = {**ENVIRON, "TMPDIR": f"{place}/tmp"}
    (place / "tmp").mkdir()
    temporary = f"{place}/tmp/ccXa3Bq9.s"
    driver = ran(
        "g++",
        variables={"TMPDIR"},
        found={f"{place}/tmp": FOLDER},
        absent={temporary},
        listed={f"{place}/tmp"},
    )
    driver.written.add(temporary)
    reader = ran("as", links={temporary}, absent={f"{temporary}.d/x"})
    written = {temporary, f"{temporary}.d"}
    made = read_by(place, driver, reader, written=written, of=subject(environ=environ))
    bare = read_by(place, ran("g++"), ran("as"), of=subject(environ=environ))
    assert (made.directories, made.names, made.listings) == (bare.directories, bare.names, bare.listings)
    assert (made.plain, made.links) == (bare.plain, bare.links)
    other = ran("cc1plus", found={f"{place}/tmp": FOLDER}, absent={f"{place}/tmp/a.h"})
    names = read_by(place, other, written=written, of=subject(environ=environ)).names
    assert "-a.h" in {name for listed in names for name in listed}


def test_a_file_left_in_tmpdir_prevents_a_record(place):
    left = f"{place}/b.h"
    process = ran("g++", variables={"TMPDIR"}, written={left})
    with pytest.raises(UnreadableError, match="writes"):
        read_by(place, process, written={left}, of=subject(environ={**ENVIRON, "TMPDIR": str(place)}))


def test_variables_that_libc_and_loader_read_are_always_recorded(place):
    assert {name for name, _ in read_by(place, ran()).variables} == {
        *environment.OF_LIBC,
        *environment.OF_LOADER,
    }


def test_gcc_colors_is_an_input_only_if_an_option_asks_for_colours(place):
    wrapper = ran("sh", "-c", 'g++ "$@"')
    for word, counts in (("-fdiagnostics-color=always", True), ("-fdiagnostics-show-caret", False)):
        process = ran("cc1plus", "-quiet", word, variables={"GCC_COLORS", "COLUMNS", "PWD"})
        assert asked(read_by(place, process)) == ({"GCC_COLORS"} if counts else set())
        assert ("GCC_COLORS" in asked(read_by(place, wrapper, process))) == counts


@pytest.mark.parametrize(
    ("text", "compares"),
    [
        ('#pragma GCC dependency "b.h"', True),
        ("#define D dependency", True),
        ('_Pragma("GCC dependency \\"b.h\\"")', True),
        ("int dependency = 1; // GCC: a dependency", False),
    ],
)
def test_a_source_that_may_use_pragma_gcc_dependency_has_no_input_record(place, text, compares):
    (place / "source.cu").write_text(text)
    process = ran(files=["source.cu", "b.h"])
    if compares:
        with pytest.raises(UnreadableError, match=r"`source.cu` may compare the dates"):
            read_by(place, process)
    else:
        assert read_by(place, process).dates == []


def test_listed_directories_are_recorded_if_unchanged(place):
    made = read_by(place, ran("cat", listed={"bin"}))
    assert made.listings == [("bin", presence.digest_of_listing("bin"))]
    time.sleep(0.05)
    call = inputs(place, time.time_ns())
    (place / "bin" / "new").write_text("")
    with pytest.raises(UnreadableError, match="changed during"):
        call.input_record(Observation([ran("cat", listed={"bin"})], set()), subject())
    assert call.input_record(Observation([ran("cat")], set()), subject())


def test_the_path_search_for_the_tool_is_recorded(place):
    made = read_by(place, ran())
    assert (made.sought, made.search_path) == (["g++"], "bin")
    (place / "link").symlink_to("bin/g++")
    made = read_by(place, ran(), of=subject("./link"))
    assert made.links == [("./link", f"{place}/bin/g++")]
    assert kinds(made)["link"] == PROGRAM and made.sought == []


def test_a_tool_replaced_during_the_call_prevents_a_record(place):
    """The tool is in the key by its content, so no other input record names it."""
    time.sleep(0.05)
    began = time.time_ns()
    of = subject("bin/ptxas", is_known_by_content=True)
    assert kinds(inputs(place, began).tool_record(of)) == {"bin/ptxas": PROGRAM}
    time.sleep(0.01)
    (place / "bin/ptxas").write_text("#!/bin/sh")
    with pytest.raises(UnreadableError, match="changed during"):
        inputs(place, began).tool_record(of)


def test_a_file_written_outside_the_scratch_directory_prevents_a_record(place):
    for path in ("log", f"{place}/log", "sub/log"):
        process = ran("cat", written={path, f"{place}/scratch/a.ii", "/dev/null", "/proc/self/comm", "gone"})
        assert read_by(place, process), "it has been removed"
        os.makedirs("sub", exist_ok=True)
        Path(path).write_text("")
        with pytest.raises(UnreadableError, match=f"`cat` writes `{path}`"):
            read_by(place, process)
        os.unlink(path)


def test_modifying_an_existing_file_prevents_a_record(place):
    """A lock is opened in the same way, and stays as it is."""
    own = f"{place}/scratch/a.ii"
    for path in ("a.h", own):
        shown = signatures.signature_of(path)
        assert read_by(place, ran("cat", updated={path: shown, "gone": shown}))
        os.utime(path, (1, 1))
        if path == own:
            assert read_by(place, ran("cat", updated={path: shown}))
        else:
            with pytest.raises(UnreadableError, match=f"`cat` writes `{path}`"):
                read_by(place, ran("cat", updated={path: shown}))


def test_a_tool_that_removes_an_older_file_leaves_no_input_record(place):
    """A file that exists again is a product instead; files in the scratch directory do not count either."""
    assert read_by(place, ran("cat", removed={f"{place}/scratch/a.ii", "a.h"}))
    with pytest.raises(UnreadableError, match="`cat` removes `gone`"):
        read_by(place, ran("cat", removed={"gone"}))


def test_a_file_made_and_removed_by_a_tool_must_be_absent_next_time(place):
    process = ran("cat", absent={"lock"}, written={"lock"})
    made = read_by(place, process, written={"lock"})
    assert ["-lock"] in made.names and "lock" in made.plain, "nor is it a link to nowhere"
    process = ran("g++", absent={"b.h"}, written={"b.h"})
    made = read_by(place, process, written={"b.h"}, of=subject(intermediates=frozenset({"b.h"})))
    assert not any("b.h" in name for names in made.names for name in names), "products are there now"


def test_a_scratch_file_named_through_a_link_is_no_input(place):
    (place / "link").symlink_to("scratch")
    assert read_by(place, ran("cat", written={f"{place}/link/a.ii"}))
    cache = Store(str(place / "cache"))
    call = ObservedInputs(cache, str(place), f"{place}/link", time.time_ns() + LATER, CurrentState({}))
    process = ran("cat", written={f"{place}/scratch/a.ii"}, found={f"{place}/scratch": stat.S_IFDIR | 0o755})
    made = call.input_record(Observation([process], set()), subject())
    assert not any("dscratch" in names for names in made.names)


def test_a_header_looked_up_through_a_link_is_recorded_by_that_link(place):
    """As gcc does with system headers; the links of the path are recorded, so the name need not be."""
    (place / "inc").mkdir()
    (place / "inc" / "h.h").write_text("")
    (place / "way").symlink_to("inc")
    process = ran(files=["inc/h.h"], found={"way/h.h": 0}, links={"way/h.h"})
    made = read_by(place, process)
    assert "way/h.h" not in made.plain
    assert not any("+h.h" in names for names in made.names)

    assert changes_since(made) == []
    (place / "way").unlink()
    (place / "way").mkdir()
    assert ("moved", "way") in changes_since(made)
    (place / "way").rmdir()
    (place / "way").symlink_to("inc")
    assert changes_since(made) == []
    os.rename("inc/h.h", "inc/other.h")
    os.symlink("other.h", "inc/h.h")
    assert ("moved", "inc/h.h") in changes_since(made)


def test_reading_an_intermediate_that_the_command_does_not_name_prevents_a_record(place):
    """A tool that is not understood may have written it, and something else the next time."""
    own = f"{place}/scratch/a.ii"
    for allowed in (None, frozenset({own})):
        made = read_by(place, ran(files=["a.h", own]), of=subject(intermediates=allowed))
        assert kinds(made)["a.h"] == SOURCE
    assert read_by(place, ran(files=[own]), written=[own], of=subject(intermediates=frozenset()))
    with pytest.raises(UnreadableError, match="which is not in the stage's key"):
        read_by(place, ran(files=["a.h", own]), of=subject(intermediates=frozenset()))
