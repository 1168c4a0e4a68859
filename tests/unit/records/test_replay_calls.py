"""Command names and directories from which a call may be typed: each has its own replay record."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from nvccache.store.store import Store
from replays import LEFT_TO_PYTHON, Launcher
from world import ARGUMENTS, ENVIRON, OBJECT, answer_of_call, holds, replayed


def record(launcher: Launcher, compiler: str, arguments: Sequence[str] = ARGUMENTS) -> bool:
    return launcher.record(compiler, arguments, replayed(), answer_of_call())


def shim(launcher: Launcher, place: Path, name: str = "shims/nvcc") -> Launcher:
    """The launcher under the name compiler, before the real one on PATH."""
    link = place / name
    link.parent.mkdir()
    link.symlink_to(launcher.program)
    path = f"/nowhere:{link.parent}:{place}/parts:{place}/compiler:/usr/bin"
    time.sleep(0.15)
    return Launcher(
        launcher.program, launcher.environ["NVCCACHE_DIR"], {**ENVIRON, "PATH": path}, [str(link)]
    )


def test_a_masquerade(launcher: Launcher, place: Path, compiler: str) -> None:
    masquerade = shim(launcher, place)
    assert record(masquerade, compiler)
    assert holds(masquerade)
    assert not holds(masquerade, PATH=f"{masquerade.environ['PATH']}:/bin")


@pytest.mark.parametrize("change", ["appears", "appears as a link", "is executable now"])
def test_another_nvcc_before_the_one_on_path(
    launcher: Launcher, place: Path, compiler: str, change: str
) -> None:
    (place / "parts/nvcc").write_text("no program")
    masquerade = shim(launcher, place)
    if change.startswith("appears"):
        (place / "parts/nvcc").unlink()
    assert record(masquerade, compiler)
    assert holds(masquerade)
    if change == "appears":
        shutil.copy(compiler, place / "parts/nvcc")
    elif change == "appears as a link":
        (place / "parts/nvcc").symlink_to(compiler)
    else:
        (place / "parts/nvcc").chmod(0o755)
    assert not holds(masquerade)


def test_a_bare_name(launcher: Launcher, place: Path, compiler: str) -> None:
    path = f"{place}/parts:{place}/compiler"
    bare = Launcher(
        launcher.program, launcher.environ["NVCCACHE_DIR"], {**ENVIRON, "PATH": path}, launcher.front
    )
    bare.front[1:] = ["nvcc"]
    assert record(bare, compiler)
    assert holds(bare)
    assert not holds(bare, PATH=f"{place}/compiler")
    shutil.copy(compiler, place / "parts/nvcc")
    assert not holds(bare)


def test_a_launcher_that_is_set_twice(launcher: Launcher, compiler: str) -> None:
    launcher.front[1:1] = ["nvccache", str(launcher.program)]
    assert record(launcher, compiler)
    assert holds(launcher)


def test_roles_do_not_share_a_record(launcher: Launcher, place: Path, compiler: str) -> None:
    names = {launcher.ask(ARGUMENTS).name, shim(launcher, place).ask(ARGUMENTS).name}
    assert len(names) == 2 and "" not in names


def test_settings_in_a_file(launcher: Launcher, place: Path, compiler: str) -> None:
    settings = place / "home/nvccache/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'max_size = "5G"\ndir = "{launcher.environ["NVCCACHE_DIR"]}"\n')
    time.sleep(0.15)
    del launcher.environ["NVCCACHE_DIR"]
    assert record(launcher, compiler)
    assert holds(launcher)
    settings.write_text(settings.read_text() + "readonly = true\n")
    assert not holds(launcher)


def test_settings_that_changed_meanwhile(launcher: Launcher, place: Path, compiler: str) -> None:
    """They were read before the compile, and their file is checked after it."""
    settings = place / "home/nvccache/config.toml"
    settings.parent.mkdir(parents=True)
    began = time.time_ns()
    settings.write_text("max_size = '1G'\n")
    time.sleep(0.15)
    given = (replayed(), answer_of_call())
    assert not launcher.record(compiler, ARGUMENTS, *given, since_ns=began)
    assert launcher.record(compiler, ARGUMENTS, *given)


def test_an_nvcc_that_would_be_found_meanwhile(launcher: Launcher, place: Path, compiler: str) -> None:
    """It appeared during the compile, which did not find it."""
    masquerade = shim(launcher, place)
    shutil.copy(compiler, place / "parts/nvcc")
    time.sleep(0.15)
    assert not record(masquerade, compiler)
    assert record(masquerade, str(place / "parts/nvcc"))


@pytest.mark.parametrize("spelling", ["{cache}/", "{cache}/../cache/.", "~/cache", "cache"])
def test_spellings_of_the_directory(launcher: Launcher, compiler: str, place: Path, spelling: str) -> None:
    cache = launcher.environ["NVCCACHE_DIR"]
    launcher.environ["HOME"] = os.path.dirname(cache)
    if spelling == "cache":
        (place / "cache").symlink_to(cache)
    launcher.environ["NVCCACHE_DIR"] = spelling.format(cache=cache)
    assert record(launcher, compiler)
    assert holds(launcher)


def test_the_default_directory(launcher: Launcher, compiler: str, place: Path, stored: Store) -> None:
    del launcher.environ["NVCCACHE_DIR"]
    cases = (("XDG_CACHE_HOME", "xdg", "xdg"), ("HOME", "h", "h/.cache"))
    for name, value, where in cases:
        launcher.environ[name] = f"{place}/{value}"
        shutil.copytree(stored.root, place / where / "nvccache")
        assert record(launcher, compiler)
        assert holds(launcher)
        del launcher.environ[name]


def test_another_working_directory_has_another_record(recorded: Launcher, place: Path, monkeypatch) -> None:
    name = recorded.ask([*ARGUMENTS, "-g"]).name
    monkeypatch.chdir(place / "out")
    assert recorded.ask([*ARGUMENTS, "-g"]).name not in ("", name)


def test_where_words_end_counts(recorded: Launcher) -> None:
    lines = (["-I", "-O2"], ["-I-O2"], ["-I", "-O2", ""], ["", "-I", "-O2"])
    names = {recorded.ask(line).name for line in lines}
    assert len(names) == 4 and "" not in names


def test_a_call_that_is_too_long_is_left_to_python(recorded: Launcher) -> None:
    assert recorded.ask([*ARGUMENTS, *["-DX=" + "x" * 100_000] * 3]).name == ""


def test_diagnostics_are_shown_on_a_terminal_too(recorded: Launcher) -> None:
    ours, terminal = pty.openpty()
    argv = [*recorded.front, *ARGUMENTS]
    done = subprocess.run(argv, env=recorded.environ, stdout=subprocess.DEVNULL, stderr=terminal, check=False)
    os.close(terminal)
    os.close(ours)
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_left_to_python(
    launcher: Launcher, compiler: str, place: Path, closed: str
) -> None:
    """Files opened next get their numbers."""
    launcher.environ["PWD"] = str(place)  # or the shell would set it
    assert record(launcher, compiler)
    for redirected, status in (("", 0), (closed, LEFT_TO_PYTHON)):
        argv = ["sh", "-c", f'exec "$@" {redirected}', "sh", *launcher.front, *ARGUMENTS]
        done = subprocess.run(argv, env=launcher.environ, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == status
        assert os.path.exists("out/a.o") == (status == 0)
        Path("out/a.o").unlink(missing_ok=True)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002, 0o000])
def test_new_files_have_the_umask(recorded: Launcher, umask: int) -> None:
    recorded.become = {"umask": umask}
    assert recorded.ask(ARGUMENTS).is_answer
    assert [os.stat(f"out/{name}").st_mode & 0o777 for name in ("a.o", "a.d")] == [0o666 & ~umask] * 2


def test_a_pipe_without_reader(recorded: Launcher) -> None:
    """Only the products are checked, not nvcc's streams."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*recorded.front, *ARGUMENTS], env=recorded.environ, stdout=writing, stderr=writing, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert Path("out/a.o").read_bytes() == OBJECT


def test_python_gets_the_signals_as_they_were(recorded: Launcher, place: Path, compiler: str) -> None:
    """Even if the record holds and a product cannot be written."""
    python = shutil.copytree(recorded.program.parents[1], place / "own") / "bin/python3"
    own = Launcher(python.with_name("nvccache"), recorded.environ["NVCCACHE_DIR"], ENVIRON, ["", compiler])
    own.front[0] = str(own.program)
    own.environ["PWD"] = str(place)  # or the shell would set it
    assert record(own, compiler)
    Path("out/a.d").mkdir()
    python.write_text("#!/bin/sh\nexec grep -E '^Sig(Blk|Ign)' /proc/self/status\n")
    argv = ["sh", "-c", 'trap "" PIPE; exec "$@"', "sh", *own.front, *ARGUMENTS]
    done = subprocess.run(argv, env=own.environ, check=True, capture_output=True)
    blocked, ignored = (int(line.split(b":")[1], 16) for line in done.stdout.splitlines())
    assert [ignored >> signum - 1 & 1 for signum in (signal.SIGPIPE, signal.SIGXFSZ)] == [1, 0]
    assert [blocked >> signum - 1 & 1 for signum in (signal.SIGHUP, signal.SIGTERM)] == [0, 0]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("name", ["out/a.o", "out/a.d"])
def test_a_product_that_takes_what_is_said_is_left_to_nvcc(
    recorded: Launcher, name: str, stream: str
) -> None:
    """Messages and product would overwrite each other: neither the launcher nor Python answers."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with open(name, "wb") as product:
        argv = [*recorded.front, *ARGUMENTS]
        streams[stream] = product.fileno()
        done = subprocess.run(argv, env=recorded.environ, check=False, **streams)
        assert done.returncode == LEFT_TO_PYTHON
    program = f"""import sys
from nvccache.records.products import Product, write_all
try:
    write_all([Product({name!r}, b"product")])
except OSError:
    sys.exit(3)"""
    with open(name, "wb") as product:
        streams[stream] = product.fileno()
        done = subprocess.run([sys.executable, "-c", program], check=False, **streams)
    assert done.returncode == 3
    assert Path(name).read_bytes() == b""
