"""Finds the nvcc compilers of this machine, for `install`, the tests and the scripts.

Knows where toolkits are installed, including the wheels of the `toolkit` extra. A compile does not use this,
but only nvcc_lookup.py. Run as a program, it prints the first nvcc that it finds.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping

from nvccache import nvcc_lookup

_DEFAULT_NVCC = "/usr/local/cuda/bin/nvcc"


def find_nvcc(environ: Mapping[str, str], configured: str = "", release: str = "") -> str | None:
    """The absolute path of the nvcc that a compile would run or, failing that, of one outside PATH; or None.

    `configured` is the `nvcc` setting. If it is set, no other nvcc is considered. `release` is the required
    CUDA release, such as `13` or `13.0`.
    """
    found = nvcc_lookup.find("", configured, {**environ, nvcc_lookup.TRIED_VARIABLE: ""})
    candidates = [found] if configured else [found, *_outside_of_path()]
    for nvcc in candidates:
        if is_real(nvcc) and (not release or f"{release_of(nvcc)}.".startswith(f"{release}.")):
            return os.path.abspath(nvcc)
    return None


def why_none(configured: str, origin: str, environ: Mapping[str, str]) -> str:
    """A clause for the user: why `find_nvcc` found none. `origin` is the setting's, from Config.origins."""
    if configured:
        return nvcc_lookup.why_none("", configured, origin, environ)[1]
    return "there is no nvcc on PATH or below /usr/local"


def export_path(program: str) -> str:
    """A shell command that puts the directory of a program first on PATH."""
    return f'export PATH={shlex.quote(os.path.dirname(program))}:"$PATH"'


def is_real(path: str) -> bool:
    """Whether `path` can be executed and is not nvccache under another name."""
    return nvcc_lookup.is_program(path) and not nvcc_lookup.is_ours(path)


def release_of(nvcc: str) -> str:
    """The CUDA release of an nvcc, such as `13.0`; empty if `nvcc --version` fails or does not name it."""
    try:
        output = subprocess.check_output([nvcc, "--version"], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return ""
    release = re.search(rb"release (\d+\.\d+)", output)
    return release[1].decode() if release else ""


def _outside_of_path() -> Iterator[str]:
    yield _DEFAULT_NVCC
    yield from sorted(glob.glob("/usr/local/cuda-*/bin/nvcc"), key=_numbers, reverse=True)
    yield from _in_wheels()


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def _in_wheels() -> Iterator[str]:
    """Where wheels install nvcc: in a namespace package, not in the `bin` directory of the environment."""
    import importlib.util

    try:
        package = importlib.util.find_spec("nvidia.cu13")
    except ImportError:
        return
    for folder in package.submodule_search_locations or () if package else ():
        yield os.path.join(folder, "bin", "nvcc")


def main() -> int:
    """`python -m nvccache.toolkit.discovery [RELEASE]`: print the path of an nvcc, or fail."""
    nvcc = find_nvcc(os.environ, release="".join(sys.argv[1:2]))
    if nvcc:
        print(nvcc)
    return 0 if nvcc else 1


if __name__ == "__main__":
    sys.exit(main())
