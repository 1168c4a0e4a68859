"""Which program a command starts, and what identifies it: the digest of its content, never its date.

Digests of executables (200 MB for a CUDA toolkit) are remembered by the file's stat signature.
"""

from __future__ import annotations

import os
import stat
import time

from nvccache import keys, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.store import Store

# A file changed this recently could change again without its signature showing it.
_TOO_NEW_SECONDS = 2.0
_HOST_PROGRAMS = ("cc1plus", "cc1", "as")
# What decides where a gcc or clang driver looks for its parts.
_HOST_SEARCH = ("PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "GCC_ROOT", "BINUTILS_ROOT")


def resolve(word: str, search_path: str) -> str:
    """The file that a shell would start for a command word, or empty when there is none."""
    if "/" in word:
        return word if _is_program(word) else ""
    for directory in search_path.split(":"):
        candidate = os.path.join(directory or ".", word)
        if _is_program(candidate):
            return candidate
    return ""


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def signature(path: str) -> tuple[str, os.stat_result]:
    """What changes when a file is changed or replaced; raises OSError."""
    status = os.stat(path)
    fields = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ":".join(map(str, fields)), status


def digest_of_program(path: str, store: Store) -> str:
    """The digest of an executable's content, remembered in the store; raises OSError."""
    real_path = os.path.realpath(path)
    shown, status = signature(real_path)
    builder = keys.KeyBuilder("tool")
    builder.add("file", real_path, shown)
    memo_key = builder.key()
    digest = store.find_memo(memo_key)
    if not digest:
        digest = keys.digest_file(real_path)
        is_settled = time.time() - max(status.st_mtime, status.st_ctime) > _TOO_NEW_SECONDS
        if is_settled and signature(real_path)[0] == shown:
            store.add_memo(memo_key, digest)
    return digest


def identify(word: str, environ: Mapping[str, str], store: Store) -> str:
    """What identifies one of NVIDIA's tools; raises OSError when there is no such program."""
    return digest_of_program(_resolve_or_raise(word, environ), store)


def identify_host_compiler(word: str, environ: Mapping[str, str], store: Store) -> str:
    """What identifies a host compiler: its driver, and the programs it starts; raises OSError.

    Only the answers of a real compiler are remembered: a script, or ccache under a compiler's name,
    can start another compiler tomorrow without changing itself.
    """
    driver = _resolve_or_raise(word, environ)
    driver_digest = digest_of_program(driver, store)
    builder = keys.KeyBuilder("host compiler")
    builder.add("driver", word, os.path.realpath(driver), driver_digest)
    builder.add("search", *(f"{name}={environ[name]}" for name in _HOST_SEARCH if name in environ))
    memo_key = builder.key()
    is_compiler = _is_compiler_itself(driver)
    answers = store.find_memo(memo_key) if is_compiler else ""
    if not answers:
        answers = "\n".join(_ask_host_compiler(driver, word, environ))
        if is_compiler:
            store.add_memo(memo_key, answers)
    version, *programs = answers.split("\n")
    identity = keys.KeyBuilder("host compiler identity")
    identity.add("driver", driver_digest, version)
    for program in programs:
        identity.add("program", digest_of_program(program, store))
    return identity.key()


def _is_compiler_itself(driver: str) -> bool:
    """Whether this is a compiled gcc or clang, not something that stands in front of one."""
    real_path = os.path.realpath(driver)
    name = os.path.basename(real_path)
    with open(real_path, "rb") as stream:
        is_elf = stream.read(4) == b"\x7fELF"
    return is_elf and any(part in name for part in ("gcc", "g++", "clang", "c++"))


def _ask_host_compiler(driver: str, word: str, environ: Mapping[str, str]) -> list[str]:
    """The digest of the version text, then the paths of the programs the driver starts."""
    version = process.run([word, "--version"], environ, executable=driver)
    answers = [keys.digest_bytes(version.stdout)]
    for name in _HOST_PROGRAMS:
        answer = process.run([word, f"-print-prog-name={name}"], environ, executable=driver)
        program = os.fsdecode(answer.stdout.strip())
        found = resolve(program, environ.get("PATH", "")) if program else ""
        if found and "\n" not in found:
            answers.append(found)
    return answers


def _resolve_or_raise(word: str, environ: Mapping[str, str]) -> str:
    path = resolve(word, environ.get("PATH", ""))
    if not path:
        raise FileNotFoundError(f"no program `{word}`")
    return path


def describe_processor() -> str:
    """What `-march=native` sees of the processor this runs on, as far as the kernel tells."""
    told = ("vendor_id", "cpu family", "model", "stepping", "flags", "cache size", "CPU part", "Features")
    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if not line.strip():
                    break  # one processor is enough
                if line.partition(":")[0].strip() in told:
                    lines.append(line)
    except OSError:
        return ""
    return "".join(lines)


def is_regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def date_and_size(path: str) -> str:
    """What a tool that asks for a file's date sees; empty when there is no such file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{path}:{int(status.st_mtime)}:{status.st_size}"
