"""What a call inherits: standard input, open descriptors, permissions; and processes that outlive it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from installations import launcher_of_tree
from scenarios.support.cases import DEFAULT, KERNEL, OLD_ENOUGH
from workspaces import Workspace

pytestmark = pytest.mark.light
# When it compiles C++, a line of standard input gives the value of a macro.
READS_INPUT = (
    '#!/bin/bash\ncase "$*" in *"-x c++"*) {read}; exec {gxx} "-DVALUE=$line" "$@";; esac\nexec {gxx} "$@"\n'
)
HANGS = 90  # seconds, of which a compile that does not hang takes two
WITHOUT_PRIVILEGES = ("setpriv", "--groups", "54321", "--bounding-set", "-dac_override,-dac_read_search")
WITHOUT_PRIVILEGES += ("--inh-caps", "-dac_override,-dac_read_search")


def wrapper(workspace: Workspace, text: str) -> str:
    path = workspace.write("wrapper", text.replace("{gxx}", str(shutil.which("g++"))))
    path.chmod(0o755)
    workspace.write("a.cu", DEFAULT)
    time.sleep(OLD_ENOUGH)
    return str(path)


def compile_to_ptx(
    workspace: Workspace, *arguments: str, cached: bool = True, before: tuple[str, ...] = (), typed: str = ""
) -> tuple[int, bytes, bytes]:
    """The status, the PTX and the messages."""
    launcher = [str(launcher_of_tree())] if cached else []
    made = workspace.directory / "a.ptx"
    made.unlink(missing_ok=True)
    done = subprocess.run(
        [*before, *launcher, workspace.nvcc, "-ptx", "a.cu", "-o", "a.ptx", *arguments],
        cwd=workspace.directory,
        env=dict(workspace.environ),
        input=typed.encode(),
        capture_output=True,
        check=False,
        timeout=HANGS,
    )
    time.sleep(OLD_ENOUGH if cached else 0)
    return done.returncode, made.read_bytes() if made.exists() else b"", done.stderr


def test_a_wrapper_that_reads_its_standard_input(workspace: Workspace) -> None:
    options = ("-ccbin", wrapper(workspace, READS_INPUT.replace("{read}", "read line")))
    for typed in ("3\n", "4\n"):
        expected = compile_to_ptx(workspace, *options, cached=False, typed=typed)
        assert expected[0] == 0 and typed.strip().encode() in expected[1]
        for _ in range(2):
            assert compile_to_ptx(workspace, *options, typed=typed) == expected


def test_a_wrapper_that_found_its_standard_input_empty(workspace: Workspace) -> None:
    path = wrapper(workspace, READS_INPUT.replace("{read}", "line=0; read line; line=${line:-1}"))
    argv = [str(launcher_of_tree()), workspace.nvcc, "-ptx", "a.cu", "-o", "a.ptx", "-ccbin", path]
    for _ in range(2):
        done = workspace.run(argv)  # without input
        assert done.status == 0, done.stderr
        time.sleep(OLD_ENOUGH)
    assert workspace.counters().calls["direct_hit"] == 1
    expected = compile_to_ptx(workspace, "-ccbin", path, cached=False, typed="3\n")
    assert compile_to_ptx(workspace, "-ccbin", path, typed="3\n") == expected


def test_a_wrapper_that_looks_up_the_shell_of_its_user_is_recorded(workspace: Workspace) -> None:
    """Without SHELL bash does, as in containers and jobs; systemd looks up the path's directories."""
    workspace.environ.pop("SHELL", None)
    path = wrapper(workspace, '#!/bin/bash\nexec {gxx} -DVALUE=5 "$@"\n')
    for _ in range(2):
        made = compile_to_ptx(workspace, "-ccbin", path, typed="nobody reads this\n")
    assert made == compile_to_ptx(workspace, "-ccbin", path, cached=False)
    assert workspace.counters().calls["direct_hit"] == 1


def test_a_process_that_a_wrapper_leaves_behind_is_not_waited_for(workspace: Workspace) -> None:
    """It keeps the streams open, as a compile server started on demand may."""
    path = wrapper(workspace, '#!/bin/sh\nsleep 600 & echo $! >>left\nexec {gxx} "$@"\n')
    argv = [str(launcher_of_tree()), workspace.nvcc, "-ptx", "a.cu", "-o", "a.ptx", "-ccbin", path]
    try:
        with open(workspace.directory / "streams", "wb") as streams:
            subprocess.run(
                argv,
                cwd=workspace.directory,
                env=dict(workspace.environ),
                stdout=streams,
                stderr=streams,
                check=True,
                timeout=HANGS,
            )
    finally:
        for pid in map(int, (workspace.directory / "left").read_text().split()):
            os.kill(pid, signal.SIGKILL)


def test_a_descriptor_that_is_handed_down(workspace: Workspace) -> None:
    """As bash does for `<(...)`: a pipe's content can be read only once."""
    workspace.write("a.cu", DEFAULT)
    made = []
    for launcher in ("", *[f"{sys.executable} -m nvccache "] * 2):
        time.sleep(OLD_ENOUGH)
        command = f"{launcher}{workspace.nvcc} -ptx a.cu -o a.ptx -include <(echo '#define VALUE 7')"
        done = workspace.run([str(shutil.which("bash")), "-c", command])
        made.append((done.status, done.stderr, (workspace.directory / "a.ptx").read_bytes()))
        (workspace.directory / "a.ptx").unlink()
    assert made[0][0] == 0 and made[0] == made[1] == made[2]


SHOWING = '#!/bin/bash\nx=$({show}); exec {gxx} "-DVALUE=${x//[^0-9]/}" "$@"\n'
STATES = {  # what a wrapper looks at, and what is run before the call, once this and once that
    "the umask": ("umask", "umask 22", "umask 27"),
    "what standard input is": ("[ -p /dev/stdin ] && echo 1 || echo 2", "exec </dev/null", "exec < <(:)"),
    "a descriptor, read if it is there": (
        "read -r x <&9 && echo 1 || echo 2",
        "exec 9<&-",
        "exec 9<a.cu",
    ),
    "the name of the machine": ("uname -n", "hostname a1", "hostname a2"),
}


@pytest.mark.parametrize("what", STATES)
def test_what_a_wrapper_sees_of_the_caller(workspace: Workspace, what: str) -> None:
    show, *states = STATES[what]
    path = wrapper(workspace, SHOWING.replace("{show}", show))
    made = []
    for state in states:
        before = (str(shutil.which("bash")), "-c", f'{state}\nexec "$@"', "bash")
        if what == "the name of the machine":
            before = ("unshare", "--uts", *before)
            if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
                pytest.skip("no other name can be given here")
        expected = compile_to_ptx(workspace, "-ccbin", path, cached=False, before=before)
        for _ in range(2):
            assert compile_to_ptx(workspace, "-ccbin", path, before=before) == expected
        made.append(expected)
    assert made[0] != made[1]


def test_a_host_compiler_may_call_nvccache_again(workspace: Workspace) -> None:
    """By its bare name on PATH, which leads to the nvcc that is already running."""
    text = '#!/bin/bash\n[ "$1" = -E ] || {again} nvcc -cubin b.cu -o b.cubin || exit 9\nexec {gxx} "$@"\n'
    workspace.write("b.cu", KERNEL.replace("VALUE", "1"))
    path = str(Path(workspace.nvcc).parent) + ":/usr/bin:/bin"
    ours = f"{sys.executable} -m nvccache"
    place = wrapper(workspace, text.replace("{again}", ours))
    argv = [*ours.split(), "nvcc", "-ptx", "a.cu", "-o", "a.ptx", "-ccbin", place]
    done = workspace.run(argv, PATH=path)
    assert (done.status, done.stderr) == (0, b"")
    assert (workspace.directory / "b.cubin").exists()


def test_what_a_tool_says_of_its_product_is_of_this_product(workspace: Workspace) -> None:
    text = '#!/bin/bash\n[[ $* == *" -c "* ]] && echo "  CC  $(basename "${@: -1}")" >&2\nexec {gxx} "$@"\n'
    path = wrapper(workspace, text)
    for name in ("one.o", "two.o"):
        for _ in range(2):
            stderr = workspace.cached("-c", "a.cu", "-o", name, "-ccbin", path).stderr
            assert re.findall(rb"CC  (\S+)", stderr) == [name.encode()]


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user"
)
def test_another_user_has_a_direct_hit_of_what_he_may_read(workspace: Workspace) -> None:
    workspace.write("inc/h.h", "")
    workspace.write("a.cu", '#include "h.h"\n' + DEFAULT)
    time.sleep(OLD_ENOUGH)
    for _ in range(2):
        made = compile_to_ptx(workspace, "-Iinc")
    for _ in range(2):
        assert compile_to_ptx(workspace, "-Iinc", before=WITHOUT_PRIVILEGES) == made
    assert workspace.counters().calls["direct_hit"] == 3
    os.chown(workspace.directory / "inc", 77, 77)
    (workspace.directory / "inc").chmod(0o700)
    time.sleep(OLD_ENOUGH)
    expected = compile_to_ptx(workspace, "-Iinc", cached=False, before=WITHOUT_PRIVILEGES)
    assert expected[0] != 0
    assert compile_to_ptx(workspace, "-Iinc", before=WITHOUT_PRIVILEGES) == expected
