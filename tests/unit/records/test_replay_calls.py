"""Command names and directories from which a call may be typed: each has its own replay record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
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


def test_a_call_through_a_shim_named_nvcc_is_replayed(launcher: Launcher, place: Path, compiler: str) -> None:
    masquerade = shim(launcher, place)
    assert record(masquerade, compiler)
    assert holds(masquerade)
    assert not holds(masquerade, PATH=f"{masquerade.environ['PATH']}:/bin")
    assert not holds(launcher)


@pytest.mark.parametrize("change", ["appears", "is executable now"])
def test_an_nvcc_appearing_earlier_on_path_prevents_a_replay(
    launcher: Launcher, place: Path, compiler: str, change: str
) -> None:
    (place / "parts/nvcc").write_text("no program")
    masquerade = shim(launcher, place)
    if change == "appears":
        (place / "parts/nvcc").unlink()
    assert record(masquerade, compiler)
    assert holds(masquerade)
    if change == "appears":
        shutil.copy(compiler, place / "parts/nvcc")
    else:
        (place / "parts/nvcc").chmod(0o755)
    assert not holds(masquerade)


def test_a_bare_nvcc_is_replayed_until_path_finds_another(
    launcher: Launcher, place: Path, compiler: str
) -> None:
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


def test_a_changed_settings_file_prevents_a_replay(launcher: Launcher, place: Path, compiler: str) -> None:
    settings = place / "home/nvccache/config.toml"
    settings.parent.mkdir(parents=True)
    began = time.time_ns()
    settings.write_text(f'max_size = "5G"\ndir = "{launcher.environ["NVCCACHE_DIR"]}"\n')
    time.sleep(0.15)
    del launcher.environ["NVCCACHE_DIR"]
    # A call that began before has not read them as they are now.
    assert not launcher.record(compiler, ARGUMENTS, replayed(), answer_of_call(), since_ns=began)
    assert record(launcher, compiler)
    assert holds(launcher)
    settings.write_text(settings.read_text() + "readonly = true\n")
    assert not holds(launcher)


@pytest.mark.parametrize("named", ["auto", "base", "base/"])
def test_a_replay_is_refused_if_the_base_directory_leads_elsewhere(
    launcher: Launcher, compiler: str, place: Path, named: str
) -> None:
    link = place / "base"
    link.symlink_to(place)
    launcher.environ["NVCCACHE_BASE_DIR"] = named if named == "auto" else f"{place}/{named}"
    assert record(launcher, compiler)
    assert holds(launcher)
    if named == "auto":
        (place / ".git").mkdir()
    else:
        link.unlink()
        link.symlink_to(place / "home")
    assert not holds(launcher)


def test_an_nvcc_that_appeared_during_the_compile_prevents_a_record(
    launcher: Launcher, place: Path, compiler: str
) -> None:
    """It appeared during the compile, which did not find it."""
    masquerade = shim(launcher, place)
    shutil.copy(compiler, place / "parts/nvcc")
    time.sleep(0.15)
    assert not record(masquerade, compiler)
    assert record(masquerade, str(place / "parts/nvcc"))


@pytest.mark.parametrize("spelling", ["{cache}/../cache/.", "/..{cache}", "~/cache", "cache"])
def test_launcher_and_python_agree_on_any_spelling_of_the_cache_directory(
    launcher: Launcher, compiler: str, place: Path, spelling: str
) -> None:
    cache = launcher.environ["NVCCACHE_DIR"]
    launcher.environ["HOME"] = os.path.dirname(cache)
    if spelling == "cache":
        (place / "cache").symlink_to(cache)
    launcher.environ["NVCCACHE_DIR"] = spelling.format(cache=cache)
    assert record(launcher, compiler)
    assert holds(launcher)


def test_the_launcher_finds_the_default_cache_directory(
    launcher: Launcher, compiler: str, place: Path, stored: Store
) -> None:
    del launcher.environ["NVCCACHE_DIR"]
    cases = (("XDG_CACHE_HOME", "xdg", "xdg"), ("HOME", "h", "h/.cache"))
    for name, value, where in cases:
        launcher.environ[name] = f"{place}/{value}"
        shutil.copytree(stored.root, place / where / "nvccache")
        assert record(launcher, compiler)
        assert holds(launcher)
        del launcher.environ[name]


def test_any_other_word_or_directory_leads_to_another_replay_record(
    recorded: Launcher, place: Path, monkeypatch
) -> None:
    lines = (["-I", "-O2"], ["-I-O2"], ["-I", "-O2", ""], ["", "-I", "-O2"])
    names = {recorded.ask(line).name for line in lines}
    monkeypatch.chdir(place / "out")
    names.add(recorded.ask(lines[0]).name)
    assert len(names) == 5 and "" not in names


def test_a_call_that_is_too_long_is_left_to_python(recorded: Launcher) -> None:
    assert recorded.ask([*ARGUMENTS, *["-DX=" + "x" * 100_000] * 3]).name == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_call_with_a_closed_stream_is_left_to_python(
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


def test_replayed_files_get_the_umask_of_the_caller(recorded: Launcher) -> None:
    recorded.become = {"umask": 0o077}
    assert recorded.ask(ARGUMENTS).is_answer
    assert [os.stat(f"out/{name}").st_mode & 0o777 for name in ("a.o", "a.d")] == [0o600] * 2


def test_a_replay_writes_products_though_its_streams_are_broken_pipes(recorded: Launcher) -> None:
    """Only the products are checked, not nvcc's streams."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*recorded.front, *ARGUMENTS], env=recorded.environ, stdout=writing, stderr=writing, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert Path("out/a.o").read_bytes() == OBJECT


def test_the_launcher_starts_python_with_the_callers_signals_and_standard_input(
    recorded: Launcher, place: Path, compiler: str
) -> None:
    """Even if the record holds and a product cannot be written."""
    python = shutil.copytree(recorded.program.parents[1], place / "own") / "bin/python3"
    own = Launcher(python.with_name("nvccache"), recorded.environ["NVCCACHE_DIR"], ENVIRON, ["", compiler])
    own.front[0] = str(own.program)
    own.environ["PWD"] = str(place)  # or the shell would set it
    assert record(own, compiler)
    Path("out/a.d").mkdir()
    answer = "[ -e /proc/self/fd/0 ] && exec grep -E '^Sig(Blk|Ign)' /proc/self/status"
    python.write_text(f'#!/bin/sh\n[ "$1" != -ISc ] || exit 7\n{answer}\n')
    argv = ["sh", "-c", 'trap "" PIPE; exec "$@"', "sh", *own.front, *ARGUMENTS]
    done = subprocess.run(argv, env=own.environ, check=True, capture_output=True)
    blocked, ignored = (int(line.split(b":")[1], 16) for line in done.stdout.splitlines())
    assert [ignored >> signum - 1 & 1 for signum in (signal.SIGPIPE, signal.SIGXFSZ)] == [1, 0]
    assert [blocked >> signum - 1 & 1 for signum in (signal.SIGHUP, signal.SIGTERM)] == [0, 0]
