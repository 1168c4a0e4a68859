"""Compiles the units of a build directory with `nvcc -keep`, for cutlass_build.py to compare with.

`-keep` names intermediate files after their sources, not a process id, so that its objects are the same on
every run. Each distinct command is compiled once, and its object kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# crc32 of the source's path, length of the base name: the first is what depends on the checkout in a module
# id. Device code that fatbinary compressed is out of reach.
_MODULE_ID = re.compile(rb"_[0-9a-f]{8}_(\d+_)")


@dataclass(frozen=True)
class Comparison:
    """How the objects of a build compare with those of `nvcc -keep`."""

    objects: int = 0
    differing: int = 0
    differing_apart_from_id: int = 0
    differing_rules: int = 0  # dependency files
    naming_the_checkout: int = 0  # units whose preprocessed text contains the path of the checkout


def compare(build: Path, folder: Path, nvcc: str) -> Comparison:
    """Compare all objects of a build directory; keeps references in `folder`."""
    listing = subprocess.check_output(["ninja", "-C", str(build), "-t", "compdb"])
    objects = differing = apart_from_id = rules = naming = 0
    for command in json.loads(listing):
        if not command["file"].endswith(".cu"):
            continue
        argv = shlex.split(command["command"])
        position = next(index for index, word in enumerate(argv) if word.endswith("nvcc"))
        arguments = argv[position + 1 :]
        reference = _reference(arguments, build, folder, nvcc)
        made = (build / _value(arguments, "-o")).read_bytes()
        expected = reference.read_bytes()
        objects += 1
        differing += made != expected
        apart_from_id += _without_module_id(made) != _without_module_id(expected)
        rules += (build / _value(arguments, "-MF")).read_bytes() != _rule_of(reference).read_bytes()
        naming += reference.with_suffix(".names").exists()
    return Comparison(objects, differing, apart_from_id, rules, naming)


def _value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def _rule_of(reference: Path) -> Path:
    return reference.with_suffix(".d")


def _reference(arguments: list[str], build: Path, folder: Path, nvcc: str) -> Path:
    """The object of `nvcc -keep` for these arguments, with a marker file if the text names the checkout."""
    digest = hashlib.sha256("\0".join([str(build), *arguments]).encode()).hexdigest()[:16]
    reference = folder / f"{digest}.o"
    if reference.exists():
        return reference
    kept = folder / "kept"
    kept.mkdir(parents=True)
    arguments = list(arguments)
    arguments[arguments.index("-o") + 1] = str(reference)
    arguments[arguments.index("-MF") + 1] = str(_rule_of(reference))
    subprocess.run([nvcc, *arguments, "-keep", "-keep-dir", str(kept)], check=True, cwd=build)
    if any(_names(path, os.fsencode(build.parent)) for path in kept.glob("*.ii")):
        reference.with_suffix(".names").touch()
    shutil.rmtree(kept)
    return reference


def _names(preprocessed: Path, directory: bytes) -> bool:
    """Whether the text contains the directory outside of line markers, by `__FILE__` as in assert."""
    with open(preprocessed, "rb") as stream:
        return any(directory in line for line in stream if not line.startswith(b"#"))


def _without_module_id(content: bytes) -> bytes:
    return _MODULE_ID.sub(rb"_00000000_\1", content)
