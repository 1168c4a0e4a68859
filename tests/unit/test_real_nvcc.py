"""Which real nvcc a call runs: never nvccache itself, and no program twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvccache import real_nvcc
from nvccache.real_nvcc import SHIM_MARK, TRIED_VARIABLE, find, guarded, is_ours


def _program(path: Path, content: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return str(path)


def _shim(path: Path) -> str:
    return _program(path, f"#!/usr/bin/python3 -I\n{SHIM_MARK.decode()}\n")


@pytest.fixture
def path(tmp_path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}/one:{tmp_path}/two:{tmp_path}/three"}


# Which programs are there (behind `=` what else, `shim` or where a link leads), what is asked for by a
# launcher and by the setting, and what is found on PATH, which has one, two and three.
FOUND = {
    "a launcher's compiler is the one it names": ("cuda/nvcc one/nvcc", "{}/cuda/nvcc", "", "cuda/nvcc"),
    "a launcher's name is looked for": ("one/nvcc two/nvcc-13", "nvcc-13", "", "two/nvcc-13"),
    "the first one on the path": ("two/nvcc three/nvcc", "", "", "two/nvcc"),
    "the setting": ("one/nvcc cuda/nvcc", "", "{}/cuda/nvcc", "cuda/nvcc"),
    "the setting may be a name": ("one/nvcc two/nvcc-12", "", "nvcc-12", "two/nvcc-12"),
    "a launcher before the setting": ("cuda/nvcc one/nvcc", "{}/one/nvcc", "{}/cuda/nvcc", "one/nvcc"),
    "a shim is passed over": ("one/nvcc=shim two/nvcc", "", "", "two/nvcc"),
    "a launcher's shim": ("one/nvcc=shim two/nvcc", "{}/one/nvcc", "", "two/nvcc"),
    "the setting's shim": ("one/nvcc=shim two/nvcc", "", "{}/one/nvcc", "two/nvcc"),
    "a link to nvccache": ("venv/nvccache one/nvcc=../venv/nvccache two/nvcc", "", "", "two/nvcc"),
    "a link to a real nvcc stays": ("cuda/bin/nvcc one/nvcc=../cuda/bin/nvcc", "", "", "one/nvcc"),
    "what cannot be executed": ("one/nvcc/x two/nvcc=644 three/nvcc=nowhere", "", "", ""),
}


@pytest.mark.parametrize("case", FOUND)
def test_what_stands_behind_a_call(tmp_path, path, case):
    programs, asked, setting, found = FOUND[case]
    for program in programs.split():
        name, _, kind = program.partition("=")
        if kind in ("", "shim", "644"):
            Path((_shim if kind == "shim" else _program)(tmp_path / name)).chmod(
                int(kind, 8) if kind == "644" else 0o755
            )
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).symlink_to(kind)
    assert find(asked.format(tmp_path), setting.format(tmp_path), path) == (found and f"{tmp_path}/{found}")


@pytest.mark.parametrize(
    ("asked", "entry", "found"),
    [
        ("bin/nvcc", "", "bin/nvcc"), ("./bin/../bin//nvcc", "", "./bin/../bin//nvcc"),
        ("nvcc", "bin", "bin/nvcc"), ("nvcc", "./bin//", "./bin/nvcc"), ("nvcc", "bin/.", "bin/./nvcc"),
        ("link", ".", "./link"), ("link", "", "./link"),
    ],
)  # fmt: skip
def test_a_relative_path_stays_as_it_is_typed_or_stands_on_path(tmp_path, monkeypatch, asked, entry, found):
    _program(tmp_path / "bin" / "nvcc")
    (tmp_path / "link").symlink_to("bin/nvcc")
    monkeypatch.chdir(tmp_path)
    assert find(asked, "", {"PATH": f"/nowhere:{entry}"}) == found


def test_a_relative_path_that_was_tried_is_not_the_same_path_elsewhere(tmp_path, monkeypatch):
    for name in ("one", "two"):
        _program(tmp_path / name / "bin" / "nvcc")
    monkeypatch.chdir(tmp_path / "one")
    environ = {"PATH": "bin"}
    while found := find("", "", environ):
        environ = guarded(environ, found)
    monkeypatch.chdir(tmp_path / "two")
    assert find("", "", environ) == "bin/nvcc"


@pytest.mark.parametrize("name", ["nvccache", "nvccache-python"])
def test_behind_nvccache_in_place_of_a_compiler_stands_an_nvcc(tmp_path, path, name):
    own = _program(tmp_path / "venv" / name)
    wanted = _program(tmp_path / "two" / "nvcc")
    assert find(own, "", path) == find("", own, path) == find("", name, path) == wanted


def test_why_there_is_none_is_a_sentence(path):
    message = real_nvcc.why_none("", ".", "NVCCACHE_NVCC", path)
    assert message == (
        127,
        "there is no compiler `.`, which NVCCACHE_NVCC names, on PATH besides nvccache",
    )
    assert real_nvcc.why_none("nvcc", "", "default", path)[1] == (
        "there is no compiler `nvcc` on PATH besides nvccache"
    )


def test_what_is_no_program_of_ours(tmp_path):
    os.mkfifo(tmp_path / "fifo")  # which is not waited for
    _program(tmp_path / "large", "#!/bin/sh\n" + "#" * 10_000 + SHIM_MARK.decode())
    assert not any(is_ours(str(tmp_path / name)) for name in ("fifo", "large", "missing"))


def test_the_very_program_that_was_started_is_passed_over(tmp_path, path, monkeypatch):
    started = _program(tmp_path / "one" / "nvcc")
    wanted = _program(tmp_path / "two" / "nvcc")
    monkeypatch.setattr(sys, "argv", [started])
    assert find("", "", path) == wanted


def test_what_was_tried_comes_last_and_not_without_end(tmp_path, path):
    wrapper, wanted = _program(tmp_path / "one" / "nvcc"), _program(tmp_path / "two" / "nvcc")
    once = guarded(path, find("", "", path))
    assert once[TRIED_VARIABLE] == wrapper
    assert find("", "", once) == wanted
    environ = guarded(once, wanted)
    again = []
    while found := find("", "", environ):
        again.append(found)
        environ = guarded(environ, found)
    assert again == [wrapper, wrapper, wanted, wanted]


def test_a_wrapper_that_finds_nvccache_again_ends_up_at_the_real_nvcc(tmp_path):
    """A wrapper script before the shim on PATH calls `nvcc`, the shim, which must not call it back."""
    package = Path(real_nvcc.__file__).parents[1]
    shim = f"#!{sys.executable}\n{SHIM_MARK.decode()}\nimport sys\nsys.path.insert(0, {str(package)!r})\n"
    shim += "from nvccache.shim import main\nsys.exit(main())\n"
    _program(tmp_path / "wrappers" / "nvcc", '#!/bin/sh\nPATH=${PATH#*:}:${PATH%%:*} exec nvcc "$@"\n')
    _program(tmp_path / "shims" / "nvcc", shim)
    _program(tmp_path / "cuda" / "nvcc", '#!/bin/sh\necho real "$@"\n')
    environ = {
        **os.environ,
        "PATH": f"{tmp_path}/wrappers:{tmp_path}/shims:{tmp_path}/cuda:/usr/bin:/bin",
        "NVCCACHE_DIR": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    for name in ("wrappers", "shims"):
        done = subprocess.run(
            [f"{tmp_path}/{name}/nvcc", "--version"], env=environ, capture_output=True, timeout=30, check=True
        )
        assert done.stdout == b"real --version\n"


def test_the_environment_is_not_changed_in_place():
    environ = {"A": "1"}
    assert guarded(environ, "/x/nvcc") == {"A": "1", TRIED_VARIABLE: "/x/nvcc"}
    assert environ == {"A": "1"}
