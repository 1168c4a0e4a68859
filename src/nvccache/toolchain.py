"""Which program a command starts, and what identifies it: the digest of its content, never its date.

Digests of executables (200 MB for a CUDA toolkit) are remembered by the file's stat signature.
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass

from nvccache import keys, process, signatures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.store import Store

# A shell script of nothing but comments and `exec /path/to/program "$@"`.
_HANDING_OVER = re.compile(
    rb"""#![ ]?(?:/usr)?/bin/(?:ba|da)?sh[^\n]*\n(?:[ \t]*(?:\#[^\n]*)?\n)*"""
    rb"""[ \t]*exec[ \t]+(["']?)(/[\w./+-]+)\1[ \t]+"\$@"\s*"""
)
_WHOLE_PATH = re.compile(rb"/[\w./+-]+")
_VARIABLE = re.compile(rb"\$\{?([A-Za-z_]\w*)")
_LARGEST_SCRIPT = 1 << 16
_MOST_FILES = 32
_MOST_SCRIPTS = 4
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


def missing_program(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The first command word that stands for no program, or empty: some toolkits lack some of the tools."""
    return next((word for word in words if not resolve(word, environ.get("PATH", ""))), "")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def digest_of_program(path: str, store: Store) -> str:
    """The digest of an executable's content, remembered in the store; raises OSError."""
    real_path = os.path.realpath(path)
    shown = _signature_or_raise(real_path)
    builder = keys.KeyBuilder("tool")
    builder.add("file", real_path, signatures.to_text([shown]))
    memo_key = builder.key()
    digest = store.find_memo(memo_key)
    if not digest:
        digest = keys.digest_file(real_path)
        if signatures.is_settled(shown, time.time_ns()) and signatures.of(real_path) == shown:
            store.add_memo(memo_key, digest)
    return digest


def _signature_or_raise(path: str) -> signatures.Signature:
    found = signatures.of(path)
    if found is None:
        raise FileNotFoundError(f"no file `{path}`")
    return found


def identify(word: str, environ: Mapping[str, str], store: Store) -> str:
    """What identifies one of NVIDIA's tools; raises OSError when there is no such program."""
    return digest_of_program(_resolve_or_raise(word, environ), store)


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """A host compiler: its driver and the programs that starts, as paths; what identifies them.

    `is_itself` is false for a script, or for what only bears a compiler's name, such as ccache: that can
    start another compiler tomorrow without changing itself.
    """

    driver: str
    programs: tuple[str, ...]
    identity: str
    is_itself: bool


def host_compiler(word: str, environ: Mapping[str, str], store: Store) -> HostCompiler:
    """What a command word stands for; raises OSError. Only a real compiler's answers are remembered."""
    driver = _resolve_or_raise(word, environ)
    driver_digest = digest_of_program(driver, store)
    builder = keys.KeyBuilder("host compiler")
    builder.add("driver", word, os.path.realpath(driver), driver_digest)
    searched = [f"{name}={environ[name]}" for name in _HOST_SEARCH if name in environ]
    builder.add("search", *searched)
    if any(_has_relative_entry(setting.partition("=")[2]) for setting in searched):
        builder.add("directory", os.getcwd())
    scripts = chain_of_scripts(driver)
    builder.add("scripts", *(part for path in scripts for part in (path, digest_of_program(path, store))))
    memo_key = builder.key()
    is_itself = _is_compiler_itself([driver, *scripts][-1])
    answers = store.find_memo(memo_key) if is_itself else ""
    # What is remembered may have been made up, or a part may have gone.
    if not answers or not all(map(_is_program, answers.split("\n")[1:])):
        answers = "\n".join(_ask_host_compiler(driver, word, environ))
        if is_itself:
            store.add_memo(memo_key, answers)
    version, *programs = answers.split("\n")
    identity = keys.KeyBuilder("host compiler identity")
    identity.add("driver", driver_digest, version)
    identity.add("scripts", *(digest_of_program(path, store) for path in scripts))
    for program in programs:
        identity.add("program", digest_of_program(program, store))
    if not is_itself:
        identity.add("script", *_mentioned(driver, environ, store))
    return HostCompiler(driver, tuple(programs), identity.key(), is_itself)


def _has_relative_entry(search_path: str) -> bool:
    return any(not entry.startswith("/") for entry in search_path.split(":"))


def _mentioned(path: str, environ: Mapping[str, str], store: Store) -> list[str]:
    """What a script may heed: the files that it names by their whole path, and variables.

    So for the scripts among those files. What it finds in another way is not seen.
    """
    parts: list[str] = []
    seen: list[str] = []
    waiting = [path]
    while waiting and len(seen) < _MOST_FILES:
        current = waiting.pop()
        seen.append(current)
        with open(current, "rb") as stream:
            text = stream.read(_LARGEST_SCRIPT)
        parts += [current, digest_of_program(current, store)]
        if text.startswith(b"\x7fELF"):
            continue
        names = sorted({os.fsdecode(name) for name in _VARIABLE.findall(text)})
        parts += [f"{name}={environ.get(name)}" for name in names]
        files = sorted({os.fsdecode(name) for name in _WHOLE_PATH.findall(text)}.difference(seen, waiting))
        waiting += [name for name in files if is_regular_file(name) and os.access(name, os.R_OK)]
    return parts


def programs_in_script(path: str) -> list[str]:
    """The executables that a script, or a script that it names, names by their whole path."""
    found: list[str] = []
    seen: list[str] = []
    waiting = [os.path.realpath(path)]
    while waiting and len(seen) < _MOST_FILES:
        current = waiting.pop(0)
        seen.append(current)
        with open(current, "rb") as stream:
            text = stream.read(_LARGEST_SCRIPT)
        if text.startswith(b"\x7fELF"):
            found.append(current)
            continue
        named = [os.path.realpath(os.fsdecode(name)) for name in _WHOLE_PATH.findall(text)]
        waiting += [
            name for name in dict.fromkeys(named) if name not in (*seen, *waiting) and _is_program(name)
        ]
    return found if seen[0] not in found else []


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


def chain_of_scripts(path: str) -> list[str]:
    """The programs that a script hands over to, one after the other; none for what is no such script."""
    chain: list[str] = []
    while len(chain) < _MOST_SCRIPTS:
        target = _target_of_script(path)
        if not target:
            break
        chain.append(target)
        path = target
    return chain


def is_dependable(path: str) -> bool:
    """Whether a program does what its file says: an executable, or a script that only hands over to one.

    Any other script can look at anything, and run another compiler tomorrow.
    """
    return _target_of_script([path, *chain_of_scripts(path)][-1]) == ""


def _target_of_script(path: str) -> str | None:
    """Where a script hands over to with all of its arguments; empty for an executable, None if unclear."""
    with open(path, "rb") as stream:
        text = stream.read(_LARGEST_SCRIPT)
    if text.startswith(b"\x7fELF"):
        return ""
    match = _HANDING_OVER.fullmatch(text)
    return os.fsdecode(match[2]) if match else None


def is_regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
