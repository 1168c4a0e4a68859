"""Which program a command starts, and what identifies it: the digest of its content, never its date.

Digests of executables (200 MB for a CUDA toolkit) are remembered by the file's stat signature.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence

from nvccache import environment
from nvccache.files import elf, keys, signatures
from nvccache.real_nvcc import is_program
from nvccache.store.store import Store


def resolve(word: str, search_path: str) -> str:
    """The file that a shell would start for a command word, or empty when there is none."""
    if "/" in word:
        return word if is_program(word) else ""
    return environment.found_on(search_path, word)


def missing_program(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The first command word that stands for no program, or empty: some toolkits lack some of the tools."""
    return next((word for word in argv if not resolve(word, environ.get("PATH", ""))), "")


def digest_of_program(path: str, store: Store) -> str:
    """The digest of an executable's content, remembered in the store; raises OSError."""
    real_path = os.path.realpath(path)
    shown = signatures.of(real_path)
    if shown is None:
        raise FileNotFoundError(f"no file `{real_path}`")
    memo_key = keys.key_of("tool", [("file", (real_path, signatures.to_text([shown])))])
    digest = store.find_memo(memo_key)
    if not digest:
        digest = keys.digest_file(real_path)
        if signatures.is_settled(shown, time.time_ns()) and signatures.of(real_path) == shown:
            store.add_memo(memo_key, digest)
    return digest


def identify(word: str, environ: Mapping[str, str], store: Store) -> str:
    """What identifies one of NVIDIA's tools; raises OSError when there is no such program."""
    return digest_of_program(_resolve_or_raise(word, environ), store)


def is_compiler(word: str, environ: Mapping[str, str]) -> bool:
    """Whether a command word stands for a compiled gcc or clang, not for something in front of one.

    Raises OSError when there is no such program.
    """
    real_path = os.path.realpath(_resolve_or_raise(word, environ))
    name = os.path.basename(real_path)
    with open(real_path, "rb") as stream:
        is_elf = stream.read(len(elf.MAGIC)) == elf.MAGIC
    return is_elf and any(part in name for part in ("gcc", "g++", "clang", "c++"))


def _resolve_or_raise(word: str, environ: Mapping[str, str]) -> str:
    path = resolve(word, environ.get("PATH", ""))
    if not path:
        raise FileNotFoundError(f"no program `{word}`")
    return path


def is_regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
