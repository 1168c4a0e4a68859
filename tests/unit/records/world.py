"""A recorded call in its own directory, and every change that may be made to what it depends on.

The one table of changes is for all readers of a record: Python's comparison, the clauses of `explain`, and
the compiled launcher.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from answering import Answering
from nvccache import environment
from nvccache.files import comments, keys, presence, signatures
from nvccache.records import facts, input_records
from nvccache.records.input_records import CODE, LIBRARIES, PROGRAM, SOURCE, InputRecord
from nvccache.records.products import Answer
from nvccache.records.record import Result
from nvccache.store import event_line
from nvccache.store.event_line import StageEvent
from replays import Launcher

ARGUMENTS = ["-c", "a.cu", "-o", "out/a.o", "-MD", "-MF", "out/a.d"]
OBJECT = b"\x7fELF object"
DIGEST = keys.digest_bytes(OBJECT)
ENVIRON = {"ASKED": "1", "EMPTY": "", "GROUP_A": "2", "PATH": "/usr/bin:/bin", "OTHER": "3"}
ASKED = ("ASKED", "EMPTY", "UNSET", "GROUP_*")
MACHINE = [("native", "", "this one"), (LIBRARIES, "caches:libm.so.6", "its libraries")]


def make(place: Path) -> Path:
    """The files of a call, and others around them."""
    place.mkdir()
    for name in (
        *("a.cu", "late/a.h", "early/other.h", "listed/b.h", "listed/tool", "parts/one", "caches"),
        *("out/keep", "compiler/nvcc", "tool", "b.h"),
    ):
        (place / name).parent.mkdir(exist_ok=True)
        # Not a script, which the launcher would run.
        (place / name).write_text("\x7fELF" if name == "compiler/nvcc" else name)
    for name in ("listed/tool", "compiler/nvcc", "tool"):
        (place / name).chmod(0o755)
    (place / "b.h").write_text("int b; // one")
    (place / "listed/folder").mkdir()
    (place / "listed/loop").symlink_to("loop")
    (place / "listed/same").symlink_to("../early")
    (place / "link").symlink_to("late/a.h")
    return place


def everything(signed: bool = True) -> InputRecord:
    """An input record with something in each field; `listed` has no signature, others only if `signed`."""
    made = InputRecord()
    made.files, made.kinds = ["a.cu", "late/a.h", "link", "tool", "b.h"], f"{SOURCE * 3}{PROGRAM}{CODE}"
    made.digests = [*map(keys.digest_file, made.files[:-1]), comments.digest_of_code("b.h")]
    made.directories = ["early", "late", "listed"]
    made.names = [["-a.h"], ["+a.h", "-libm.so.6"], ["!loop", "+b.h", "-a.h", "-sub", "dfolder", "xtool"]]
    known = {
        path: signatures.signature_of(path) if signed else signatures.UNKNOWN
        for path in (*made.files, "early", "late")
    }
    made.signatures = [known[path] for path in made.files]
    made.directory_signatures = [known["early"], known["late"], signatures.UNKNOWN]
    made.links = [("link", os.path.realpath("link"))]
    made.plain = ["parts"]
    made.include_paths = [facts.which_are_one(["listed/same", "early", "parts"])]
    made.listings = [("parts", presence.digest_of_listing("parts"))]
    made.dates = [("late/a.h", presence.date_and_size("late/a.h"))]
    made.variables = [(name, environment.digest_of(name, ENVIRON)) for name in ASKED]
    made.sought, made.search_path = ["sh"], ENVIRON["PATH"]
    made.machine = list(MACHINE)
    made.cache_signatures = [signatures.signature_of("caches")]
    return made


def replayed() -> InputRecord:
    """The same without what keeps a call from being replayed."""
    made = everything()
    made.listings = []
    return made


def answer_of_call() -> Answer:
    given = Answer(Result())
    given.products = [("out/a.o", DIGEST, True)]
    given.dependency_file, given.rule = "out/a.d", b"out/a.o : a.cu \\\n    late/a.h\n"
    given.result.stdout, given.result.stderr = b"out\0\n", b"\xff warning\n"
    given.result.seconds = 12.5
    given.sources, given.result.stages = ["a.cu"], [event_line.text_of_hit(StageEvent("cicc", "ran", 1.5))]
    return given


def ask(topic: str, subject: str) -> str:
    return next(answer for known, about, answer in MACHINE if (known, about) == (topic, subject))


def differences(
    made: InputRecord, environ: Mapping[str, str] = ENVIRON, machine: Callable[[str, str], str] = ask
) -> list[tuple[str, str]]:
    found = input_records.differences(made, Answering(environ, machine))
    return [(difference.what, difference.path) for difference in found]


def write(path: str, text: str = "other") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def relink(path: str, target: str) -> None:
    os.unlink(path)
    os.symlink(target, path)


def become_link(directory: str, target: str = "moved") -> None:
    """The same directory behind a link, so that nothing else changes."""
    os.rename(directory, f"{os.path.dirname(directory) or '.'}/moved")
    os.symlink(target, directory)


def make_again(directory: str) -> None:
    shutil.copytree(directory, "copy", symlinks=True)
    shutil.rmtree(directory)
    os.rename("copy", directory)


def rewrite_under_the_old_date(path: str) -> None:
    status = os.stat(path)
    write(path, path.upper())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@dataclass(frozen=True)
class Change:
    """What is done, which field of an input record notices it, and what that says.

    Without differences only the launcher refuses.
    """

    component: str
    do: Callable[[], object] = lambda: None
    differences: list[tuple[str, str]] = field(default_factory=list)
    variables: Mapping[str, str | None] = field(default_factory=dict)
    machine: Callable[[str, str], str] = ask


def _files(do: Callable[[], object], *differences: tuple[str, str]) -> Change:
    return Change("files", do, list(differences))


def _variables(path: str, **variables: str | None) -> Change:
    return Change("variables", differences=[("variable", path)], variables=variables)


def _names(do: Callable[[], object], *differences: tuple[str, str]) -> Change:
    return Change("names", do, list(differences))


CHANGES = {
    "rewritten": _files(lambda: write("a.cu"), ("changed", "a.cu")),
    "rewritten under the old date": _files(lambda: rewrite_under_the_old_date("a.cu"), ("changed", "a.cu")),
    "gone": _files(lambda: os.unlink("a.cu"), ("gone", "a.cu")),
    "a directory instead": _files(lambda: (os.unlink("a.cu"), os.mkdir("a.cu")), ("changed", "a.cu")),
    "a FIFO instead": _files(lambda: (os.unlink("a.cu"), os.mkfifo("a.cu")), ("changed", "a.cu")),
    "code before a comment": _files(lambda: write("b.h", "int c; // one"), ("changed", "b.h")),
    "a comment that makes a file as large as another": _files(lambda: write("b.h", "int b;//")),
    "a link to the same": _files(
        lambda: (os.rename("a.cu", "copy"), os.symlink("copy", "a.cu")), ("moved", "a.cu")
    ),
    "a program is touched": Change("kinds", lambda: os.utime("tool")),
    "a program that cannot be run": Change("kinds", lambda: os.chmod("tool", 0o644), [("changed", "tool")]),
    "content by two names": Change(
        "digests",
        lambda: write("late/a.h"),
        [("changed", "late/a.h"), ("changed", "link"), ("redated", "late/a.h")],
    ),
    "a date": Change("dates", lambda: os.utime("late/a.h", (1, 1)), [("redated", "late/a.h")]),
    "a link elsewhere": Change(
        "links", lambda: relink("link", "a.cu"), [("changed", "link"), ("moved", "link")]
    ),
    "a name in a directory with a signature": Change(
        "directories", lambda: write("early/a.h"), [("appeared", "early/a.h")]
    ),
    "a library found first": _names(lambda: write("late/libm.so.6"), ("appeared", "late/libm.so.6")),
    "an absent name appears": _names(lambda: write("listed/a.h"), ("appeared", "listed/a.h")),
    "as a directory": _names(lambda: os.mkdir("listed/sub"), ("appeared", "listed/sub")),
    "a present name vanishes": _names(lambda: os.unlink("listed/b.h"), ("gone", "listed/b.h")),
    "a directory becomes a file": _names(
        lambda: (os.rmdir("listed/folder"), write("listed/folder")), ("changed", "listed/folder")
    ),
    "a program becomes a file": _names(lambda: os.chmod("listed/tool", 0o644), ("changed", "listed/tool")),
    "what could not be reached can be": _names(
        lambda: (os.unlink("listed/loop"), write("listed/loop")), ("changed", "listed/loop")
    ),
    "a plain directory becomes a link": Change("plain", lambda: become_link("parts"), [("moved", "parts")]),
    "a directory with another second name": Change(
        "include_paths",
        lambda: (os.unlink("listed/same"), os.symlink("../parts", "listed/same")),
        [("searched", "early"), ("searched", "parts")],
    ),
    "a name in what was listed": Change("listings", lambda: write("parts/new"), [("relisted", "parts")]),
    "another value": _variables("ASKED", ASKED="2"),
    "no value": _variables("ASKED", ASKED=None),
    "an empty variable unset": _variables("EMPTY", EMPTY=None),
    "a variable that was unset": _variables("UNSET", UNSET=""),
    "another value in a group": _variables("GROUP_*", GROUP_A="3"),
    "one more in a group": _variables("GROUP_*", GROUP_B="2"),
    "another program on PATH": Change(
        "sought", differences=[("variable", "PATH")], variables={"PATH": "/nowhere"}
    ),
    "no PATH": Change("search_path", differences=[("variable", "PATH")], variables={"PATH": None}),
    "the same programs on PATH": Change("search_path", variables={"PATH": "/usr/bin:/bin:/nowhere"}),
    "a processor": Change(
        "machine",
        differences=[("native", "")],
        machine=lambda topic, about: "another" if topic == "native" else ask(topic, about),
    ),
    "the loader's cache": Change(
        "cache_signatures",
        lambda: write("caches"),
        [("native", ""), (LIBRARIES, "caches")],
        machine=lambda topic, about: "another",
    ),
    # Of these only the launcher knows.
    "the compiler": Change("call", lambda: write("compiler/nvcc")),
    "a link to the compiler": Change("call", lambda: become_link("compiler")),
    "a settings file": Change("call", lambda: write("home/nvccache/config.toml")),
    "a setting": Change("call", variables={"NVCCACHE_STRICT": "1"}),
    "a call below another": Change("call", variables={"_NVCCACHE_TRIED": "/x/nvcc"}),
    "another place for settings": Change("call", variables={"XDG_CONFIG_HOME": "/elsewhere"}),
    "another home": Change("call", variables={"HOME": "/elsewhere"}),
    "another name of the directory": Change("call", variables={"PWD": "/elsewhere"}),
    "options in a variable": Change("call", variables={"NVCC_APPEND_FLAGS": "-g"}),
    "the product is a directory": Change("call", lambda: os.mkdir("out/a.o")),
    "the depfile is a FIFO": Change("call", lambda: os.mkfifo("out/a.d")),
    "the depfile leads nowhere": Change("call", lambda: os.symlink("nowhere", "out/a.d")),
    "no directory for the product": Change("call", lambda: os.rename("out", "elsewhere")),
}
# What leaves all as it was, or is what nothing depends on.
UNRELATED = {
    "a source is touched": Change("", lambda: os.utime("a.cu")),
    "a comment is reworded": Change("", lambda: write("b.h", "int b; // two words")),
    "it is written again": Change("", lambda: write("a.cu", "a.cu")),
    "it is replaced by the same": Change("", lambda: (write("copy", "a.cu"), os.rename("copy", "a.cu"))),
    "it may be read by fewer": Change("", lambda: os.chmod("a.cu", 0o400)),
    "another name in a directory with a signature": Change("", lambda: write("early/z.h")),
    "directories are made again": Change("", lambda: (make_again("early"), make_again("listed"))),
    "a new file": Change("", lambda: (write("z.h"), write("listed/z.h"))),
    "a file in a plain directory": Change("", lambda: write("early/other.h")),
    "another variable": Change("", variables={"OTHER": "4", "GROUP": "x", "ASKED_": "6"}),
    "a large variable": Change("", variables={"A" * 5000: "b" * 5000}),
    "a directory for temporary files": Change("", variables={"TMPDIR": "/tmp/."}),
}
# Fields of an input record without a change of their own.
COVERED = {
    "signatures": "of the files",
    "directory_signatures": "of what is looked up in them",
    "reader": "who may read the files: see the tests of another user",
}


def holds(launcher: Launcher, **changed: str | None) -> bool:
    """Whether the record answers the call; if not, nothing is written."""
    made = [Path("out/a.o"), Path("out/a.d")]
    for path in made:
        path.unlink(missing_ok=True)
    found = launcher.ask(ARGUMENTS, **changed)
    assert [path.exists() for path in made] == [found.is_answer] * 2
    return found.is_answer
