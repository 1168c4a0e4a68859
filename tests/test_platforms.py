"""Other systems than Linux get a sentence, not a failed import; and the package metadata says Linux."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from installations import ROOT

# A child in which Python says that it runs elsewhere, and has not what it has not there.
CHILD = """\
import runpy, sys
sys.platform, root, entry = sys.argv[1:4]
for name in sys.argv[4:]:
    sys.modules[name] = None
sys.path.insert(0, root + "/src")
sys.argv[:] = ["nvccache", "nvcc", "-c", "a.cu"]
if entry == "module":
    runpy.run_module("nvccache", run_name="__main__")
else:
    runpy.run_path(root + "/src/native/launcher/nvccache-python", run_name="__main__")
"""
MISSING_ON_WINDOWS = ("fcntl", "grp", "pwd", "resource", "termios")
HINT = "hint: under WSL it caches the nvcc of the CUDA toolkit for Linux\n"


def run(platform: str, entry: str, *missing: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", CHILD, platform, str(ROOT), entry, *missing]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("entry", ["module", "launcher"])
@pytest.mark.parametrize(
    ("platform", "missing", "said"),
    [
        ("win32", MISSING_ON_WINDOWS, f"nvccache: runs on Linux only, and this is Windows\n{HINT}"),
        ("darwin", (), "nvccache: runs on Linux only, and this is macOS\n"),
        ("freebsd14", (), "nvccache: runs on Linux only, and this is freebsd14\n"),
    ],
)
def test_another_system_gets_a_sentence(
    platform: str, missing: tuple[str, ...], said: str, entry: str
) -> None:
    done = run(platform, entry, *missing)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_a_build_elsewhere_ends_with_a_sentence(tmp_path: Path) -> None:
    build = "import sys; sys.platform = 'darwin'; import hatchling.build as b; b.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nvccache runs on Linux only" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_metadata_and_tag_say_linux(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        (tags,) = [name for name in archive.namelist() if name.endswith("/WHEEL")]
        lines = archive.read(metadata).decode().splitlines()
        assert "Classifier: Operating System :: POSIX :: Linux" in lines
        assert not [line for line in lines if "OS Independent" in line]
        assert b"\nTag: py3-none-linux_" in archive.read(tags)
