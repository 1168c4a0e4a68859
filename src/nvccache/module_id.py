"""The module id, which makes the names of a TU's internal device symbols unique. nvccache always chooses it.

Under nvcc, cudafe++ (on 11.x a cicc) composes `_<crc32 of the source's path>_<length>_<base name>_<rest>` and
writes it to a file, for which the other tools wait. The rest names the first external definition; in a TU
without one, it contains the time and a process id, so that every run gives another object. Each of these
tools reads the file unless an option makes it write the file, and its other outputs are the same in both
cases (CUDA 11.8 to 13.5, found by comparing all files). Therefore nvccache can write the file before the
tools run, with an id whose rest is made from

    the names of outputs    which differ for two objects of a program. If the source's path is absolute, as
                            with CMake, they are relative to the working directory, so that build directories
                            share results. Otherwise they are absolute or, below a base directory, relative to
                            the checkout, since the Makefiles of two directories may compile one source.
    the text                of the first pass, without line numbers.

Nothing else is part of the id: a macro that is not used, or an option of one tool, does not change it. Below
a base directory the source's path is relative to the checkout, so that all checkouts have the same id. A
result that may contain the id is stored under a key with the id.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence

from nvccache.files import keys
from nvccache.plan.model import Plan, Stage

# The first is in the stub of a TU for separate compilation. The second is at the end of cudafe++'s output,
# and is used only by stubs with names that contain the id.
_DEFINITIONS = (b"#define __NV_MODULE_ID ", b"#define _NV_ANON_NAMESPACE _GLOBAL__N_")
DEFINED_IN = frozenset({"stub", "cudafe1.cpp"})  # the roles of these files
_PLACEHOLDER = b"_nvccache-id-51d0c2f3a86e4b79_"
_FOR_DEVICE_LINKS = "--device-c"
_REST_DIGITS = 8  # as many digits as nvcc's own crc32 has


def compose(source_path: str, source_name: str, outputs: Sequence[str], text: str) -> bytes:
    """The id of a TU, with the base name of `source_name`, which may be a link; `text` is a text's digest."""
    name = re.sub(rb"[^0-9A-Za-z]", b"_", os.fsencode(os.path.basename(source_name)))
    rest = keys.key_of("module id", [("outputs", tuple(outputs)), ("text", (text,))])[:_REST_DIGITS]
    return b"_%08x_%d_%s_%s" % (zlib.crc32(os.fsencode(source_path)), len(name), name, rest.encode())


def compose_for(
    plan: Plan, stage: Stage, cwd: str, checkout: str, has_absolute_inputs: bool, text: str
) -> bytes:
    """The id of a stage's TU, as described above. Without a base directory, `checkout` is empty."""
    name = stage.name("source name")
    source = os.path.join(cwd, stage.name("source path") or name)  # CUDA 11.2 passes only a name
    start = checkout or "/"
    if has_absolute_inputs if checkout else os.path.isabs(name):
        start = cwd
    outputs = [os.path.relpath(path, start) for path in sorted(products_of(plan, stage))]
    return compose(os.path.relpath(source, checkout) if checkout else source, name, outputs, text)


def file_of(stage: Stage) -> str:
    """The intermediate from which a stage reads an id, or empty."""
    return stage.name("module id")


def unit_of(plan: Plan, stage: Stage) -> list[Stage]:
    """The stages that work on the same TU: those that contribute to the same products."""
    ends = products_of(plan, stage)
    return [other for other in plan.stages if ends & products_of(plan, other)]


def first_pass_of(plan: Plan, stage: Stage) -> Stage | None:
    """The pass whose text the id of a stage's TU is made from: the first of the TU in nvcc's order."""
    return next((other for other in unit_of(plan, stage) if other.is_preprocessor), None)


def products_of(plan: Plan, stage: Stage) -> set[str]:
    """The products that a stage writes or contributes to."""
    ends = {output.destination for output in stage.outputs if output.destination}
    return ends.union(*(plan.destinations.get(output.path, ()) for output in stage.outputs))


def may_occur_in(identifier: bytes, contents: Sequence[bytes]) -> bool:
    """Whether one of the contents contains the id, or is binary, so that it may contain it in another form.

    Only the head of the id is searched for: names may contain any part of the rest.
    """
    head = identifier.rpartition(b"_")[0].strip(b"_")
    return any(head in content or b"\0" in content for content in contents)


def defines_id(stage: Stage, role: str) -> bool:
    """Whether an output of this role defines the id for a device link; the object then contains it."""
    return role == "stub" and _FOR_DEVICE_LINKS in stage.argv


def without_id(text: bytes, identifier: bytes) -> bytes:
    """C++ text with a placeholder in place of the id where the text defines it.

    Names that contain the id stay as they are, since they may decide the order of definitions.
    """
    for definition in _DEFINITIONS:
        text = text.replace(definition + identifier, definition + _PLACEHOLDER)
    return text


def with_id(text: bytes, identifier: bytes) -> bytes:
    """The inverse of `without_id`."""
    for definition in _DEFINITIONS:
        text = text.replace(definition + _PLACEHOLDER, definition + identifier)
    return text
