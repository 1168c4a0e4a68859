"""Other systems than Linux get a sentence, not a failed import; and what is in the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from installations import ROOT
from nvccache.report import page

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
HINT = "hint: under WSL, nvccache works with the CUDA toolkit for Linux\n"


@pytest.mark.parametrize("entry", ["module", "launcher"])
@pytest.mark.parametrize(
    ("platform", "missing", "name", "hint"),
    [
        ("win32", MISSING_ON_WINDOWS, "Windows", HINT),
        ("darwin", (), "macOS", ""),
        ("freebsd14", (), "freebsd14", ""),
    ],
)
def test_another_operating_system_gets_one_error_sentence(platform, missing, name, hint, entry):
    argv = [sys.executable, "-c", CHILD, platform, str(ROOT), entry, *missing]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    sentence = f"nvccache: runs only on Linux, not on {name}\n{hint}"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)


def test_building_on_another_system_fails_with_one_sentence(tmp_path: Path) -> None:
    build = "import sys; sys.platform = 'darwin'; import hatchling.build as b; b.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "nvccache runs only on Linux" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_wheel_is_for_linux_and_holds_the_manual_and_the_parts_of_the_report(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    (metadata,) = [
        text.decode().splitlines() for name, text in contents.items() if name.endswith("/METADATA")
    ]
    assert "Classifier: Operating System :: POSIX :: Linux" in metadata
    (tags,) = [text for name, text in contents.items() if name.endswith("/WHEEL")]
    assert b"\nTag: py3-none-linux_" in tags
    (manual,) = [
        text for name, text in contents.items() if name.endswith(".data/data/share/man/man1/nvccache.1")
    ]
    assert manual == (ROOT / "docs/man/nvccache.1").read_bytes()
    parts = (*page.SCRIPTS, "page.html", "page.css")
    assert {f"nvccache/report/{name}" for name in parts} <= contents.keys()
