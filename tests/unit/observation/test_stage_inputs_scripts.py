"""Input records of shells, scripts and programs other than compilers."""

from __future__ import annotations

import os
import time

import pytest

from nvccache.environment import WHOLE
from nvccache.files import presence, signatures
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs
from nvccache.records import facts
from nvccache.records.input_records import SOURCE, UnreadableError
from nvccache.store.store import Store
from observed_stages import (
    DEVICE,
    ENVIRON,
    FILE,
    LATER,
    PIPE,
    asked,
    changes_since,
    kinds,
    place,
    ran,
    read_by,
    subject,
)

__all__ = ["place"]  # the fixtures


@pytest.mark.parametrize("name", ["sh", "cat", "wrapper", "python3"])
def test_what_others_than_compilers_look_at_counts_with_content_and_date(place, name):
    argv = ["-c", "x"] if name == "sh" else []
    made = read_by(place, ran(name, *argv, found={"a.h": FILE, "b.h": 0}))
    assert kinds(made)["a.h"] == SOURCE and "b.h" not in kinds(made)
    assert made.dates == [("a.h", presence.status_of("a.h"))]
    made = read_by(place, ran("cc1plus", found={"a.h": FILE}))
    assert "a.h" not in kinds(made) and made.dates == []


def test_of_a_script_the_variables_that_it_names_count(place):
    (place / "script").write_text("exec g++ $FLAGS")
    made = read_by(place, ran("sh", "./script", files=["./script"]))
    assert {"FLAGS", "BASH_ENV"} < asked(made) and WHOLE not in asked(made)
    made = read_by(place, ran("sh", "-c", "exec g++ $OTHER"))
    assert "OTHER" in asked(made)
    (place / "script").write_text("eval x")
    assert asked(read_by(place, ran("sh", "./script", files=["./script"]))) == {WHOLE}


@pytest.mark.parametrize("text", ["", "x" * 4096, None, "long"])
def test_a_shell_of_which_the_script_is_not_known_has_no_input_record(place, text):
    """It came from its standard input, was cut, or the call has made it."""
    (place / "sourced").write_text("x=1")
    (place / "long").write_text("#" * (1 << 20))
    if text == "long":
        process = ran("sh", "long", files=["long"])
    else:
        process = ran("sh", *([] if text is None else ["-c", text] if text else ["made"]), files=["sourced"])
    with pytest.raises(UnreadableError, match="`sh` runs what is not known"):
        read_by(place, process)


@pytest.mark.parametrize(
    "argv",
    [
        ["-s", "--", "-I/usr/local/cuda/include", "-c"],
        ["-s", "script"],
        ["-e"],
        ["-o", "script"],
        ["other", "script"],
        ["-ec", "exec g++"],
        ["-i", "script"],
        ["--login", "script"],
        ["-eo", "noglob", "script"],
    ],
)
def test_the_words_of_a_script_do_not_say_what_the_shell_runs(place, argv):
    (place / "script").write_text("exec g++")
    with pytest.raises(UnreadableError, match="`sh` runs what is not known"):
        read_by(place, ran("sh", *argv, files=["script"]))


def test_a_script_may_be_found_elsewhere(place):
    (place / "bin" / "script").write_text("exec g++ $FLAGS")
    for argv in (["script"], ["./bin/script"], ["bin/../bin/script"]):
        process = ran("sh", *argv, files=[f"{place}/bin/script"])
        assert "FLAGS" in asked(read_by(place, process))


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        *[("/dev/stdin", PIPE), ("/dev/stdin", 0), ("/dev/fd/63", PIPE), ("/proc/self/fd/9", FILE)],
        *[("/proc/77/fd/9", PIPE), ("/proc/self/task/8/fd/9", PIPE), ("pipe", PIPE)],
    ],
)
def test_a_shell_that_reads_what_may_be_text_of_no_file(place, path, mode):
    """Such as `source <(...)`."""
    process = ran("sh", "-c", "x", others={path: mode} if mode else {})
    if not mode:
        process.files[path] = (0, 0, 0, 0, 0)
    with pytest.raises(UnreadableError, match=f"`sh` reads `{path}`"):
        read_by(place, process)
    assert read_by(place, ran("sh", "-c", "x", others={"/dev/null": DEVICE, "/proc/self/status": FILE}))


@pytest.mark.parametrize("name", ["sh", "python3", "wrapper", "cat"])
def test_what_compilers_ignore_counts_for_who_asks_for_it(place, name):
    text = "os.environ['MAKELEVEL']" if name in ("python3", "wrapper") else "exec g++ $MAKELEVEL"
    (place / "script").write_text(text)
    argv = ["script"] if name != "cat" else []
    process = ran(name, *argv, files=argv, variables={"MAKELEVEL", "_"} if not argv else set())
    assert asked(read_by(place, process)) >= {"MAKELEVEL"}
    assert "MAKELEVEL" not in asked(read_by(place, ran("cc1plus", variables={"MAKELEVEL", "TMP"})))


def test_what_the_file_that_a_shell_reads_first_is_called_by(place):
    process = ran("sh", "-c", "exec g++")
    assert WHOLE in asked(read_by(place, process, of=subject(environ={**ENVIRON, "BASH_ENV": "$X/y"})))
    assert WHOLE not in asked(read_by(place, process, of=subject(environ={**ENVIRON, "BASH_ENV": "/y"})))


def test_random_numbers_of_a_shell_are_known_by_their_name(place):
    with pytest.raises(UnreadableError, match="RANDOM"):
        read_by(place, ran("sh", "-c", "echo $RANDOM"))


@pytest.mark.parametrize(
    ("name", "argv", "reason"),
    [
        ("sh", ["-c", "[ one -nt two ]"], "asks for dates"),
        ("sh", ["-c", 'test -O "$x"'], "asks for dates"),
        ("sh", ["-c", "[[ -k one ]]"], "asks for dates"),
        ("sh", ["-c", "[ ! -g one ]"], "asks for dates"),
        ("sh", ["-c", "[ a -ef b ]"], "asks for dates"),
        ("sh", ["-c", "[ -d sub ] && g++ -Og x-nt\ng++ -g -u x"], ""),
        *[(name, [], "asks for the status") for name in ("stat", "ls", "find", "test", "[")],
        ("python3", [], ""),
        ("cat", ["sub"], ""),
    ],
)
def test_who_asks_for_dates_has_no_input_record(place, name, argv, reason):
    (place / "bin" / name).write_text("")
    process = ran(name, *argv, found={"bin": os.stat("bin").st_mode})
    if reason:
        with pytest.raises(UnreadableError, match=reason):
            read_by(place, process)
    else:
        assert read_by(place, process).dates == []


def test_a_shell_that_lists_a_directory_has_no_input_record(place):
    with pytest.raises(UnreadableError, match="`sh` lists `bin`"):
        read_by(place, ran("sh", "-c", "echo bin/*", listed={"bin"}))
    for name in ("python3", "cc1plus"):
        assert [path for path, _ in read_by(place, ran(name, listed={"bin"})).listings] == ["bin"]


@pytest.mark.parametrize(
    ("name", "argv", "counts"),
    [
        *[("cc1plus", [], True), ("wrapper", [], True), ("cat", [], True)],
        *[("sh", ["-c", "exec cicc"], False), ("cicc", [], False), ("ptxas", [], False)],
    ],
)
def test_which_programs_depend_on_directories_being_the_same(place, name, argv, counts):
    """The others each look up their working directory by the name in `PWD`."""
    folder = os.stat(".").st_mode
    made = read_by(place, ran(name, *argv, found={".": folder, str(place): folder}))
    assert made.identities == ([(".", "."), (str(place), ".")] if counts else [])


@pytest.mark.parametrize(
    ("name", "argv", "counts"),
    [
        ("wrapper", [], True),
        ("python3", [], True),
        ("cat", ["a.h"], True),
        ("sh", ["-c", ". a.h"], False),
        ("cc1plus", [], False),
    ],
)
def test_a_program_that_looks_at_the_status_of_a_descriptor(place, name, argv, counts):
    """The process that opened it does not matter: shells pass it on."""
    asks = ran(name, *argv, statuses={signatures.of("a.h")[:2], (1, 1)})
    made = read_by(place, ran("sh", "-c", "true", files=["a.h", "b.h"]), asks)
    assert made.dates == ([("a.h", presence.status_of("a.h"))] if counts else [])


def test_permissions_that_are_asked_for_count(place):
    made = read_by(place, ran("sh", "-c", "[ -r b.h ]", permissions={"b.h", "bin", "gone"}))
    assert [path for path, _ in made.dates] == ["b.h"] and "b.h" in kinds(made)
    assert changes_since(made) == []
    os.chmod("b.h", 0o400)
    assert [path for _, path in changes_since(made)] == ["b.h"]


@pytest.mark.parametrize("name", ["sh", "python3", "cat"])
def test_who_reads_attributes_has_no_input_record(place, name):
    with pytest.raises(UnreadableError, match=f"`{name}` reads attributes of `a.h`"):
        read_by(place, ran(name, "-c", "x", attributes={"a.h"}))
    assert read_by(place, ran("cc1plus", attributes={"a.h"})).dates == []


@pytest.mark.parametrize("name", ["wrapper", "python3", "cat", "sh", "lld"])
def test_who_asks_how_much_room_there_is(place, name):
    (place / "bin" / name).write_text("")
    process = ran(name, *(["-c", "x"] if name == "sh" else []), questions={("statfs", 0, 1)})
    if name in ("wrapper", "python3", "cat"):
        with pytest.raises(UnreadableError, match="asks for the free space of a file system"):
            read_by(place, process)
    else:
        assert read_by(place, process)


@pytest.mark.parametrize(
    ("argv", "depends"),
    [
        (["{}/one/a.cu"], True),
        (["-I{}/one"], True),
        (["{}/one/scratch/a.ii"], False),
        (["a.cu", "/usr"], False),
    ],
)
def test_a_script_whose_arguments_name_the_checkout(place, argv, depends):
    (place / "script").write_text('case $1 in *two*) x=1;; esac\nexec g++ "$@"')
    process = ran("sh", "script", *(word.format(place) for word in argv), files=["script"])
    scratch = f"{place}/one/scratch"
    cache = Store(str(place / "cache"))
    topics = []
    for checkout in (str(place), ""):
        call = ObservedInputs(cache, str(place), scratch, time.time_ns() + LATER, checkout)
        made = call.input_record(Observation([process], set()), subject())
        topics.append([topic for topic, _, _ in made.machine if topic == facts.CHECKOUT])
    assert topics == [[facts.CHECKOUT] if depends else [], []]
    (place / "script").write_text('exec g++ "$@"')
    call = ObservedInputs(cache, str(place), scratch, time.time_ns() + LATER, str(place))
    process.files["script"] = signatures.of("script")
    assert not call.input_record(Observation([process], set()), subject()).machine


def test_who_finds_an_empty_standard_input_depends_on_that(place):
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
