"""From what a stage was observed to do to an input record, or to a reason why there can be none."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.environment import WHOLE
from nvccache.files import keys, presence, signatures
from nvccache.observation.observed_process import Process
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.records import differences, machine_facts
from nvccache.records.input_records import LIBRARIES, LIBRARY, PROGRAM, SOURCE, InputRecord, UnreadableError
from nvccache.store.store import Store
from nvccache.toolkit import loader, processor
from nvccache.toolkit.loader import Loaded

LATER = 60 * 10**9  # nanoseconds
ENVIRON = {"PATH": "bin", "CPATH": "inc", "SECRET": "1"}
FILE, PIPE, DEVICE = stat.S_IFREG | 0o644, stat.S_IFIFO | 0o644, stat.S_IFCHR | 0o666
PROGRAMS = ("cc1plus", "g++", "as", "cudafe++", "cicc", "ptxas", "sh", "python3", "cat", "wrapper", "clang")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """`a.h` and its copy `copy.h`, a library, and programs that need nothing, whatever they are called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        (tmp_path / "bin" / name).write_text(name)
        (tmp_path / "bin" / name).chmod(0o755)
    for name, text in (("a.h", "int a;"), ("copy.h", "int a;"), ("b.h", "int b;"), ("libx.so", "x")):
        (tmp_path / name).write_text(text)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "a.ii").write_text("")
    monkeypatch.setattr(loader, "of_program", lambda *_: Loaded(""))
    return tmp_path


def inputs(place: Path, since_ns: int = 0) -> ObservedInputs:
    cache = Store(str(place / "cache"))
    return ObservedInputs(cache, str(place), f"{place}/scratch", since_ns or time.time_ns() + LATER)


def subject(word: str = "g++", environ=ENVIRON, **more) -> Subject:
    return Subject(environ, word, **more)


def ran(name: str = "cc1plus", *argv: str, files=(), **seen) -> Process:
    """A process that has read these files as they are now."""
    program = os.path.realpath(f"bin/{name}")
    read = {path: signatures.of(path) for path in files}
    return Process(program, [name, *argv], os.getcwd(), files=read, **seen)


def read_by(place: Path, *processes: Process, written=(), of: Subject | None = None) -> InputRecord:
    return inputs(place).input_record(Observation([*processes], {*written}), of or subject())


def kinds(made: InputRecord) -> dict[str, str]:
    return {os.path.relpath(path): kind for path, kind in zip(made.files, made.kinds, strict=True)}


def asked(made: InputRecord) -> set[str]:
    return {name for name, _ in made.variables} - {
        *environment.OF_LIBC,
        *environment.OF_LOADER,
        *environment.OF_DATES,
    }


def test_files_programs_and_libraries_are_read_with_what_they_hold(place):
    libx = {f"{place}/libx.so": signatures.of("libx.so")}
    made = read_by(place, ran(files=["a.h"], loaded=libx), ran("as"))
    assert kinds(made) == {
        "a.h": SOURCE, "libx.so": LIBRARY, "bin/cc1plus": PROGRAM, "bin/as": PROGRAM, "bin/g++": PROGRAM,
    }  # fmt: skip
    assert made.files == sorted(made.files)
    assert made.digests == [keys.digest_file(path) for path in made.files]
    assert made.signatures == [signatures.of(path) for path in made.files]
    assert made.is_observed


def test_what_was_not_observed_in_full_has_no_input_record(place):
    with pytest.raises(UnreadableError, match="could not be observed: it is static"):
        inputs(place).input_record(Observation([ran()], set(), "it is static"), subject())


def test_what_the_loader_does_unseen_is_read_too(place, monkeypatch):
    known = Loaded(
        "ld.so", (f"{place}/libx.so",), (f"{place}/first/libx.so",), "/x/ld.so.cache", ("libx.so",)
    )
    monkeypatch.setattr(loader, "of_program", lambda *_: known)
    monkeypatch.setattr(machine_facts, "answer", lambda *_: "an answer")
    made = read_by(place, ran())
    assert kinds(made)["libx.so"] == LIBRARY
    assert (str(place), ["-first"]) in list(zip(made.directories, made.names, strict=True))
    assert made.machine == [(LIBRARIES, "/x/ld.so.cache:libx.so", "an answer")]


def test_a_program_whose_libraries_are_not_known_has_no_input_record(place, monkeypatch):
    monkeypatch.setattr(loader, "of_program", lambda *_: Loaded("", is_known=False))
    with pytest.raises(UnreadableError, match="libraries"):
        read_by(place, ran())


@pytest.mark.parametrize("change", ["rewritten", "touched", "replaced", "gone"])
def test_a_file_that_is_another_than_was_opened_has_no_input_record(place, change):
    process = ran(files=["a.h"])
    time.sleep(0.02)  # the clock that stamps files ticks every few milliseconds
    if change == "rewritten":
        (place / "a.h").write_text("int z;")
    elif change == "touched":
        os.utime("a.h")
    elif change == "replaced":
        (place / "b.h").rename("a.h")
    else:
        os.unlink("a.h")
    with pytest.raises(UnreadableError, match="changed while"):
        read_by(place, process)


def test_a_file_that_was_changed_since_the_call_began_has_no_input_record(place):
    """One stage may have read what it held before, and another what it holds now."""
    began = signatures.of("a.h")[4]
    with pytest.raises(UnreadableError, match="changed while"):
        inputs(place, began).input_record(Observation([ran(files=["a.h"])], set()), subject())
    since = began + 21_000_000
    assert inputs(place, since).input_record(Observation([ran(files=["a.h"])], set()), subject())


def test_a_library_that_is_another_by_now_has_no_input_record(place):
    with pytest.raises(UnreadableError, match="changed while"):
        read_by(place, ran(loaded={f"{place}/libx.so": (1, 2, 3, 4, 5)}))


def test_a_date_in_the_future_is_no_change(place):
    os.utime("a.h", (time.time() + 1e6, time.time() + 1e6))
    assert "a.h" in kinds(read_by(place, ran(files=["a.h"])))


def test_what_belongs_to_the_call_is_left_out(place):
    """Its own files, those that the tools have written, what is in the key, and what the kernel makes up."""
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
    told = [*made.directories, *(path for path, _ in made.links), *made.plain, *made.listings]
    assert not [path for path in told if "scratch" in path or path.startswith("/proc")]


def test_copies_are_told_with_whether_gcc_would_take_one_for_the_other(place):
    os.utime("a.h", (5, 5))
    os.utime("copy.h", (5, 5))
    assert read_by(place, ran(files=["a.h", "b.h", "copy.h"])).duplicates == [("a.h", "copy.h", "10")]
    os.utime("copy.h", (6, 6))
    assert read_by(place, ran(files=["a.h", "copy.h"])).duplicates == [("a.h", "copy.h", "00")]


@pytest.mark.parametrize("name", ["sh", "cat", "wrapper", "python3"])
def test_what_others_than_compilers_look_at_counts_with_content_and_date(place, name):
    argv = ["-c", "x"] if name == "sh" else []
    made = read_by(place, ran(name, *argv, found={"a.h": FILE, "b.h": 0}))
    assert kinds(made)["a.h"] == SOURCE and "b.h" not in kinds(made)
    assert made.dates == [("a.h", presence.status_of("a.h"))]
    made = read_by(place, ran("cc1plus", found={"a.h": FILE}))
    assert "a.h" not in kinds(made) and made.dates == []


@pytest.mark.parametrize(
    ("name", "argv", "wanted"),
    [
        ("cc1plus", [], {"CPATH"}),
        ("ptxas", [], {"CPATH"}),
        ("cat", [], {"CPATH"}),
        ("wrapper", [], {WHOLE}),
        ("python3", [], {WHOLE}),
    ],
)
def test_variables_count_that_were_asked_for(place, name, argv, wanted):
    made = read_by(place, ran(name, *argv, variables={"CPATH", "PATH", "TMPDIR", "NVCCACHE_DIR"}))
    assert wanted <= asked(made) <= {WHOLE, "CPATH"}
    assert dict(made.variables) == {name: environment.digest_of(name, ENVIRON) for name, _ in made.variables}
    assert (WHOLE in asked(made)) == (len(made.variables) == 1), "all of them is all of them"


def test_what_the_c_library_heeds_unseen_counts_always(place):
    assert {name for name, _ in read_by(place, ran()).variables} == {
        *environment.OF_LIBC,
        *environment.OF_LOADER,
    }


def test_colours_count_where_an_option_asks_for_them(place):
    process = ran(variables={"GCC_COLORS", "COLUMNS", "PWD"})
    assert asked(read_by(place, process)) == set()
    assert asked(read_by(place, process, of=subject(asks_for_colours=True))) == {"GCC_COLORS"}


def test_of_a_script_the_variables_that_it_names_count(place):
    (place / "script").write_text("exec g++ $FLAGS")
    made = read_by(place, ran("sh", "./script", files=["./script"]))
    assert {"FLAGS", "BASH_ENV"} < asked(made) and WHOLE not in asked(made)
    made = read_by(place, ran("sh", "-ec", "exec g++ $OTHER"))
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
    with pytest.raises(UnreadableError, match="what `sh` runs is not known"):
        read_by(place, process)


@pytest.mark.parametrize(
    "argv",
    [
        ["-s", "--", "-I/usr/local/cuda/include", "-c"],
        ["-s", "script"],
        ["-e"],
        ["-o", "script"],
        ["other", "script"],
    ],
)
def test_the_words_of_a_script_do_not_say_what_the_shell_runs(place, argv):
    (place / "script").write_text("exec g++")
    with pytest.raises(UnreadableError, match="what `sh` runs is not known"):
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
    """`source <(...)`."""
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
    process = ran(name, *argv, files=argv, variables={"MAKELEVEL", "TMPDIR", "_"} if not argv else ())
    assert asked(read_by(place, process)) >= {"MAKELEVEL"}
    assert "TMPDIR" not in asked(read_by(place, process))
    assert "MAKELEVEL" not in asked(read_by(place, ran("cc1plus", variables={"MAKELEVEL", "TMP"})))


def test_what_the_file_that_a_shell_reads_first_is_called_by(place):
    process = ran("sh", "-c", "exec g++")
    assert WHOLE in asked(read_by(place, process, of=subject(environ={**ENVIRON, "BASH_ENV": "$X/y"})))
    assert WHOLE not in asked(read_by(place, process, of=subject(environ={**ENVIRON, "BASH_ENV": "/y"})))


@pytest.mark.parametrize(
    ("name", "question", "reason"),
    [
        ("cc1plus", ("time", 0, 1), "`cc1plus` asks for the time"),
        ("python3", ("time", 0, 1), "`python3` asks for the time"),
        ("wrapper", ("getrandom", 0, 0), "`wrapper` asks for random numbers"),
        ("cat", ("clock_gettime", 0, 0), "`cat` asks for the time"),
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


def test_random_numbers_of_a_shell_are_known_by_their_name(place):
    with pytest.raises(UnreadableError, match="RANDOM"):
        read_by(place, ran("sh", "-c", "echo $RANDOM"))


@pytest.mark.parametrize(
    ("path", "mode", "objecting"),
    [
        ("/proc/meminfo", 0, {"cat", "wrapper"}),
        ("/proc/sys/kernel/hostname", 0, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/uptime", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/environ", 0, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/task/7/environ", 0, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/self/status", 0, set()),
        ("/proc/self/maps", FILE, set()),
        ("/sys/class/net/eth0/address", FILE, {"cat", "wrapper", "cc1plus", "cicc"}),
        ("/proc/cpuinfo", FILE, set()),
        ("/dev/null", DEVICE, set()),
        ("/dev/urandom", DEVICE, {"cat", "wrapper"}),
        ("/dev/stdin", PIPE, {"cc1plus", "cicc"}),
        ("/dev/fd/63", PIPE, {"cc1plus", "cicc"}),
        ("pipe", PIPE, {"cc1plus", "cicc"}),
    ],
)
def test_what_the_kernel_or_a_pipe_says_is_in_no_input_record(place, path, mode, objecting):
    os.mkfifo("pipe")
    found = set()
    for name in ("cat", "wrapper", "cc1plus", "cicc", "ptxas"):
        process = ran(name)
        if mode:
            process.others[path] = mode
        else:
            process.files[path] = (0, 0, 0, 0, 0)
        try:
            read_by(place, process)
        except UnreadableError as error:
            assert str(error) == f"`{name}` reads `{path}`"
            found.add(name)
    assert found == objecting


@pytest.mark.parametrize(
    ("process", "depends"),
    [
        (lambda: ran("g++", "-march=native"), True),
        (lambda: ran("cc1plus", "--param", "l1-cache-size=48"), True),
        (lambda: ran("g++", "-march=x86-64-v3", "-DX=nativeness"), False),
        (lambda: ran("g++", "@options", files=["options"]), True),
        (lambda: ran("g++", "@outer", files=["outer", "options"]), True),
        (lambda: ran("g++", "@plain", files=["plain"]), False),
        (lambda: ran("clang", files=["clang++.cfg"]), True),
        (lambda: ran("cat", others={"/proc/cpuinfo": FILE}), True),
        (lambda: ran("g++", others={"/sys/devices/system/cpu/online": FILE}), True),
        (lambda: ran("cc1plus", files=["a.h"]), False),
    ],
)
def test_what_depends_on_the_processor_says_so(place, process, depends):
    for name, text in (
        ("options", "-O2 -march=native"),
        ("outer", "-O2\n@options -O3"),
        ("plain", "-O2 @options"),  # it was not opened
        ("clang++.cfg", "-mcpu=native\n"),
        ("a.h", 'const char *s = "-march=native";'),
    ):
        (place / name).write_text(text)
    answers = read_by(place, process()).machine
    digest = keys.digest_bytes(processor.describe().encode())
    assert answers == ([(machine_facts.NATIVE, "", digest)] if depends else [])


@pytest.mark.parametrize(
    ("name", "argv", "topics"),
    [
        ("cc1plus", [], set()),
        ("cat", [], set()),
        ("sh", ["-c", "g++"], {machine_facts.HOST}),
        ("sh", ["-c", "g++ -DX=$(pwd)"], {machine_facts.HOST, machine_facts.DIRECTORY}),
        ("wrapper", [], {machine_facts.HOST, machine_facts.DIRECTORY, machine_facts.CALLER}),
        ("sh", ["-c", "g++ -DX=$(umask)"], {machine_facts.HOST, machine_facts.CALLER}),
        ("sh", ["-c", "[ -w x ] && g++ -x c++ -w x"], {machine_facts.HOST, machine_facts.CALLER}),
        ("sh", ["-c", "g++ -x c++ -w x -t 5"], {machine_facts.HOST}),
    ],
)
def test_who_may_have_been_told_of_the_machine_and_the_directory_says_so(place, name, argv, topics):
    made = read_by(place, ran(name, *argv, questions={("uname", 0, 0)}))
    assert {topic for topic, _, _ in made.machine} == topics
    assert all(answer for _, _, answer in made.machine)


def test_the_working_directory_has_two_names(place, monkeypatch):
    cache = Store(str(place / "cache"))
    here = [machine_facts.answer(machine_facts.DIRECTORY, "", {"PWD": pwd}, cache) for pwd in ("/a", "/b")]
    monkeypatch.chdir(place / "bin")
    here.append(machine_facts.answer(machine_facts.DIRECTORY, "", {"PWD": "/a"}, cache))
    assert len({*here}) == 3


def test_mathematics_depends_on_the_class_that_each_loader_shows(place, monkeypatch):
    monkeypatch.setattr(machine_facts, "answer", lambda topic, subject, *_: f"{topic}{subject}")
    monkeypatch.setattr(processor, "features", lambda *_, **__: "")
    known = Loaded("/lib/ld.so", (f"{place}/libm.so.6",))
    (place / "libm.so.6").write_text("")
    monkeypatch.setattr(loader, "of_program", lambda *_: known)
    made = read_by(place, ran("ptxas"), of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(machine_facts.FEATURES, "/lib/ld.so", "features/lib/ld.so")]
    assert read_by(place, ran("ptxas"), of=subject("ptxas")).machine == []
    monkeypatch.setattr(loader, "of_program", lambda *_: Loaded(""))
    made = read_by(place, ran("ptxas"), of=subject("ptxas", folds_mathematics=True))
    assert made.machine == [(machine_facts.NATIVE, "", "native")]


def test_a_question_that_nobody_answers_leaves_no_input_record(place, monkeypatch):
    monkeypatch.setattr(machine_facts, "answer", lambda *_: "")
    with pytest.raises(UnreadableError, match="of the machine"):
        read_by(place, ran("g++", "-march=native"))


def test_directories_that_were_listed_are_told_if_they_are_as_they_were(place):
    made = read_by(place, ran("cat", listed={"bin"}))
    assert made.listings == [("bin", presence.digest_of_listing("bin"))]
    time.sleep(0.05)
    call = inputs(place, time.time_ns())
    (place / "bin" / "new").write_text("")
    with pytest.raises(UnreadableError, match="changed while"):
        call.input_record(Observation([ran("cat", listed={"bin"})], set()), subject())
    assert call.input_record(Observation([ran("cat")], set()), subject())


def test_the_tool_is_looked_for_as_it_was_called(place):
    made = read_by(place, ran())
    assert (made.sought, made.search_path) == (["g++"], "bin")
    (place / "link").symlink_to("bin/g++")
    made = read_by(place, ran(), of=subject("./link"))
    assert made.links == [("./link", f"{place}/bin/g++")]
    assert kinds(made)["link"] == PROGRAM and made.sought == []


def test_a_file_of_a_record_is_not_read_again(place):
    call = inputs(place)
    call.input_record(Observation([ran(files=["a.h"])], set()), subject())
    call.files.remember()
    second = inputs(place)
    made = second.input_record(Observation([ran(files=["a.h"])], set()), subject())
    assert made.digests == [keys.digest_file(path) for path in made.files]
    assert list(Path(place, "cache").glob("digest-*/*/*"))


def test_a_tool_that_is_not_watched_depends_on_all_of_the_environment(place):
    known = Loaded("ld.so", (f"{place}/libx.so",), (f"{place}/first/libx.so",))
    for word in ("ptxas", "bin/ptxas", f"{place}/bin/ptxas"):
        made = inputs(place).assumed(subject(word, loaded=known), "why")
        assert made.variables == [(WHOLE, environment.digest_of(WHOLE, ENVIRON))]
        assert (made.files, made.is_observed) == ([], False), "the rest is in its key"
        with pytest.raises(UnreadableError, match="could not be observed: why"):
            inputs(place).assumed(subject(word), "why")


def test_a_tool_that_is_known_by_its_content_belongs_to_the_call(place):
    known = Loaded("ld.so", (f"{place}/libx.so",), (f"{place}/first/libx.so",))
    made = inputs(place).of_tool(subject("bin/ptxas", loaded=known))
    assert kinds(made) == {"bin/ptxas": PROGRAM, "libx.so": LIBRARY}
    assert "-first" in made.names[made.directories.index(str(place))]
    assert inputs(place).of_tool(subject("bin/ptxas")).files == [], "it is in the stage's own input record"


def two_stages(place: Path) -> tuple[ObservedInputs, list[InputRecord]]:
    call = inputs(place)
    one = ran(files=["a.h"], absent={"never.h"}, variables={"CPATH"}, links={"linked"})
    other = ran(
        "cat", files=["b.h"], absent={"other.h"}, variables={"SECRET"}, listed={"bin"}, found={"a.h": FILE}
    )
    (place / "linked").symlink_to("a.h")
    return call, [call.input_record(Observation([process], set()), subject()) for process in (one, other)]


def test_a_call_has_read_what_each_of_its_stages_did(place):
    call, parts = two_stages(place)
    made = call.union(parts, ENVIRON, ["copy.h"])
    assert kinds(made) == {
        "a.h": SOURCE, "b.h": SOURCE, "copy.h": SOURCE,
        "bin/cat": PROGRAM, "bin/cc1plus": PROGRAM, "bin/g++": PROGRAM,
    }  # fmt: skip
    assert dict(zip(made.directories, made.names, strict=True))["."] == ["+linked", "-never.h", "-other.h"]
    assert asked(made) == {"CPATH", "SECRET"}
    assert {path for path, _ in made.links} == {"linked"}
    assert {"bin"} == {directory for directory, _ in made.listings}
    assert made.dates == parts[1].dates != []
    assert (made.sought, made.search_path) == (["g++"], "bin")
    assert differences.differences(made, differences.Present(ENVIRON), False, lambda *_: "") == []


def test_the_variables_of_a_call_are_those_that_it_was_given(place):
    """nvcc sets some for its tools, as its profile says."""
    call, parts = two_stages(place)
    given = {"CPATH": "other", "PATH": "/usr/bin"}
    made = call.union(parts, given)
    assert dict(made.variables)["CPATH"] == environment.digest_of("CPATH", given)
    assert not environment.is_set(dict(made.variables)["SECRET"])
    assert made.search_path == "/usr/bin"


def test_the_whole_environment_stands_for_all_variables(place):
    call, parts = two_stages(place)
    parts.append(call.input_record(Observation([ran("wrapper")], set()), subject()))
    assert call.union(parts, ENVIRON).variables == [(WHOLE, environment.digest_of(WHOLE, ENVIRON))]


def test_what_a_stage_read_that_was_not_run_is_taken_with_its_digests(place):
    """It held a moment ago; what has changed since the call began would show."""
    made = InputRecord()
    made.files, made.kinds, made.digests, made.signatures = ["a.h"], SOURCE, ["7" * 32], [signatures.UNKNOWN]
    found = inputs(place).union([made], ENVIRON)
    assert (found.digests, found.signatures) == (["7" * 32], [signatures.of("a.h")])
    with pytest.raises(UnreadableError, match="changed while"):
        inputs(place, signatures.of("a.h")[4]).union([made], ENVIRON)


def test_a_call_of_no_stages_has_read_nothing(place):
    made = inputs(place).union([], ENVIRON)
    assert (made.files, made.directories, made.variables, made.search_path) == ([], [], [], "")


TESTS = {"-nt": "[ one -nt two ]", "-O": 'test -O "$x"', "-k": "[[ -k one ]]"}


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        *[("sh", ["-c", text]) for text in TESTS.values()],
        *[("stat", ["sub"]), ("ls", ["-td"]), ("ls", ["-a", "--time=ctime"])],
        *[("find", [".", "-newer", "x"]), ("find", [".", "-mtime", "1"]), ("find", [".", "-printf", "%T@"])],
    ],
)
@pytest.mark.parametrize("what", ["directory", "FIFO", "link"])
def test_who_looks_at_the_whole_status_of_what_is_no_file(place, name, argv, what):
    make = {"directory": os.mkdir, "FIFO": os.mkfifo, "link": lambda path: os.symlink("a.h", path)}[what]
    make("sub")
    (place / "bin" / name).write_text("")
    mode = 0 if what == "link" else os.stat("sub").st_mode
    process = ran(name, *argv, found={"sub": mode}, links={"sub"} if what == "link" else set())
    made = read_by(place, process)
    assert [path for path, _ in made.dates] == ["sub"]
    answers = {(topic, what): answer for topic, what, answer in made.machine}

    def unlike() -> list[tuple[str, str]]:
        found = differences.differences(
            made, differences.Present(ENVIRON), False, lambda *asked: answers[asked]
        )
        return [(one.what, one.path) for one in found]

    assert unlike() == []
    os.utime("sub", (1, 1), follow_symlinks=False)
    assert unlike() == [("redated", "sub")]


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        *[("sh", ["-c", "[ -d sub ] && g++ -Og x-nt"]), ("cat", ["sub"]), ("python3", [])],
        *[("ls", ["-a", "sub-t"]), ("ls", ["-Fpd1", "--directory"]), ("find", [".", "-name", "*.h"])],
    ],
)
def test_who_does_not_look_at_it(place, name, argv):
    (place / "sub").mkdir()
    (place / "bin" / name).write_text("")
    assert read_by(place, ran(name, *argv, found={"sub": os.stat("sub").st_mode})).dates == []


def test_where_a_shell_works_is_not_what_it_tests(place):
    """It looks at these when it starts, and a directory changes with each product."""
    (place / "sub").mkdir()
    mode = os.stat("sub").st_mode
    found = dict.fromkeys((".", str(place), f"{place}/sub"), mode)
    process = ran("sh", "-c", "[ one -nt two ]", found=found)
    of = subject(environ={**ENVIRON, "PWD": str(place), "OLDPWD": f"{place}/sub"})
    assert read_by(place, process, of=of).dates == []


def test_a_directory_that_was_tested_and_has_changed_meanwhile_has_no_input_record(place):
    for path in ("sub", "linked"):
        os.mkdir("sub") if path == "sub" else os.symlink("a.h", "linked")
        call = inputs(place, os.lstat(path).st_ctime_ns)
        mode = os.stat("sub").st_mode if path == "sub" else 0
        process = ran("sh", "-c", "[ x -nt y ]", found={path: mode}, links={"linked"})
        with pytest.raises(UnreadableError, match="changed while"):
            call.input_record(Observation([process], set()), subject())


def test_what_is_made_elsewhere_and_stays_is_a_product_that_no_record_has(place):
    for path in ("log", f"{place}/log", "sub/log"):
        process = ran("cat", written={path, f"{place}/scratch/a.ii", "/dev/null", "/proc/self/comm", "gone"})
        assert read_by(place, process), "it has been removed"
        os.makedirs("sub", exist_ok=True)
        Path(path).write_text("")
        with pytest.raises(UnreadableError, match=f"`cat` writes `{path}`"):
            read_by(place, process)
        os.unlink(path)


def test_scratch_files_may_be_named_through_links(place):
    (place / "link").symlink_to("scratch")
    assert read_by(place, ran("cat", written={f"{place}/link/a.ii"}))
    cache = Store(str(place / "cache"))
    call = ObservedInputs(cache, str(place), f"{place}/link", time.time_ns() + LATER)
    assert call.input_record(Observation([ran("cat", written={f"{place}/scratch/a.ii"})], set()), subject())


@pytest.mark.parametrize(
    ("argv", "is_told"),
    [
        (["{}/one/a.cu"], True),
        (["-I{}/one"], True),
        (["{}/one/scratch/a.ii"], False),
        (["a.cu", "/usr"], False),
    ],
)
def test_a_script_that_is_told_where_the_checkouts_are(place, argv, is_told):
    (place / "script").write_text('case $1 in *two*) x=1;; esac\nexec g++ "$@"')
    process = ran("sh", "script", *(word.format("/base") for word in argv), files=["script"])
    cache = Store(str(place / "cache"))
    topics = []
    for base in ("/base", ""):
        call = ObservedInputs(cache, str(place), "/base/one/scratch", time.time_ns() + LATER, base)
        made = call.input_record(Observation([process], set()), subject())
        topics.append([topic for topic, _, _ in made.machine])
    assert topics == [[machine_facts.DIRECTORY] if is_told else [], []]
    (place / "script").write_text('exec g++ "$@"')
    call = ObservedInputs(cache, str(place), "/base/one/scratch", time.time_ns() + LATER, "/base")
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
        assert differences.differences(made, differences.Present(ENVIRON), False, lambda *_: "") == []
        assert not [path for path, _ in read_by(place, ran("cat", inputs={(1, 2)})).links if "fd" in path]
        os.dup2(reads, 0)
        found = differences.differences(made, differences.Present(ENVIRON), False, lambda *_: "")
        assert [(one.what, one.path) for one in found] == [("moved", "/proc/self/fd/0")]
        assert made.links[-1] not in read_by(place, process).links, "a tool has read /dev/null by its name"
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, nothing, reads, writes):
            os.close(descriptor)


def test_what_one_stage_reads_another_need_not_have_looked_for(place):
    call = inputs(place)
    reads = call.input_record(Observation([ran(files=["a.h"])], set()), subject())
    looks = ran(found={"a.h": stat.S_IFREG | 0o644, "b.h": stat.S_IFREG | 0o644}, links={"a.h", "b.h"})
    looks = call.input_record(Observation([looks], set()), subject())
    assert {"+a.h", "+b.h"} <= {*dict(zip(looks.directories, looks.names, strict=True))["."]}
    made = call.union([reads, looks], ENVIRON)
    names = {*dict(zip(made.directories, made.names, strict=True))["."]}
    assert "+b.h" in names and "+a.h" not in names
    assert "b.h" in made.plain and "a.h" not in made.plain
    os.rename("a.h", "moved.h")
    os.symlink("moved.h", "a.h")
    found = differences.differences(made, differences.Present(ENVIRON), False, lambda *_: "")
    assert [(one.what, one.path) for one in found if one.path == "a.h"] == [("moved", "a.h")]


def test_a_header_that_is_looked_up_by_another_way_than_it_is_read(place):
    """As gcc does with system headers; what the way is made of is watched, so the name need not be."""
    (place / "inc").mkdir()
    (place / "inc" / "h.h").write_text("")
    (place / "way").symlink_to("inc")
    process = ran(files=["inc/h.h"], found={"way/h.h": 0}, resolved={"way/h.h"})
    made = read_by(place, process)
    assert "way/h.h" not in made.plain
    assert not any("+h.h" in names for names in made.names)

    def unlike() -> list[tuple[str, str]]:
        found = differences.differences(made, differences.Present(ENVIRON), False, lambda *_: "")
        return [(one.what, one.path) for one in found]

    assert unlike() == []
    (place / "way").unlink()
    (place / "way").mkdir()
    assert ("moved", "way") in unlike()
    (place / "way").rmdir()
    (place / "way").symlink_to("inc")
    assert unlike() == []
    os.rename("inc/h.h", "inc/other.h")
    os.symlink("other.h", "inc/h.h")
    assert ("moved", "inc/h.h") in unlike()
