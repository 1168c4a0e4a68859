"""What `nvccache doctor BUILD_DIRECTORY` sees of a build: what CMake's cache there says of launchers."""

from __future__ import annotations

import os
import re
import shlex
import shutil

from nvccache import real_nvcc
from nvccache.cli import path_checks
from nvccache.cli.finding import BAD, GOOD, ODD, Finding
from nvccache.cli.install import launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE = "CMakeCache.txt"
_LARGEST = 1 << 24  # bytes
_ENTRY = re.compile(r"^([A-Za-z0-9_.+-]+):[A-Z]+=(.*)$", re.MULTILINE)
_CUDA, _HOST = "CMAKE_CUDA_COMPILER_LAUNCHER", ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def of_build(directory: str) -> Iterator[Finding]:
    path = os.path.join(directory, _FILE)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "it is no regular file")  # a FIFO would wait for a writer
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            entries = dict(_ENTRY.findall(stream.read(_LARGEST)))
    except OSError as error:
        text = f"`{directory}` has no `{_FILE}` that can be read: {error.strerror}"
        yield Finding(BAD, "build", text, ("only build directories of CMake can be looked at",))
        return
    quoted = shlex.quote(directory)
    for name in _HOST:
        if path_checks.names_nvccache(entries.get(name, "")):
            yield path_checks.for_host_code(
                f"`{name}` of `{directory}` names nvccache", f"cmake -U {name} {quoted}"
            )
    if "CMAKE_CUDA_COMPILER" not in entries:
        yield Finding(ODD, "build", f"`{directory}` compiles no CUDA: nvccache has nothing to do there")
        return
    yield from _of_cuda(directory, entries)


def _of_cuda(directory: str, entries: dict[str, str]) -> Iterator[Finding]:
    compiler, value = entries["CMAKE_CUDA_COMPILER"], entries.get(_CUDA, "")
    mend = f"cmake -D{_CUDA}={shlex.quote(launcher() or 'nvccache')} {shlex.quote(directory)}"
    if not os.path.isfile(compiler):
        text = f"`CMAKE_CUDA_COMPILER` of `{directory}` is `{compiler}`, which is not there"
        yield Finding(BAD, "build", text, (), (f"rm {shlex.quote(os.path.join(directory, _FILE))}",))
        return
    is_shim = real_nvcc.is_ours(compiler)
    others = path_checks.other_caches_in(value)
    missing = [word for word in value.split(";")[:1] if word and not shutil.which(word)]
    if missing:
        text = f"`{_CUDA}` of `{directory}` is `{missing[0]}`, which is not there: builds fail"
        yield Finding(BAD, "build", text, (), (mend,))
    elif others and (is_shim or path_checks.names_nvccache(value)):
        yield path_checks.two_caches(f"`{_CUDA}` of `{directory}` is `{value}`", others[0], mend)
    elif path_checks.names_nvccache(value) or is_shim:
        how = f"`{_CUDA}`" if not is_shim else f"`{compiler}`, which is nvccache"
        yield Finding(GOOD, "build", f"`{directory}` compiles CUDA through the cache, by {how}")
    else:
        yield Finding(ODD, "build", f"`{directory}` compiles CUDA without nvccache", (), (mend,))
