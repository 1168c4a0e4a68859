"""nvccache: a transparent compiler cache for NVIDIA's nvcc."""

import sys

__version__ = "0.2.0"

_SYSTEMS = {"win32": "Windows", "darwin": "macOS", "cygwin": "Cygwin"}


def require_linux() -> None:
    """Exit with a message where nvccache cannot run: Windows has no fcntl, macOS has no /proc."""
    system: str = sys.platform  # `str` keeps type checkers from assuming one platform
    if system == "linux":
        return
    lines = [f"nvccache: runs only on Linux, not on {_SYSTEMS.get(system, system)}"]
    if system in ("win32", "cygwin"):
        lines.append("hint: under WSL, nvccache works with the CUDA toolkit for Linux")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.exit(1)
