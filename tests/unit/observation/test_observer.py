"""The observer in small programs: it records everything, and disturbs nothing."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from nvccache.machine import process
from nvccache.observation import observer, observer_log
from nvccache.toolkit import toolchain
from observed_programs import (
    CAT,
    QUIET,
    SOURCE,
    compile_c,
    complete,
    program,
    run,
    seen_by,
    static,
    the_observer_is_built,
)

__all__ = ["program", "run", "static", "the_observer_is_built"]  # the fixtures


@pytest.mark.parametrize("how", ["vfork", "spawn"])
def test_child_processes_are_observed_however_started(run, program, how):
    (run.directory / "file").write_text("")
    (run.directory / "bin").mkdir()
    path = f"{run.directory}/bin:bin:{os.environ['PATH']}"
    found = complete(run(program, how, "cat", "file", PATH=path))
    one, other = found.processes if found.processes[0].program == program else found.processes[::-1]
    assert (one.program, other.program) == (os.path.realpath(program), os.path.realpath(CAT))
    assert other.arguments == ["cat", "file"] and seen_by(found, "files") == {"file"}
    assert {f"{run.directory}/bin/cat"} <= one.absent and "PATH" in one.variables


def test_programs_that_cannot_be_started_are_recorded_as_absent(run, program):
    found = complete(run(program, "vfork", "./nowhere", watched="one"), 127)
    assert "nowhere" in seen_by(found, "absent")
    assert "nowhere" in seen_by(complete(run(program, "spawn", "./nowhere", watched="two"), 127), "absent")


def test_commands_run_by_system_are_observed_with_their_shells(run, program):
    found = complete(run(program, "system", "read line < /dev/null; :"))
    assert [os.path.basename(name) for name in found.processes[0].started] == ["sh", "sh"]
    assert len(found.processes) == 3


def test_lookups_of_forked_children_are_all_observed(run, program):
    found = complete(run(program, "forks"))
    assert len(found.processes) == 1
    assert found.processes[0].absent >= {f"{run.directory}/fork-{at}" for at in range(200)}


def test_lookups_of_concurrent_threads_are_all_observed(run, program):
    found = complete(run(program, "threads"))
    assert seen_by(found, "absent") >= {f"thread-{one}-{at}" for one in range(8) for at in range(500)}


def test_a_program_may_close_and_reuse_all_descriptors(run, program):
    assert "after" in seen_by(complete(run(program, "descriptors")), "absent")


def test_a_signal_handler_disturbs_neither_the_program_nor_its_observation(run, program):
    """A handler's actions during a write to the log cannot be recorded; the log is then incomplete."""
    done, found = run(program, "signals")
    assert (done.status, done.stderr) == (0, b"")
    names = {f"name-{at}" for at in range(5000)}
    assert names <= seen_by(found, "absent")
    assert "in-handler" in seen_by(found, "absent") or "a signal came" in found.incomplete


def test_relative_paths_are_observed_across_directory_changes(run, program):
    found = complete(run(program, "elsewhere"))
    root = str(run.directory)
    assert found.processes[0].absent == {
        *(f"{root}/{name}" for name in ("before", "sub", "sub/d", "sub/by-chdir", "by-fchdir"))
    }
    assert found.processes[0].directory == root and found.written == {f"{root}/sub"}


def test_the_observer_leaves_errno_unchanged(run, program):
    complete(run(program, "errno"))


@pytest.mark.parametrize("how", ["return", "exit", "_exit", "quick_exit", "exit_group"])
def test_observation_is_complete_however_a_program_exits(run, program, how):
    complete(run(program, "end", how), 7)


@pytest.mark.parametrize("how", ["abort", "kill"])
def test_the_observation_of_a_program_that_crashes_is_incomplete(run, program, how):
    done, found = run(program, "end", how)
    assert done.status < 0
    assert found.incomplete == f"the end of `{os.path.realpath(program)}` was not observed"


@pytest.mark.parametrize("how", ["vfork", "spawn", "exec"])
def test_the_observation_is_incomplete_if_a_static_program_was_started(run, program, static, how):
    (run.directory / "file").write_text("")
    done, found = run(program, how, static, "exec", CAT, "file")  # as many starts as there should be
    assert (done.status, found.incomplete) == (0, f"the start of `{static}` was not observed")


@pytest.mark.parametrize(("argument", "is_input"), [("input", 1), ("./input", 1), ("--from=input", 0)])
def test_clock_queries_are_marked_as_before_or_after_opening_the_input(run, program, argument, is_input):
    """The input is the first file with the name of an argument."""
    (run.directory / "input").write_text("")
    found = complete(run(program, "clock", argument))
    assert found.processes[0].questions == {("sysconf", 0), ("time", is_input)}
    _, found = run("bash", "-c", 'printf "%(%s)T" >output', "output", watched="writes")
    assert {phase for _, phase in found.processes[0].questions} == {0}


@pytest.mark.parametrize("how", ["", "_exit", "quick_exit"])
def test_dlopen_still_uses_the_runpath_of_the_calling_program(run, tmp_path, how):
    """By the DT_RUNPATH of the program, not of the observer; it is recorded even if it is unloaded."""
    (tmp_path / "empty.c").write_text("")
    (tmp_path / "libraries").mkdir()
    library = compile_c(tmp_path / "empty.c", tmp_path / "libraries" / "libown.so", "-shared")
    program = compile_c(SOURCE, tmp_path / "loads", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/libraries")
    found = complete(run(program, "load", "libown.so", *filter(None, [how])), 7 if how else 0)
    assert library in found.processes[0].loaded
    assert found.processes[0].loaded.keys() >= {os.path.realpath(program)}
    assert not [path for path in found.processes[0].loaded if "observer.so" in path]


def test_the_observation_is_incomplete_if_the_loader_was_run_as_a_program(run, program):
    _, found = run(toolchain.libraries_of(program, {})[-1], program, "end", "exit")
    assert found.incomplete.endswith("the program that the dynamic loader runs is unknown")


def test_a_program_whose_allocator_opens_files_is_observed(run, tmp_path):
    """cicc is one: with glibc before 2.34 the observer must not find functions by dlsym, which allocates."""
    program = compile_c(SOURCE, tmp_path / "allocating", "-DWITHOUT_DLSYM", "-rdynamic")
    assert "unreadable" in seen_by(complete(run(program, "clock", "unreadable")), "absent")


def test_functions_with_old_glibc_symbol_versions_are_observed(run, program):
    """The function exists only under an old symbol version."""
    assert "ASKED" in complete(run(program, "old", "ASKED", ASKED="1")).processes[0].variables


def test_ld_audit_makes_the_observation_incomplete(run, program, tmp_path):
    (tmp_path / "audit.c").write_text("unsigned la_version(unsigned version) { return version; }")
    audit = compile_c(tmp_path / "audit.c", tmp_path / "audit.so", "-shared", "-fPIC")
    _, found = run(program, LD_AUDIT=audit)
    assert "LD_AUDIT" in found.incomplete


def test_the_observation_is_incomplete_if_a_go_program_was_started(run, tmp_path):
    """A note shows that it is Go's."""
    program = compile_c(SOURCE, tmp_path / "go", "-DGO")
    _, found = run(program)
    assert found.incomplete == f"in `{program}`, system calls may bypass the C library"


def test_the_observer_does_not_read_elf_notes_that_the_loader_has_not_mapped(run, tmp_path):
    """The loader reads those aligned to 8 bytes, and crashes itself."""
    program = Path(compile_c(SOURCE, tmp_path / "go", "-DGO"))
    image = bytearray(program.read_bytes())
    (headers,), (count,) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<H", image, 56)
    for at in range(headers, headers + 56 * count, 56):
        kind, *_, alignment = struct.unpack_from("<II6Q", image, at)
        if (kind, alignment) == (4, 4):
            struct.pack_into("<Q", image, at + 16, 1 << 40)  # the address
    program.write_bytes(image)
    complete(run(str(program), "end", "exit"), 7)


def test_an_overlong_log_makes_the_observation_incomplete(run, program, tmp_path):
    done, found = run(program, "fill")
    assert (done.status, found.incomplete) == (0, f"in `{os.path.realpath(program)}`, the log is too long")
    assert os.path.getsize(tmp_path / "watched" / "log") < observer_log.LIMIT


# bash does not wait for `<(…)`, and a process that still runs makes an observation incomplete.
SCRIPTS = {
    "sh": '#!/bin/sh\nhere=$(dirname "$0")\n. "$here/site"\n'
    '[ -e "$here/none" ] || cat "$here/file" | sed s/a/b/\n',
    "bash": "#!/bin/bash\nhere=${0%/*}\nsource $here/site\n"
    "[[ -e $here/none ]] || cat <(cat $here/file) $here/file; wait $!\n",
    "python": "#!/usr/bin/env python3\nimport os, subprocess, sys\nhere = os.path.dirname(sys.argv[0])\n"
    "os.path.exists(here + '/none') or open(here + '/site').read()\n"
    "sys.exit(subprocess.call(['cat', here + '/file']))\n",
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_files_read_by_scripts_are_observed(run, kind):
    (run.directory / "site").write_text("true\n")
    (run.directory / "file").write_text("")
    script = run.directory / "script"
    script.write_text(SCRIPTS[kind])
    script.chmod(0o755)
    found = complete(run(str(script)))
    assert {"script", "site", "file"} <= seen_by(found, "files")
    assert "none" in seen_by(found, "absent")


def test_other_ld_preload_libraries_are_kept_and_come_first(run, tmp_path):
    """AddressSanitizer refuses to be second."""
    (tmp_path / "theirs.c").write_text(
        '#include <stdio.h>\n__attribute__((constructor)) static void f(void) { puts("theirs"); }\n'
    )
    theirs = compile_c(tmp_path / "theirs.c", tmp_path / "theirs.so", "-shared", "-fPIC")
    done, found = run(str(shutil.which("env")), LD_PRELOAD=theirs)
    assert done.stdout.startswith(b"theirs\n") and found.incomplete == ""
    value = f"{theirs}:{observer.LIBRARY}"
    assert f"LD_PRELOAD={value}\n".encode() in done.stdout
    assert theirs in found.processes[0].loaded


@pytest.mark.skipif(not os.path.exists("/sys/kernel/mm/transparent_hugepage"), reason="no huge pages here")
def test_memory_that_a_tool_maps_is_in_huge_pages_unless_it_may_be_a_reserve(run):
    script = """if True:
        import mmap, re
        mapped = [mmap.mmap(-1, n << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for n in (4, 1024)]
        maps = re.findall(r"(?s)Size: +(\\d+) kB.*?VmFlags:(.*?)\\n", open("/proc/self/smaps").read())
        print(sum(int(size) for size, flags in maps if " hg" in flags) >> 10)
    """
    done, _ = run(sys.executable, "-c", script)
    assert int(done.stdout) == 4


def test_an_observed_program_runs_under_a_file_size_limit_of_zero(run):
    """However little of the log is below it."""
    (run.directory / "file").write_text("text")
    done, found = run("sh", "-c", "ulimit -f 0; cat file; exec cat file")
    assert (done.status, done.stdout, done.stderr) == (0, b"texttext", b"")
    assert found.incomplete


def test_loader_errors_about_the_observer_are_removed_from_stderr(tmp_path, monkeypatch):
    watched = str(tmp_path / "watched")
    monkeypatch.setattr(observer, "LIBRARY", f"{tmp_path}/none.so")
    environ = observer.arm(watched, {"LD_PRELOAD": "/nowhere/theirs.so", **QUIET})
    messages = process.run([CAT, "/nowhere/file"], environ).stderr
    assert messages.count(b"ERROR: ld.so") == 2
    left = observer.without_loader_messages(messages).splitlines()
    assert len(left) == 2 and b"/nowhere/theirs.so" in left[0] and b"/nowhere/file" in left[1]
    assert observer.without_loader_messages(b"own words\n") == b"own words\n"


@pytest.mark.parametrize("what", ["watched", "watched/log"])
def test_an_observed_program_works_on_after_its_log_was_removed(tmp_path, what):
    """And so does all that it starts."""
    environ = observer.arm(str(tmp_path / "watched"), QUIET)
    (tmp_path / "file").write_text("text")
    serve = ["sh", "-c", "echo begun; read line; cat file; exec cat file"]
    with subprocess.Popen(serve, cwd=tmp_path, env=environ, stdin=PIPE, stdout=PIPE, stderr=PIPE) as server:
        assert server.stdout.readline() == b"begun\n"
        assert (tmp_path / "watched" / "log").stat().st_size
        shutil.rmtree(tmp_path / "watched")
        if what != "watched":
            (tmp_path / "watched").mkdir()
        assert server.communicate(b"go on\n") == (b"texttext", b"")
    assert server.returncode == 0
    assert not (tmp_path / what).exists()
