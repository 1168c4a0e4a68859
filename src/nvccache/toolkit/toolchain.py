"""Which program a command starts, and the digest that identifies it.

Since the executables of a toolkit have 200 MB, their digests are stored as memos, by stat signature.
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


def resolve(name: str, search_path: str) -> str:
    """The program that a shell would start for `name`, argv[0] of a command; empty if there is none."""
    if "/" in name:
        return name if is_program(name) else ""
    return environment.found_on(search_path, name)


def missing_program(names: Sequence[str], environ: Mapping[str, str]) -> str:
    """The first name for which there is no program, or empty. Some toolkits lack some of the tools."""
    return next((name for name in names if not resolve(name, environ.get("PATH", ""))), "")


def digest_of_program(path: str, store: Store) -> str:
    """The digest of an executable's content, from a memo if there is one; raises OSError."""
    signature = signatures.signature_of(path)
    if signature is None:
        raise FileNotFoundError(f"no file `{path}`")
    memo_key = keys.key_of("tool", [("file", (path, signatures.to_text([signature])))])
    digest = store.find_memo(memo_key)
    if not digest:
        digest = keys.digest_file(path)
        if signatures.is_settled(signature, time.time_ns()) and signatures.signature_of(path) == signature:
            store.add_memo(memo_key, digest)
    return digest


def is_compiler(name: str, environ: Mapping[str, str]) -> bool:
    """Whether `name` starts the binary of gcc or clang, not a script or a wrapper with another name.

    Raises OSError if there is no such program.
    """
    real_path = os.path.realpath(program_of(name, environ))
    return elf.is_elf(real_path) and is_compiler_name(real_path)


def is_compiler_name(path: str) -> bool:
    """Whether a program is named like gcc or clang, and not like a program that they start."""
    return any(part in os.path.basename(path) for part in ("gcc", "g++", "clang", "c++"))


def program_of(name: str, environ: Mapping[str, str]) -> str:
    """The program that a shell with this environment would start; raises OSError if there is none."""
    path = resolve(name, environ.get("PATH", ""))
    if not path:
        raise FileNotFoundError(f"no program `{name}`")
    return path


def is_regular_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
