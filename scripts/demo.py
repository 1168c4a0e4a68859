"""Compiles one program with nvcc and through the cache, and shows what was reused; `scripts/demo` starts it.

It uses a temporary directory and a cache of its own. It needs an nvcc and a host compiler, but no GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from nvccache.toolkit.discovery import find_nvcc, release_of

SOURCE = Path(__file__).with_name("demo.cu")
LINE = "// A filter of TAPS coefficients that the caller keeps in memory.\n"
EDITED_LINE = "// A finite impulse response of TAPS coefficients.\n"
# Of each compile: a title, the real architectures, and whether a comment was edited before it.
STEPS = (
    ("an empty cache", (80, 90), False),
    ("the same again", (80, 90), False),
    ("without sm_90", (80,), False),
    ("a comment edited", (80, 90), True),
)


def main() -> None:
    nvcc = find_nvcc(os.environ)
    if nvcc is None:
        sys.exit("no nvcc found")
    print(f"nvcc {release_of(nvcc)} at {nvcc}, a program of 7 kernels for float and double\n")
    with tempfile.TemporaryDirectory(prefix="nvccache-demo-") as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVCC", "XDG_"))}
        environ = {**kept, "NVCCACHE_DIR": f"{folder}/cache", "XDG_CONFIG_HOME": folder}
        for number, (title, architectures, is_edited) in enumerate(STEPS, 1):
            print(f"{number}. {title}")
            text = SOURCE.read_text()
            assert LINE in text
            Path(folder, "demo.cu").write_text(text.replace(LINE, EDITED_LINE) if is_edited else text)
            compare(nvcc, architectures, folder, environ)
    print("\nAll objects are identical to nvcc's, byte for byte (compared with `nvcc -keep`)")


def compare(nvcc: str, architectures: tuple[int, ...], folder: str, environ: dict[str, str]) -> None:
    """Compile with plain nvcc and through the cache, print what each took, and compare the objects."""
    flags = [f"-gencode=arch=compute_{sm},code=sm_{sm}" for sm in architectures]
    nvccache = [sys.executable, "-Im", "nvccache"]
    launcher = os.path.join(os.path.dirname(sys.executable), "nvccache")
    started = [launcher] if os.path.exists(launcher) else nvccache
    # nvcc's output is reproducible only with -keep: otherwise the object names a temporary file.
    keep = ["-keep", "-keep-dir", tempfile.mkdtemp(dir=folder)]
    for title, command in (("plain nvcc", [nvcc, *keep]), ("nvccache", [*started, nvcc])):
        began = time.monotonic()
        argv = [*command, *flags, "-c", "demo.cu", "-o", f"{title}.o"]
        subprocess.run(argv, cwd=folder, env=environ, check=True)
        print(f"   {title:<10}  {time.monotonic() - began:.2f} s")
    counts = json.loads(subprocess.check_output([*nvccache, "stats", "--json", "--zero"], env=environ))
    is_direct = counts["calls"]["direct_hit"] == 1
    print("   reused     ", "the whole compile, no tool ran" if is_direct else stages(counts, "hit"))
    print("   ran        ", stages(counts, "miss"))
    if Path(folder, "nvccache.o").read_bytes() != Path(folder, "plain nvcc.o").read_bytes():
        sys.exit("the object from the cache differs from nvcc's")


def stages(counts: dict[str, Any], result: str) -> str:
    numbers = {stage: of_stage[result] for stage, of_stage in counts["stages"].items() if of_stage[result]}
    return ", ".join(f"{stage} x{n}" if n > 1 else stage for stage, n in numbers.items()) or "nothing"


if __name__ == "__main__":
    main()
