"""How much of nvccache a call runs through: its own files and functions that are entered, and calls made.

    python benchmarks/entered.py [--list CALL]

Compiles one small kernel in turn as a first compile, again with another output name, with one more option
that changes no result, after a comment was added, after the kernel was edited, and with an error. Each call
is a process of its own with a profile hook in all of its threads. With --list, the files that this call
entered are printed, each with its functions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import NoReturn

import nvccache
from nvccache import nvcc_lookup
from nvccache.toolkit import discovery

KERNEL = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n"
COMPILE = ("-arch=sm_80", "-c", "k.cu", "-o", "k.o")
# Call -> source, arguments.
CALLS = {
    "miss": (KERNEL, COMPILE),
    "direct hit": (KERNEL, (*COMPILE[:-1], "again.o")),
    "stage hit": (KERNEL, (*COMPILE, "-MD")),
    "comment": (f"{KERNEL}// a comment\n", COMPILE),
    "edit": (KERNEL.replace("2", "3"), COMPILE),
    "error": (KERNEL.replace("x[", "y["), COMPILE),
}
PACKAGE = os.path.dirname(nvccache.__file__) + os.sep
SETTLED_NS = 1_600_000_000_000_000_000  # files as young as their records are not trusted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", choices=CALLS)
    listed = parser.parse_args().list
    nvcc = discovery.find_nvcc(os.environ)
    if not nvcc:
        raise SystemExit("nvcc is not installed")
    if nvcc_lookup.is_script(nvcc):
        raise SystemExit(f"`{nvcc}` is a script: put the nvcc that it runs first on PATH")
    print(f"{'':12}{'files':>8}{'functions':>12}{'calls':>10}{'lines of the files':>20}")
    with tempfile.TemporaryDirectory() as directory:
        for number, (name, (text, arguments)) in enumerate(CALLS.items()):
            source = Path(directory, "k.cu")
            source.write_text(text)
            os.utime(source, ns=(SETTLED_NS + number, SETTLED_NS + number))
            entered = trace_call(directory, [nvcc, *arguments])
            files = {file for file, _, _ in entered}
            lines = sum(len(Path(PACKAGE, file).read_text().splitlines()) for file in files)
            calls = sum(count for _, _, count in entered)
            print(f"{name:12}{len(files):8}{len(entered):12}{calls:10}{lines:20}")
            if name == listed:
                for file in sorted(files):
                    functions = [f"{function} ({count})" for of, function, count in entered if of == file]
                    print(f"    {file}: {', '.join(sorted(functions))}")


def trace_call(directory: str, argv: list[str]) -> list[tuple[str, str, int]]:
    """Run one call there; the file, name and number of calls of each function of nvccache."""
    target = os.path.join(directory, "entered.json")
    environ = os.environ | {"NVCCACHE_DIR": os.path.join(directory, "cache"), "NVCCACHE_STRICT": "1"}
    command = [sys.executable, "-I", __file__, "--trace", target, *argv]
    subprocess.run(command, cwd=directory, env=environ, capture_output=True, check=False)
    with open(target) as stream:
        return [tuple(each) for each in json.load(stream)]


def trace(target: str, argv: list[str]) -> None:
    """Run a call in this process, and write what it entered to a file before it ends."""
    import threading

    counts: dict[CodeType, int] = {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts[frame.f_code] = counts.get(frame.f_code, 0) + 1

    def end(status: int) -> NoReturn:
        sys.setprofile(None)
        entered = [
            (code.co_filename[len(PACKAGE) :], f"{code.co_qualname}:{code.co_firstlineno}", count)
            for code, count in counts.copy().items()
            if code.co_filename.startswith(PACKAGE)
            and code.co_flags & CO_OPTIMIZED  # neither module nor class
        ]
        with open(target, "w") as stream:
            json.dump(entered, stream)
        end_at_once(status)

    from nvccache.entry_point import main as compile_or_exec

    end_at_once, os._exit = os._exit, end  # how a call ends
    sys.argv = ["nvccache", *argv]
    threading.setprofile(enter)
    sys.setprofile(enter)
    end(compile_or_exec())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trace"]:
        trace(sys.argv[2], sys.argv[3:])
    main()
