"""Records what a real nvcc would do, for the tests next to this file: `nvcc --dryrun` as nvccache runs it.

python tests/golden/record_transcripts.py NVCC...     one directory of transcripts for each release

The paths of this machine are replaced by /cuda (the toolkit), /project (the working directory) and
/scratch. The plans that follow from the transcripts are written by the test:

NVCCACHE_TEST_REGENERATE=1 python -m pytest tests/golden
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass
from nvccache.toolkit.discovery import release_of

TRANSCRIPTS = Path(__file__).with_name("transcripts")
TWO = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
CASES = {
    "c": ["-c", "a.cu"],
    "c_of_two_architectures": ["-c", *TWO, "a.cu", "-o", "out/a.o"],
    "c_of_one_of_them": ["-c", *TWO[:2], "a.cu", "-o", "out/a.o"],
    "c_two_real_of_one_virtual": ["-c", "-gencode", "arch=compute_80,code=[sm_80,sm_86]", "a.cu"],
    "c_ptx_only": ["-c", "-gencode", "arch=compute_90,code=compute_90", "a.cu"],
    "c_threads": ["-t", "4", "-c", *TWO, "a.cu"],
    "c_debug": ["-G", "-g", "-c", "a.cu"],
    "c_tool_options": ["-Xptxas=-v,-O1", "-Xcompiler=-fPIC", "-Xcudafe=--diag_suppress=177", "-c", "a.cu"],
    "c_of_odd_names": ["-c", "sp ace/a b.cu", '-DT=\\"q\\"', "-DS=x y", "-I", "in c", "-o", "ünï.o"],
    "c_of_two_kinds_of_sources": ["-c", "a.cu", "c.cpp"],
    "c_of_equal_base_names": ["-c", "a.cu", "d/a.cu"],
    "c_with_a_dollar": ["-c", "-DV=$HOME", "a.cu"],
    "c_with_a_seed": ["-frandom-seed=x", "-c", "a.cu"],
    "c_with_tiles": ["--enable-tile", "-arch=sm_100", "-c", "a.cu"],
    "mmd_of_two_sources": ["-MMD", "-MP", "-odir", "out", "-c", "a.cu", "b.cu"],
    "dc_lineinfo": ["-dc", "-lineinfo", "-arch=sm_80", "a.cu"],
    "dc_dlto": ["-dc", "-dlto", "-arch=sm_80", "a.cu"],
    "dc_lto_and_real": ["-dc", "-gencode", "arch=compute_80,code=[lto_80,sm_80]", "a.cu"],
    "ptx": ["-ptx", "-arch=sm_90", "a.cu", "-o", "out/a.ptx"],
    "cubin": ["-cubin", "-arch=sm_80", "a.cu"],
    "fatbin_of_two_architectures": ["-fatbin", *TWO, "a.cu"],
    "optix_ir": ["-optix-ir", "-arch=sm_80", "a.cu"],
    "cuda": ["-cuda", "a.cu"],
    "fatbin_of_ptx": ["-fatbin", "-arch=sm_80", "e.ptx"],
    "fatbin_of_cubin": ["-fatbin", "-arch=sm_80", "f.cubin"],
}


def record(nvcc: str) -> None:
    directory = TRANSCRIPTS / release_of(nvcc)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    nvcc = os.path.realpath(nvcc)
    with tempfile.TemporaryDirectory() as project:
        _make_sources(Path(project))
        for name, words in CASES.items():
            status, stderr = _ask(nvcc, words, project)
            text = _without_places(stderr, os.path.dirname(os.path.dirname(nvcc)), project)
            header = f"## argv: {json.dumps(words)}\n## exit: {status}\n"
            (directory / f"{name}.txt").write_bytes(header.encode() + text)


def _make_sources(project: Path) -> None:
    """nvcc writes the path of a source that exists as an absolute one."""
    for words in CASES.values():
        for word in words:
            if word.endswith((".cu", ".cpp", ".ptx", ".cubin")):
                (project / word).parent.mkdir(exist_ok=True)
                (project / word).touch()


def _ask(nvcc: str, words: list[str], project: str) -> tuple[int, bytes]:
    """The status and transcript of the dry run that nvccache asks for."""
    environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": project}
    parsed = invocation.parse(words, environ)
    if isinstance(parsed, Bypass):
        raise SystemExit(f"{words} would never get to a dry run: {parsed}")
    asked = [nvcc, "--dryrun", *parsed.dryrun_arguments, "-keep", "-keep-dir", "/scratch"]
    done = subprocess.run(asked, cwd=project, env=environ, capture_output=True, check=False)
    return done.returncode, done.stderr


def _without_places(text: bytes, toolkit: str, project: str) -> bytes:
    for place, name in (
        (os.path.realpath(project), b"/project"),
        (project, b"/project"),
        (toolkit, b"/cuda"),
    ):
        text = text.replace(os.fsencode(place), name)
    for place in (os.path.expanduser("~"), tempfile.gettempdir(), os.getcwd()):
        if os.fsencode(place) + b"/" in text:
            raise SystemExit(f"a transcript still names {place}")
    return text


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, end="", file=sys.stderr)
        return 2
    for nvcc in sys.argv[1:]:
        record(nvcc)
    return 0


if __name__ == "__main__":
    sys.exit(main())
