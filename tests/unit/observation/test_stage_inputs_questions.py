"""Queries of the kernel, the clock and the machine, in an input record or as a reason for none."""

from __future__ import annotations

import os

import pytest

from nvccache.files import keys, signatures
from nvccache.observation.observer_log import Observation
from nvccache.records import facts
from nvccache.records.input_records import UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import processor
from observed_stages import DEVICE, FILE, PIPE, inherited_descriptors, inputs, place, ran, read_by, subject

__all__ = ["inherited_descriptors", "place"]  # the fixtures


@pytest.mark.parametrize(
    ("name", "question", "reason"),
    [
        ("cc1plus", ("time", 0, 1), "`cc1plus` asks for the time"),
        ("python3", ("time", 0, 1), "`python3` asks for the time"),
        ("wrapper", ("getrandom", 0, 0), "`wrapper` asks for random numbers"),
        ("cat", ("clock_gettime", 0, 0), "`cat` asks for the time"),
        ("cat", ("getrandom", 0, 0), "`cat` asks for random numbers"),
        ("cc1plus", ("gettimeofday", 0, 1), ""),
        ("cicc", ("time", 0, 1), ""),
        ("ptxas", ("time", 0, 1), ""),
    ],
)
def test_who_asks_for_what_no_input_record_can_tell_has_none(place, name, question, reason):
    process = ran(name, questions={question})
    if reason:
        with pytest.raises(UnreadableError, match=reason):
            read_by(place, process)
    else:
        assert read_by(place, process)


def test_the_file_that_asks_for_the_time_is_named(place):
    (place / "b.h").write_text("const char *t = __TIME__;")
    with pytest.raises(UnreadableError, match=r"\(`b.h` has `__TIME__`\)"):
        read_by(place, ran(files=["a.h", "b.h"], questions={("time", 0, 1)}))


@pytest.mark.parametrize(
    ("path", "mode", "objecting"),
    [
        ("/proc/meminfo", FILE, {"cat", "wrapper"}),
        ("/proc/sys/kernel/hostname", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/uptime", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/environ", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/task/7/environ", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/status", FILE, set()),
        ("/proc/self/maps", FILE, set()),
        ("/sys/kernel/notes", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/cpuinfo", FILE, set()),
        ("/dev/null", DEVICE, set()),
        ("/dev/urandom", DEVICE, {"cat", "wrapper"}),
        ("/dev/stdin", PIPE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/dev/fd/63", PIPE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("pipe", PIPE, {"cat", "wrapper", "cc1plus", "cicc"}),
    ],
)
def test_what_the_kernel_or_a_pipe_says_is_in_no_input_record(place, path, mode, objecting):
    os.mkfifo("pipe")
    found = set()
    for name in ("cat", "wrapper", "cc1plus", "cicc", "ptxas"):
        process = ran(name)
        process.others[path] = mode
        try:
            read_by(place, process)
        except UnreadableError as error:
            assert str(error) == f"`{name}` reads `{path}`"
            found.add(name)
    assert found == objecting


def test_a_program_may_look_up_its_stack_but_not_read_it_as_an_argument(place):
    path = "/proc/self/maps"
    assert read_by(place, ran("grep", "maps", "a.h", others={path: FILE}))
    readers = [
        ran("grep", "x", *argv, others={path: FILE}) for argv in ([path], ["-fproc/self/maps"], ["self"])
    ]
    readers[2].directory = "/proc"
    for process in readers:
        with pytest.raises(UnreadableError, match="`grep` reads `/proc/self/maps`"):
            read_by(place, process)


@pytest.mark.parametrize(
    ("process", "depends"),
    [
        (lambda: ran("g++", "-march=native"), True),
        (lambda: ran("cc1plus", "--param", "l1-cache-size=48"), True),
        (lambda: ran("g++", "-march=x86-64-v3", "-DX=nativeness"), False),
        (lambda: ran("g++", "@options", files=["options"]), True),
        (lambda: ran("clang", files=["clang++.cfg"]), True),
        (lambda: ran("cat", others={"/proc/cpuinfo": FILE}), True),
        (lambda: ran("g++", others={"/sys/devices/system/cpu/online": FILE}), True),
        (lambda: ran("cc1plus", files=["a.h"]), False),
    ],
)
def test_what_depends_on_the_processor_says_so(place, process, depends):
    for name, text in (
        ("options", "-O2 -march=native"),
        ("clang++.cfg", "-mcpu=native\n"),
        ("a.h", 'const char *s = "-march=native";'),
    ):
        (place / name).write_text(text)
    answers = [row for row in read_by(place, process()).machine if row[0] == facts.NATIVE]
    digest = keys.digest_bytes(processor.describe().encode())
    assert answers == ([(facts.NATIVE, "", digest)] if depends else [])


@pytest.mark.parametrize(
    ("name", "argv", "topics"),
    [
        ("cc1plus", [], set()),
        ("cat", [], {facts.HOST, facts.DIRECTORY, facts.CALLER}),
        ("sh", ["-c", "g++"], {facts.HOST}),
        ("sh", ["-c", "eval x"], {facts.HOST, facts.DIRECTORY, facts.CALLER}),
        ("sh", ["-c", "g++ -DX=$(pwd)"], {facts.HOST, facts.DIRECTORY}),
        ("wrapper", [], {facts.HOST, facts.DIRECTORY, facts.CALLER}),
        ("sh", ["-c", "g++ -DX=$(umask)"], {facts.HOST, facts.CALLER}),
        ("sh", ["-c", "[ -w x ] && g++ -x c++ -w x"], {facts.HOST, facts.CALLER}),
        ("sh", ["-c", "g++ -x c++ -w x -t 5"], {facts.HOST}),
    ],
)
def test_programs_that_may_depend_on_the_machine_or_directory_record_it(place, name, argv, topics):
    made = read_by(place, ran(name, *argv, questions={("uname", 0, 0)}))
    assert {topic for topic, _, _ in made.machine} == topics
    assert all(answer for _, _, answer in made.machine)


@pytest.mark.parametrize(
    ("option", "tells"),
    [
        ("-ffile-prefix-map=@=.", True),
        ("-fmacro-prefix-map=/=.", True),
        ("-fdebug-prefix-map=@/src=.", True),
        ("-ffile-prefix-map=@/scratch/tmp=@", False),
        ("-given-prefix-map=@=.", False),
        ("-I@/one", False),
    ],
)
def test_a_wrapper_that_calls_the_checkouts_something_else(place, option, tells):
    """Their texts differ by the new name, and do not contain the checkout's."""
    of = subject(argv=("g++", f"-given-prefix-map={place}=."))
    process = ran("cc1plus", option.replace("@", str(place)))
    made = inputs(place, checkout=str(place)).input_record(Observation([process], set()), of)
    assert [topic for topic, _, _ in made.machine] == [facts.CHECKOUT] * tells


def test_the_working_directory_has_two_names(place, monkeypatch):
    cache = Store(str(place / "cache"))
    here = [facts.answer(facts.DIRECTORY, "", {"PWD": pwd}, cache) for pwd in ("/a", "/b")]
    monkeypatch.chdir(place / "bin")
    here.append(facts.answer(facts.DIRECTORY, "", {"PWD": "/a"}, cache))
    assert len({*here}) == 3


def test_mathematics_depends_on_the_class_if_it_is_libms(place, monkeypatch):
    monkeypatch.setattr(facts, "answer", lambda topic, subject, *_: topic)
    monkeypatch.setattr(facts, "CACHE_OF_LOADER", "missing")
    (place / "libm.so.6").write_text("")
    process = ran("ptxas", loaded={"libm.so.6": signatures.of("libm.so.6")})
    made = read_by(place, process, of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(facts.FEATURES, "", "features")]
    assert read_by(place, process, of=subject("ptxas")).machine == []
    made = read_by(place, ran("ptxas"), of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(facts.NATIVE, "", "native")]


def test_a_fact_without_answer_leaves_no_input_record(place, monkeypatch):
    monkeypatch.setattr(facts, "answer", lambda *_: "")
    with pytest.raises(UnreadableError, match="of the machine"):
        read_by(place, ran("g++", "-march=native"))


def test_what_is_there_for_each_process_decides_nothing(place):
    names = {"/proc/self/never", "/dev/stdin", "/dev/fd/1", "/proc/thread-self/task/7/never"}
    made = read_by(place, ran("wrapper", absent=names))
    assert not any(set(made.directories) & {"/proc", "/proc/self", "/dev", "/dev/fd"})


@pytest.mark.parametrize(
    ("name", "argv", "looks", "reason"),
    [
        ("bash", "-c x", {"absent": {"/dev/fd/18"}}, "looks at `/dev/fd/18`"),
        ("cc1plus", "", {"absent": {"/proc/self//fd/18/x"}}, "looks at `/proc/self//fd/18/x`"),
        ("wrapper", "", {"links": {"/proc/thread-self/fd/9"}}, "looks at `/proc/thread-self/fd/9`"),
        ("cat", "", {"absent": {"/dev/fd/2"}}, ""),
        ("bash", "-c x", {"listed": {"/dev/fd/"}}, "lists `/dev/fd/`"),
        ("wrapper", "", {"listed": {"/proc/self/fd"}}, ""),  # to close all of them
        ("wrapper", "/proc/self/fd", {"listed": {"/proc/self/fd"}}, "lists `/proc/self/fd`"),
        ("bash", "-c x", {"uses_descriptor": True}, "uses a descriptor of its caller"),
        ("wrapper", "", {"uses_descriptor": True}, "uses a descriptor of its caller"),
        ("cc1plus", "", {"uses_descriptor": True}, ""),
        ("cc1plus", "", {"inputs": {"9"}}, "reads descriptor 9, which its caller opened"),
    ],
)
def test_a_program_that_looks_which_descriptors_are_open_has_no_input_record(
    place, inherited_descriptors, name, argv, looks, reason
):
    number, file = inherited_descriptors
    assert number == 9
    (place / "bin" / "bash").write_text("")
    process = ran(name, *argv.split(), **looks)
    process.inputs = {file for _ in process.inputs}
    if reason:
        with pytest.raises(UnreadableError, match=reason):
            read_by(place, process)
    else:
        assert read_by(place, process)


def test_what_is_in_dev_and_made_by_the_kernel_decides_by_being_there(place):
    made = read_by(
        place, ran("wrapper", absent={"/dev/never", "/sys/never/x"}, found={"/proc/version": FILE})
    )
    names = dict(zip(made.directories, made.names, strict=True))
    assert names["/dev"] == ["-never"] and "-never" in names["/sys"] and "+version" in names["/proc"]
    assert "/proc/version" not in made.files


@pytest.mark.parametrize("how", ["found", "absent"])
def test_who_looks_at_another_process_has_no_input_record(place, how):
    looked = {"/proc/1/cgroup": FILE} if how == "found" else {"/proc/1/cgroup"}
    with pytest.raises(UnreadableError, match="`/proc/1/cgroup` is of another process"):
        read_by(place, ran("wrapper", **{how: looked}))


def test_who_leads_up_within_proc_has_no_input_record(place):
    name = "/proc/self/task/../cwd/a.h"
    with pytest.raises(UnreadableError, match="is not known"):
        read_by(place, ran("cc1plus", absent={name}))
    with pytest.raises(UnreadableError, match="`cc1plus` reads"):
        read_by(place, ran("cc1plus", others={name: FILE}))
