"""Which real nvcc a call runs: never nvccache itself, and no nvcc within itself without end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvccache.nvcc_lookup import TRIED_VARIABLE, find, guarded, is_script, paths_tried, why_none


def _program(path: Path, content: str = "#!/bin/sh\n", mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(mode)
    return str(path)


@pytest.fixture
def path(tmp_path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}/one:{tmp_path}/two:{tmp_path}/three"}


# Which programs are there (behind `=` a mode, or where a link leads), what is asked for by a
# launcher and by the setting, and what is found on PATH, which has one, two and three.
FOUND = {
    "a launcher's compiler is the one it names": ("cuda/nvcc one/nvcc", "{}/cuda/nvcc", "", "cuda/nvcc"),
    "a launcher's name is looked for": ("one/nvcc two/nvcc-13", "nvcc-13", "", "two/nvcc-13"),
    "the first one on the path": ("two/nvcc three/nvcc", "", "", "two/nvcc"),
    "the setting": ("one/nvcc cuda/nvcc", "", "{}/cuda/nvcc", "cuda/nvcc"),
    "the setting may be a name": ("one/nvcc two/nvcc-12", "", "nvcc-12", "two/nvcc-12"),
    "a launcher before the setting": ("cuda/nvcc one/nvcc", "{}/one/nvcc", "{}/cuda/nvcc", "one/nvcc"),
    "a launcher's shim": ("venv/nvccache one/nvcc=../venv/nvccache two/nvcc", "{}/one/nvcc", "", "two/nvcc"),
    "the setting's shim": ("venv/nvccache one/nvcc=../venv/nvccache two/nvcc", "", "{}/one/nvcc", "two/nvcc"),
    "a shim is passed over": ("venv/nvccache one/nvcc=../venv/nvccache two/nvcc", "", "", "two/nvcc"),
    "a link to a real nvcc stays": ("cuda/bin/nvcc one/nvcc=../cuda/bin/nvcc", "", "", "one/nvcc"),
    "nvccache itself": ("venv/nvccache two/nvcc", "{}/venv/nvccache", "", "two/nvcc"),
    "its script, named by the setting": ("two/nvcc", "", "nvccache-python", "two/nvcc"),
    "what cannot be executed": ("one/nvcc/x two/nvcc=644 three/nvcc=nowhere", "", "", ""),
}


@pytest.mark.parametrize("case", FOUND)
def test_the_real_nvcc_behind_a_shim_is_found(tmp_path, path, case):
    programs, asked, setting, found = FOUND[case]
    for program in programs.split():
        name, _, kind = program.partition("=")
        if kind in ("", "644"):
            _program(tmp_path / name, mode=int(kind or "755", 8))
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).symlink_to(kind)
    assert find(asked.format(tmp_path), setting.format(tmp_path), path) == (found and f"{tmp_path}/{found}")


@pytest.mark.parametrize(
    ("asked", "entry", "found"),
    [
        ("./bin/../bin//nvcc", "", "./bin/../bin//nvcc"), ("nvcc", "./bin//", "./bin/nvcc"),
        ("nvcc", "bin/.", "bin/./nvcc"), ("link", ".", "./link"), ("link", "", "./link"),
    ],
)  # fmt: skip
def test_a_relative_nvcc_path_is_kept_as_typed_or_as_composed_from_path(
    tmp_path, monkeypatch, asked, entry, found
):
    _program(tmp_path / "bin" / "nvcc")
    (tmp_path / "link").symlink_to("bin/nvcc")
    monkeypatch.chdir(tmp_path)
    assert find(asked, "", {"PATH": f"/nowhere:{entry}"}) == found


def test_a_relative_nvcc_path_tried_in_one_directory_may_be_tried_in_another(tmp_path, monkeypatch):
    for name in ("one", "two"):
        _program(tmp_path / name / "bin" / "nvcc")
    monkeypatch.chdir(tmp_path / "one")
    environ = {"PATH": "bin"}
    while found := find("", "", environ):
        environ = guarded(environ, found)
    monkeypatch.chdir(tmp_path / "two")
    assert find("", "", environ) == "bin/nvcc"


@pytest.mark.parametrize(
    ("typed", "configured", "nvcc", "tried", "depends_on_path"),
    [
        ("/cuda/nvcc", "", "/cuda/nvcc", "/cuda/nvcc", False),
        ("", "/cuda/nvcc", "/cuda/nvcc", "/cuda/nvcc", False),
        ("", "", "HERE/two/nvcc", "HERE/one/nvcc HERE/two/nvcc", True),
        ("nvcc-13", "/cuda/nvcc", "HERE/one/nvcc-13", "HERE/one/nvcc-13", True),
        ("HERE/one/nvcc", "", "HERE/two/nvcc", "HERE/one/nvcc HERE/one/nvcc HERE/two/nvcc", True),
        ("nvcc", "", "/elsewhere/nvcc", "/elsewhere/nvcc", True),
    ],
)
def test_paths_before_the_nvcc_that_was_found_are_listed(
    tmp_path, path, typed, configured, nvcc, tried, depends_on_path
):
    nvcc, typed = (text.replace("HERE", str(tmp_path)) for text in (nvcc, typed))
    expected = tried.replace("HERE", str(tmp_path)).split(), depends_on_path
    assert paths_tried(nvcc, typed, configured, path) == expected


def test_a_missing_real_nvcc_is_explained_in_one_sentence(path, tmp_path):
    message = "there is no compiler `.`, which is set in NVCCACHE_NVCC, on PATH besides nvccache"
    assert why_none("", ".", "NVCCACHE_NVCC", path) == (127, message)
    assert why_none("nvcc", "", "default", path) == (
        127,
        "there is no compiler `nvcc` on PATH besides nvccache",
    )
    denied = _program(tmp_path / "two" / "nvcc", mode=0o644)
    for typed in ("nvcc", denied):
        assert why_none(typed, "", "default", path) == (126, f"cannot run `{denied}`: Permission denied")
    folder = str(tmp_path / "two")
    assert why_none(folder, "", "default", path) == (126, f"cannot run `{folder}`: Is a directory")
    assert not is_script(folder) and is_script(denied)


def test_nvccache_itself_is_passed_over_when_looking_for_nvcc(tmp_path, path, monkeypatch):
    started, wanted = _program(tmp_path / "one" / "nvcc"), _program(tmp_path / "two" / "nvcc")
    monkeypatch.setattr(sys, "argv", [started])
    assert find("", "", path) == wanted


def test_an_nvcc_that_started_this_call_is_tried_after_the_others_and_at_most_three_times(tmp_path, path):
    wrapper, wanted = _program(tmp_path / "one" / "nvcc"), _program(tmp_path / "two" / "nvcc")
    once = guarded(path, find("", "", path))
    assert once[TRIED_VARIABLE] == wrapper and TRIED_VARIABLE not in path
    assert find("", "", once) == wanted
    environ = guarded(once, wanted)
    again = []
    while found := find("", "", environ):
        again.append(found)
        environ = guarded(environ, found)
    assert again == [wrapper, wrapper, wanted, wanted]
    other = _program(tmp_path / "three" / "nvcc")
    assert find(other, "", guarded(path, other)) == other
    assert find("", other, path) == other
    assert find("", other, guarded(path, other)) == wrapper


def test_a_wrapper_that_finds_nvccache_again_ends_up_at_the_real_nvcc(tmp_path):
    """A wrapper script before the shim on PATH calls `nvcc`, the shim, which must not call it back."""
    import nvccache

    source = os.path.dirname(os.path.dirname(nvccache.__file__))
    shim = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {source!r})\n"
    _program(tmp_path / "shims" / "nvcc", shim + "from nvccache.entry_point import main\nsys.exit(main())\n")
    _program(tmp_path / "wrappers" / "nvcc", '#!/bin/sh\nPATH=${PATH#*:}:${PATH%%:*} exec nvcc "$@"\n')
    _program(tmp_path / "cuda" / "nvcc", '#!/bin/sh\necho real "$@"\n')
    environ = {
        **os.environ,
        "PATH": f"{tmp_path}/wrappers:{tmp_path}/shims:{tmp_path}/cuda:/usr/bin:/bin",
        "NVCCACHE_DIR": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    for name in ("wrappers", "shims"):
        argv = [f"{tmp_path}/{name}/nvcc", "--version"]
        done = subprocess.run(argv, env=environ, capture_output=True, timeout=30, check=True)
        assert done.stdout == b"real --version\n"
