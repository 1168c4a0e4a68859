"""What makes a call uncacheable, by the kind of program that does it."""

from __future__ import annotations

import os

import pytest

from nvccache.observation import uncacheable
from nvccache.observation.observed_process import CUDA_TOOL, HOST, OTHER, SHELL, Process
from nvccache.records.input_records import UnreadableError
from observed_stages import ANY_KIND, DEVICE, FILE, FOLDER, OTHERS, PIPE, inherited_descriptors, process

__all__ = ["inherited_descriptors"]  # the fixtures


def unrecordable(one: Process) -> str:
    """The reason, without the program."""
    try:
        uncacheable.check(one)
    except UnreadableError as error:
        assert str(error).startswith(f"`{os.path.basename(one.program)}` ")
        return str(error).partition("` ")[2]
    return ""


KINDS = {
    HOST: """
        cc1plus x86_64-linux-gnu-g++-12 aarch64-conda-linux-gnu-c++ g++-12.2.0 g++-real g++-12.distrib
        clang-14 clang++ collect2 as x86_64-linux-gnu-as ld.gold
    """,
    CUDA_TOOL: "cudafe++ cicc nvcc ptxas nvlink",
    SHELL: "sh dash bash",
    OTHER: "g++-realtime python3.11 cat [ mpicxx ccache my-as-wrapper ptxas2 gccx zsh env cudafe",
}


@pytest.mark.parametrize("kind", KINDS)
def test_programs_are_recognized_as_compilers_shells_or_others_by_their_name(kind):
    assert {name for name in KINDS[kind].split() if process(name).kind != kind} == set()


def test_programs_are_classified_by_the_programs_they_start():
    """`env` has used nothing unobserved if it has started something; nvcc that starts nvcc is a wrapper."""
    assert Process("/usr/bin/env", started=["/bin/sh"]).kind == CUDA_TOOL
    assert Process("/opt/bin/nvcc", started=["/usr/local/cuda/bin/nvcc"]).kind == OTHER
    assert Process("/opt/bin/nvcc", started=["/bin/sh"]).kind == CUDA_TOOL


OPENED = "/proc/self/task/7/environ"


@pytest.mark.parametrize(
    ("seen", "reason", "programs"),
    [
        *[
            ({"questions": [(name, 1)]}, "asks for the time", f"g++ {OTHERS} sh")
            for name in ("time", "ctime", "localtime")
        ],
        *[
            ({"questions": [(name, 1)]}, "asks for the time", f"{OTHERS} sh")
            for name in ("gettimeofday", "clock_gettime")
        ],
        ({"questions": [("getrandom", 1)]}, "asks for random numbers", f"{OTHERS} sh"),
        # What an interpreter asks before it opens its script is for itself.
        ({"questions": [("time", 0)]}, "asks for the time", "g++ cat wrapper"),
        ({"questions": [("getrandom", 0)]}, "asks for random numbers", "cat wrapper"),
        ({"listed": ["bin"]}, "lists `bin`", "sh"),
        # Descriptors.
        ({"uses_descriptor": True}, "uses a file descriptor of its caller", f"{OTHERS} sh"),
        ({"absent": ["/dev/fd/18"]}, "looks at `/dev/fd/18`", ANY_KIND),
        ({"absent": ["/proc/self//fd/18/x"]}, "looks at `/proc/self//fd/18/x`", ANY_KIND),
        ({"links": ["/proc/thread-self/fd/9"]}, "looks at `/proc/thread-self/fd/9`", ANY_KIND),
        ({"files": {"/dev/fd/9/a.h": (0, 0, 0, 0, 0)}}, "looks at `/dev/fd/9/a.h`", ANY_KIND),
        # clang asks for the path of what it has opened.
        (
            {"links": ["/proc/self/fd/9"], "found": {"/proc/self/fd/9": 0}},
            "looks at `/proc/self/fd/9`",
            f"{OTHERS} sh",
        ),
        ({"found": {"/dev/fd/2": PIPE}, "absent": ["/dev/fd/1"]}, "", ""),
        # Files of the kernel.
        *[({"others": {path: DEVICE}}, "", "") for path in ("/dev/null", "/dev/zero")],
        *[
            ({"others": {f"/proc/{name}": FILE}}, "", "")
            for name in ("self/status", "cpuinfo", "filesystems")
        ],
        ({"others": {"/dev/urandom": DEVICE}}, "reads `/dev/urandom`", f"{OTHERS} sh"),
        ({"others": {"/proc/meminfo": FILE}}, "reads `/proc/meminfo`", f"{OTHERS} sh"),
        ({"others": {"/proc/self/maps": FILE}}, "reads `/proc/self/maps`", f"{OTHERS} sh"),
        *[
            ({"others": {path: FILE}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/proc/uptime", "/sys/kernel/notes", "/proc/self/environ", OPENED)
        ],
        ({"others": {"/proc": FOLDER}}, "reads `/proc`", ""),
        *[
            ({"others": {path: PIPE}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/dev/stdin", "/dev/fd/63", "pipe")
        ],
        *[
            ({"files": {path: (0, 0, 0, 0, 0)}}, f"reads `{path}`", f"g++ cicc {OTHERS} sh")
            for path in ("/proc/self/fd/0", "/proc/self/task/8/fd/0", "/proc/77/fd/9")
        ],
        ({"files": {"/dev/stdin": (0, 0, 0, 0, 0)}}, "reads `/dev/stdin`", f"{OTHERS} sh"),
        ({"files": {"/dev/shm/a.h": (0, 0, 0, 0, 0)}}, "", ""),
    ],
    ids=str,
)
def test_programs_that_ask_for_unrecordable_things_leave_no_record(seen, reason, programs):
    for program in ANY_KIND.split():
        assert unrecordable(process(program, **seen)) == (reason if program in programs.split() else "")


@pytest.mark.parametrize("program", ANY_KIND.split())
def test_reading_an_inherited_descriptor_prevents_a_record(inherited_descriptors, program):
    number, file = inherited_descriptors
    reason = f"reads descriptor {number}, which its caller opened"
    assert unrecordable(process(program, inputs=[file])) == reason


@pytest.mark.parametrize(
    ("argv", "seen", "reason"),
    [
        ("cicc --preinclude x.h", {"questions": [("time", 1)]}, "asks for the time"),
        ("cudafe++ --preinclude=x.h", {"questions": [("time", 1)]}, "asks for the time"),
        ("cicc -o x.h", {"questions": [("time", 1)]}, ""),
        *[(name, {}, "reads the status of files") for name in ("stat", "ls", "find", "test", "[")],
    ],
)
def test_commands_whose_result_no_file_determines_leave_no_record(argv, seen, reason):
    assert unrecordable(process(*argv.split(), **seen)) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo $RANDOM", "uses `RANDOM`"),
        *[
            (text, "reads the dates, owners or modes of files")
            for text in ("[ one -nt two ]", 'test -O "$x"', "[[ -k one ]]", "[ ! -g one ]", "[ a -ef b ]")
        ],
        ("[ -d sub ] && g++ -Og x-nt\ng++ -g -u x", ""),
    ],
)
def test_unrecordable_shell_scripts_have_a_reason(text, reason):
    assert unrecordable(process("sh", "-c", text)) == reason


def test_a_shell_whose_text_is_unknown_has_no_record():
    for argv in (["script"], ["-s"], ["-i", "script"]):
        assert unrecordable(process("sh", *argv)) == "runs unknown commands"


def test_the_file_that_uses_the_time_macro_is_named_in_the_reason(tmp_path):
    (tmp_path / "b.h").write_text("const char *t = __TIME__;")
    one = process("cc1plus", questions=[("time", 1)], files={f"{tmp_path}/b.h": (0, 0, 0, 0, 0)})
    assert unrecordable(one) == f"asks for the time (`{tmp_path}/b.h` has `__TIME__`)"
