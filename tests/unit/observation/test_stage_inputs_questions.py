"""What a stage sees of the kernel, the machine, and the status of files, in its input record."""

from __future__ import annotations

import os

import pytest

from nvccache.files import presence, signatures
from nvccache.records import facts
from nvccache.records.input_records import SOURCE, UnreadableError
from observed_stages import FILE, changes_since, kinds, place, ran, read_by, subject

__all__ = ["place"]  # the fixtures


def test_another_pwd_or_real_directory_changes_the_recorded_working_directory(place, monkeypatch):
    here = [facts.answer(facts.DIRECTORY, "", {"PWD": pwd}) for pwd in ("/a", "/b")]
    monkeypatch.chdir(place / "bin")
    here.append(facts.answer(facts.DIRECTORY, "", {"PWD": "/a"}))
    assert len({*here}) == 3


def test_the_processor_class_is_an_input_of_ptxas_if_it_folds_constants_with_libm(place, monkeypatch):
    monkeypatch.setattr(facts, "answer", lambda topic, subject, *_: topic)
    monkeypatch.setattr(facts, "CACHE_OF_LOADER", "missing")
    (place / "libm.so.6").write_text("")
    process = ran("ptxas", loaded={"libm.so.6": signatures.signature_of("libm.so.6")})
    made = read_by(place, process, of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(facts.FEATURES, "", "features")]
    assert read_by(place, process, of=subject("ptxas")).machine == []
    made = read_by(place, ran("ptxas"), of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(facts.NATIVE, "", "native")]


def test_a_machine_property_that_cannot_be_read_prevents_an_input_record(place, monkeypatch):
    monkeypatch.setattr(facts, "answer", lambda *_: "")
    with pytest.raises(UnreadableError, match="fact of this machine"):
        read_by(place, ran("g++", "-march=native"))


def test_lookups_below_proc_self_are_not_recorded(place):
    names = {"/proc/self/never", "/dev/stdin", "/dev/fd/1", "/proc/thread-self/task/7/never", "/proc/1/x"}
    made = read_by(place, ran("wrapper", absent=names))
    assert not any(set(made.directories) & {"/proc", "/proc/self", "/dev", "/dev/fd"})


def test_lookups_in_dev_sys_and_proc_are_recorded_by_existence_only(place):
    made = read_by(
        place, ran("wrapper", absent={"/dev/never", "/sys/never/x"}, found={"/proc/version": FILE})
    )
    names = dict(zip(made.directories, made.names, strict=True))
    assert names["/dev"] == ["-never"] and "-never" in names["/sys"] and "+version" in names["/proc"]
    assert "/proc/version" not in made.files


def test_a_path_with_dot_dot_below_proc_prevents_a_record(place):
    with pytest.raises(UnreadableError, match="`cc1plus` reads"):
        read_by(place, ran("cc1plus", others={"/proc/self/task/../cwd/a.h": FILE}))


@pytest.mark.parametrize("name", ["sh", "cat", "wrapper", "python3"])
def test_files_that_unknown_programs_look_up_count_with_content_and_date(place, name):
    argv = ["-c", "x"] if name == "sh" else []
    made = read_by(place, ran(name, *argv, found={"a.h": FILE, "b.h": 0}))
    assert kinds(made)["a.h"] == SOURCE and "b.h" not in kinds(made)
    assert made.dates == [("a.h", presence.status_of("a.h"))]
    made = read_by(place, ran("cc1plus", found={"a.h": FILE}))
    assert "a.h" not in kinds(made) and made.dates == []


@pytest.mark.parametrize(
    ("name", "argv", "counts"),
    [("wrapper", [], True), ("cat", ["a.h"], True), ("sh", ["-c", ". a.h"], False), ("cc1plus", [], False)],
)
def test_dates_of_opened_files_are_inputs_if_an_unknown_program_may_ask_for_them(place, name, argv, counts):
    """The process that opened it does not matter: shells pass it on."""
    made = read_by(place, ran("sh", "-c", "true", files=["a.h"]), ran("g++", files=["b.h"]), ran(name, *argv))
    assert made.dates == ([("a.h", presence.status_of("a.h"))] if counts else [])


def test_permissions_that_a_script_tests_are_inputs(place):
    made = read_by(place, ran("sh", "-c", "[ -r b.h ]", permissions={"b.h", "bin", "gone"}))
    assert [path for path, _ in made.dates] == ["b.h"] and "b.h" in kinds(made)
    assert changes_since(made) == []
    os.chmod("b.h", 0o400)
    assert [path for _, path in changes_since(made)] == ["b.h"]


def test_reading_empty_standard_input_is_recorded_as_an_input(place):
    kept = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    reads, writes = os.pipe()
    try:
        os.dup2(nothing, 0)
        status = os.fstat(0)
        process = ran("cat", inputs={(status.st_dev, status.st_ino)})
        made = read_by(place, process)
        assert changes_since(made) == []
        assert not [path for path, _ in read_by(place, ran("cat", inputs={(1, 2)})).links if "fd" in path]
        os.dup2(reads, 0)
        assert changes_since(made) == [("moved", "/proc/self/fd/0")]
        assert made.links[-1] not in read_by(place, process).links, "a tool has read /dev/null by its name"
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, nothing, reads, writes):
            os.close(descriptor)
