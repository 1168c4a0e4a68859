"""Which nvcc stands behind a call: never nvccache itself, and no program twice."""

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


def test_a_relative_path_stays_as_it_is_typed(tmp_path, path, monkeypatch):
    _program(tmp_path / "bin" / "nvcc")
    monkeypatch.chdir(tmp_path)
    for typed in ("bin/nvcc", "./bin/../bin//nvcc"):
        assert find(typed, "", path) == typed


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("bin", "bin/nvcc"),
        ("./bin//", "./bin/nvcc"),
        ("bin/.", "bin/./nvcc"),
        (".", "./nvcc"),
        ("", "./nvcc"),
    ],
)
def test_a_relative_entry_of_the_path_stays_as_nvcc_has_it(tmp_path, monkeypatch, entry, found):
    _program(tmp_path / "bin" / "nvcc")
    monkeypatch.chdir(tmp_path if "bin" in entry else tmp_path / "bin")
    assert find("nvcc", "", {"PATH": f"/nowhere:{entry}"}) == found


def test_a_relative_path_that_was_tried_is_told_from_the_same_words_elsewhere(tmp_path, monkeypatch):
    for name in ("one", "two"):
        _program(tmp_path / name / "bin" / "nvcc")
    monkeypatch.chdir(tmp_path / "one")
    environ = {"PATH": "bin"}
    while found := find("", "", environ):
        environ = guarded(environ, found)
    monkeypatch.chdir(tmp_path / "two")
    assert find("", "", environ) == "bin/nvcc"


@pytest.mark.parametrize(
    ("typed", "configured", "wanted", "other"),
    [
        ("/cuda/nvcc", "", "/cuda/nvcc", "one/nvcc"),
        ("nvcc-13", "", "two/nvcc-13", "one/nvcc"),
        ("", "", "two/nvcc", "three/nvcc"),
        ("", "/cuda/nvcc", "/cuda/nvcc", "one/nvcc"),
        ("", "nvcc-12", "two/nvcc-12", "one/nvcc"),
        ("/cuda/nvcc", "/set/nvcc", "/cuda/nvcc", "set/nvcc"),
    ],
    ids=["path", "name", "first on PATH", "setting", "name in the setting", "not the setting"],
)
def test_which_of_two_is_found(tmp_path, path, typed, configured, wanted, other):
    """What a launcher names, or else the setting, or else nvcc; PATH is searched for what is no path."""
    found = _program(tmp_path / wanted.lstrip("/"))
    _program(tmp_path / other)
    typed, configured = (f"{tmp_path}{name}" if "/" in name else name for name in (typed, configured))
    assert find(typed, configured, path) == found


def test_a_shim_is_passed_over(tmp_path, path):
    _shim(tmp_path / "one" / "nvcc")
    wanted = _program(tmp_path / "two" / "nvcc")
    assert find("", "", path) == wanted


def test_a_shim_named_by_a_launcher_or_the_setting_leads_to_the_one_behind_it(tmp_path, path):
    shim = _shim(tmp_path / "one" / "nvcc")
    wanted = _program(tmp_path / "two" / "nvcc")
    assert find(shim, "", path) == wanted
    assert find("", shim, path) == wanted


@pytest.mark.parametrize("name", ["nvccache", "nvccache-python"])
def test_behind_nvccache_in_place_of_a_compiler_stands_an_nvcc(tmp_path, path, name):
    own = _program(tmp_path / "venv" / name)
    wanted = _program(tmp_path / "two" / "nvcc")
    assert find(own, "", path) == find("", own, path) == find("", name, path) == wanted


def test_why_there_is_none_is_a_sentence(path):
    said = real_nvcc.why_none("", ".", "NVCCACHE_NVCC", path)
    assert said == (
        127,
        "there is no compiler `.`, which NVCCACHE_NVCC names, behind nvccache on PATH",
    )
    assert real_nvcc.why_none("nvcc", "", "default", path)[1] == (
        "there is no compiler `nvcc` behind nvccache on PATH"
    )


def test_a_fifo_is_not_ours_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "nvcc")
    assert not is_ours(str(tmp_path / "nvcc"))


def test_a_link_from_nvcc_to_nvccache_is_passed_over(tmp_path, path):
    _program(tmp_path / "venv" / "nvccache")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "nvcc").symlink_to(tmp_path / "venv" / "nvccache")
    wanted = _program(tmp_path / "two" / "nvcc")
    assert find("", "", path) == wanted


def test_the_very_program_that_was_started_is_passed_over(tmp_path, path, monkeypatch):
    started = _program(tmp_path / "one" / "nvcc")
    wanted = _program(tmp_path / "two" / "nvcc")
    monkeypatch.setattr(sys, "argv", [started])
    assert find("", "", path) == wanted


def test_a_link_to_a_real_nvcc_is_not_resolved(tmp_path, path):
    _program(tmp_path / "cuda" / "bin" / "nvcc")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "nvcc").symlink_to(tmp_path / "cuda" / "bin" / "nvcc")
    assert find("", "", path) == f"{tmp_path}/one/nvcc"


def test_what_cannot_be_executed_is_passed_over(tmp_path, path):
    (tmp_path / "one" / "nvcc").mkdir(parents=True)
    Path(_program(tmp_path / "two" / "nvcc")).chmod(0o644)
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "nvcc").symlink_to("nowhere")
    assert find("", "", path) == ""


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


def test_a_program_that_cannot_be_read_is_not_ours(tmp_path):
    assert not is_ours(str(tmp_path / "missing"))


def test_a_mark_far_inside_a_program_does_not_make_it_ours(tmp_path):
    large = _program(tmp_path / "nvcc", "#!/bin/sh\n" + "#" * 10_000 + SHIM_MARK.decode())
    assert not is_ours(large)


def test_the_environment_is_not_changed_in_place():
    environ = {"A": "1"}
    assert guarded(environ, "/x/nvcc") == {"A": "1", TRIED_VARIABLE: "/x/nvcc"}
    assert environ == {"A": "1"}
