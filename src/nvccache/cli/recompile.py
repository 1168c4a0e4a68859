"""Compiling again what the cache answers, and comparing: for `nvccache verify`.

The command line of a compile is in its object's record word by word, but for values of macros and of words
for other programs, which may be secrets. So those compiles can be tried again whose words are all shown,
which name their output, and which this user made; others are counted, with the reason. A command line that is
given is tried as it is.

Nothing is written beside the sources: products go into a temporary directory. The cache is only read.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from nvccache import environment
from nvccache.cli import contents
from nvccache.cli.install import counted, private_launcher
from nvccache.commandline import invocation, redaction, tokens
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.explain.object_record import ObjectRecord

SAME, DIFFERENT, SKIPPED = "same", "different", "skipped"
_HIT = ("direct_hit", "stage_hit", "partial_hit")
_OUTPUT, _DEPENDENCIES = "output-file", "dependency-output"


@dataclass(frozen=True)
class Tried:
    """What came of one command."""

    state: str  # SAME, DIFFERENT or SKIPPED
    directory: str
    argv: tuple[str, ...]
    text: str  # a clause: why it was skipped, or what differs


def argv_of(record: ObjectRecord) -> list[str] | str:
    """The words of a compile, from the record of its object; or why they are not known, a clause."""
    words = contents.shown_parts(record, "arguments")
    if any(redaction.HIDDEN in word for word in words):
        return "values of macros or of words for other programs are not kept"
    if set(environment.OF_ARGUMENTS).intersection(contents.shown_parts(record, "environment")):
        return "words came from the environment"
    argv = [part for word in words for part in (word.split(" ") if word.startswith("-") else [word])]
    scanned = tokens.scan(argv)
    # A file whose name has a blank cannot be told from two words otherwise.
    if isinstance(scanned, tokens.UnknownOption) or [redaction.shown(each) for each in scanned] != words:
        return "its words cannot be told apart"
    return argv


def retry(nvcc: str, argv: Sequence[str], directory: str, environ: dict[str, str]) -> Tried:
    """Compile by the cache and by nvcc, in a directory, and compare what is made. Raises OSError."""

    def tried(state: str, text: str) -> Tried:
        return Tried(state, directory, (nvcc, *argv), text)

    call = invocation.parse(list(argv), environ)
    if isinstance(call, Bypass):
        return tried(SKIPPED, f"it is not cached ({call.reason})")
    if not os.path.isdir(directory):
        return tried(SKIPPED, "its working directory is gone")
    if not call.output:
        return tried(SKIPPED, "it does not name its output by -o")
    missing = [path for path in call.inputs if not os.path.exists(os.path.join(directory, path))]
    if missing:
        return tried(SKIPPED, f"`{missing[0]}` is gone")
    with tempfile.TemporaryDirectory(prefix="nvccache-verify-") as folder:
        return tried(*_compare(nvcc, call, directory, environ, folder))


def _compare(
    nvcc: str, call: Invocation, directory: str, environ: dict[str, str], folder: str
) -> tuple[str, str]:
    ours = private_launcher()
    of_cache = environ | {"NVCCACHE_READONLY": "1", "NVCCACHE_STATS_DIR": f"{folder}/counts"}
    fresh = environ | {"NVCCACHE_DIR": f"{folder}/cache", "NVCCACHE_STATS_DIR": f"{folder}/fresh"}
    product = f"{folder}/product"

    def made(command: list[str], variables: dict[str, str]) -> tuple[int, bytes]:
        done = subprocess.run(
            [*command, *_redirected(call, folder, product)],
            cwd=directory,
            env=variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        content = b""
        if os.path.exists(product):
            with open(product, "rb") as stream:
                content = stream.read()
            os.unlink(product)
        return done.returncode, content

    from_cache = made([*ours, nvcc], of_cache)
    calls = counted(of_cache)["calls"]  # those of its own
    if not any(calls[name] for name in _HIT):
        return SKIPPED, "nothing of it is in the cache as it would be compiled now"
    keep = f"{folder}/keep"
    os.mkdir(keep)
    plain = made([nvcc, "-keep", "-keep-dir", keep], environ)
    if plain == from_cache:
        return SAME, "as nvcc makes it"
    # Where device code has names of its own, nvcc's are random and ours are not: see module_id.py.
    if plain[0] == from_cache[0] and made([*ours, nvcc], fresh) == from_cache:
        return SAME, "as it is made without anything cached"
    return DIFFERENT, "what the cache gives is not what is compiled now"


def _redirected(call: Invocation, folder: str, product: str) -> list[str]:
    words = []
    for argument in call.arguments:
        if argument.name == _OUTPUT:
            words += ["-o", product]
        elif argument.name == _DEPENDENCIES:
            words += ["-MF", f"{folder}/depfile"]
        else:
            words += argument.tokens
    return words
