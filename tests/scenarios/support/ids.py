"""Compares what nvccache and plain nvcc make, except for module ids: ours are not nvcc's (module_id.py)."""

from __future__ import annotations

import re
from pathlib import Path

from workspaces import Workspace

_COVERAGE_NOTES, _STAMP = b"oncg", 16  # the beginning, and where a checksum ends
_DATA_OF_PTX = re.compile(rb"(?m)^\s*\.b(8|16|32|64) .*$")
_FATBIN = b"\x50\xed\x55\xba"  # the beginning of such a file
_MODULE_ID = re.compile(rb"_[0-9a-f]{8}_(\d+)_")
# Of nvcc's own ids, such as `_Z1kPi` where more of a mangled name follows: ours has eight digits.
_REST = re.compile(rb"_[0-9a-f]{8}(_\d+)?|__Z\d[A-Za-z_]\w{0,4}?(?=\d|E|\W|\Z)")
_TYPE, _RELOCATABLE = 16, 1  # e_type of an ELF file


def are_alike(one: bytes, other: bytes, workspace: Workspace) -> bool:
    """Whether two products differ in nothing but their module ids."""
    if one == other:
        return True
    shown, expected = readable(one, workspace), readable(other, workspace)
    heads = heads_of_ids(expected)
    return bool(heads) and lines_without_ends(shown, heads) == lines_without_ends(expected, heads)


def heads_of_ids(content: bytes) -> list[bytes]:
    """The module ids in a content, without their last parts: nvcc's are other ones than ours."""
    ends = ((match.start(), match.end() + int(match[1][-3:])) for match in _MODULE_ID.finditer(content))
    return sorted({content[start:end] for start, end in ends if _REST.match(content, end)})


def lines_without_ends(text: bytes, heads: list[bytes]) -> list[bytes]:
    """The lines of a text, in any order, without what the last part of a module id decides.

    The debug information of PTX spells names letter by letter, and tells how long all that is.
    """
    text = _DATA_OF_PTX.sub(b"", text)
    return sorted(without_ends(text, heads).splitlines())


def without_ends(text: bytes, heads: list[bytes]) -> bytes:
    """A text without the last parts of these module ids, and the lengths in mangled names that hold them."""
    for head in heads:
        text = re.sub(re.escape(head) + rb"(?:" + _REST.pattern + rb")", head, text)
        text = re.sub(rb"\w*" + re.escape(head) + rb"\w*", lambda name: re.sub(rb"\d", b"", name[0]), text)
    return text


def readable(content: bytes, workspace: Workspace) -> bytes:
    """An object's content, except for what depends on the length of the module id."""
    if content.startswith(_COVERAGE_NOTES):  # which hold checksums of names
        return b"\n".join(re.findall(rb"[ -~]{6,}", content[_STAMP:]))
    if not content.startswith((b"\x7fELF", _FATBIN)):
        return content
    path = workspace.directory.parent / "object"
    path.write_bytes(content)
    dumps = [["nm", "--format=just-symbols"]]
    if content[_TYPE] == _RELOCATABLE:  # elsewhere, all addresses depend on the length of an id
        dumps.append(["objdump", "-d"])
    cuobjdump = Path(workspace.nvcc).with_name("cuobjdump")
    if cuobjdump.exists():
        dumps.append([str(cuobjdump), "-ptx", "-sass"])
    return b"".join(workspace.run([*argv, path]).stdout for argv in dumps)
