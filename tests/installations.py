"""nvccache installed as users install it: a wheel, pip, and a directory of its own.

What nvccache needs (click, blake3) is linked from the environment of the tests: nothing is downloaded.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src" / "native"
_NEEDED = ("blake3", "click", "filelock", "tomli", "xxhash", "zstandard")


# Says how it was started, in place of the script that pip installs; it ends as that does.
REPORT = """\
import sys
def main():
    print(sys.flags.isolated, sys.flags.no_site, sys._xoptions['nvccache'], *sys.argv[1:])
if __name__ == "__main__":
    sys.exit(main())
"""


def build(folder: Path, kind: str = "wheel", **variables: str) -> Path:
    """Build by the interface that pip uses; `kind` is `wheel`, `editable` or `sdist`."""
    folder.mkdir()
    program = f"import sys; from hatchling.build import build_{kind} as build; build(sys.argv[1])"
    environ = {**os.environ, **variables}
    subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, env=environ, check=True)
    (built,) = folder.iterdir()
    return built


def make_environment(folder: Path) -> None:
    """A virtual environment without pip, with what nvccache needs but not nvccache."""
    venv.create(folder, symlinks=True)
    for name in _NEEDED:
        found = importlib.util.find_spec(name)
        if found and found.origin:
            package = Path(found.origin).parent
            (site_packages(folder) / name).symlink_to(package)


def site_packages(folder: Path) -> Path:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return folder / "lib" / version / "site-packages"


def install(wheel: Path, folder: Path) -> Path:
    """Install into a virtual environment; the launcher."""
    _pip("--python", str(folder / "bin" / "python"), "install", str(wheel))
    return folder / "bin" / "nvccache"


def install_below(wheel: Path, prefix: Path) -> Path:
    """Install as `pip install --user` does: no environment's interpreter is next to the launcher."""
    _pip("install", "--prefix", str(prefix), "--ignore-installed", str(wheel))
    return prefix / "bin" / "nvccache"


def _pip(*argv: str) -> None:
    options = [
        "--no-index",
        "--no-deps",
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ]
    subprocess.run([sys.executable, "-m", "pip", *argv, *options], check=True)


def shared(base: Path, name: str, make: Callable[[Path], None]) -> Path:
    """A directory that the first of several test workers makes, for all of them."""
    import filelock

    folder = base / name
    with filelock.FileLock(f"{folder}.lock"):
        if not (base / f"{name}.made").exists():
            make(folder)
            (base / f"{name}.made").touch()
    return folder


@functools.cache
def launcher_of_tree() -> Path:
    """The launcher compiled from this tree, which runs the nvccache of this tree; once for all test runs.

    No installation's: tests may run in a copy of the tree, in which something was changed on purpose.
    """
    sources = [path for name in ("launcher", "redirect") for path in sorted((NATIVE / name).iterdir())]
    inputs = [sys.executable, str(ROOT), *private_path(), *(path.read_bytes().hex() for path in sources)]
    name = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]
    base = Path(tempfile.gettempdir()) / f"nvccache-test-launchers-{os.getuid()}"
    base.mkdir(mode=0o755, exist_ok=True)
    return shared(base, name, _make_launcher) / "nvccache"


def _make_launcher(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    compile_launcher(folder)
    script = (NATIVE / "launcher" / "nvccache-python").read_text()
    script = script.replace("\nimport sys\n", f"\nimport sys\n\nsys.path += {private_path()!r}\n", 1)
    script = script.replace("#!/usr/bin/env python3", f"#!{sys.executable}", 1)
    (folder / "nvccache-python").write_text(script)


def private_path() -> list[str]:
    """The directories that hold this tree's nvccache and what it imports."""
    found = [importlib.util.find_spec(name) for name in _NEEDED]
    parents = [str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin]
    return [str(ROOT / "src"), *dict.fromkeys(parents)]


def compile_launcher(folder: Path, *options: str) -> Path:
    """Compile the launcher of this tree; it finds its script next to itself."""
    program = folder / "nvccache"
    sources = [str(path) for path in sorted((NATIVE / "launcher").glob("*.c"))]
    linking = [] if options else ["-static"]
    subprocess.run(["cc", "-O1", "-g", *options, "-o", str(program), *sources, *linking], check=True)
    library = ["-shared", "-fPIC", "-ftls-model=initial-exec", "-o", str(folder / "nvccache-redirect.so")]
    subprocess.run(["cc", "-O1", "-g", *library, str(NATIVE / "redirect" / "redirect.c")], check=True)
    return program


def text_of(*argv: str | Path, **options: object) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, check=False, **options)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return str(done.stdout.decode())
