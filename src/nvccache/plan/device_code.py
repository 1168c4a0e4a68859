"""What nvlink reads of an object or an archive: its device code and what tells which of it the host uses.

An object of nvcc holds device code in sections of its own, and host code that an edit changes more often. So
that such an edit does not link, or with -dlto compile, all device code again, files are known here by those
sections alone. Found by linking objects whose other sections were overwritten: the same cubin and the same
registration file came out (CUDA 11.8 to 13.5, tests/scenarios/same_result/test_device_links.py). 13.5 also
looks whether the relocations of other sections are sound, and makes nothing of them.
"""

from __future__ import annotations

import os

from nvccache.files import elf, keys, untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DEVICE_SECTIONS = (b"__nv", b".nv", b".rela__nv", b".rela.nv")
_ARCHIVE = b"!<arch>\n"
_THIN_ARCHIVE = b"!<thin>\n"
_MEMBER_HEADER = 60


def digest_of(path: str) -> str:
    """The digest of what nvlink reads of a file; raises OSError."""
    descriptor = untrusted.open_named(path)
    try:
        content = untrusted.read_all(descriptor, os.fstat(descriptor).st_size)
        untrusted.object_to_more(descriptor)
        return _digest(content)
    finally:
        os.close(descriptor)


def is_thin_archive(path: str) -> bool:
    """Whether an archive only names its members, which can change without it; raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(_THIN_ARCHIVE)) == _THIN_ARCHIVE


def _digest(content: bytes) -> str:
    kind = "device code"
    try:
        if content.startswith(_ARCHIVE):
            members = [("member", (name, _digest(member))) for name, member in _members(content)]
            return keys.key_of(kind, members)
        sections = _device_sections(content)
    except ValueError:
        sections = None
    if sections is None:
        return keys.digest_bytes(content)
    header = (content[:20], content[48:52])  # up to the machine, and its flags
    return keys.key_of(kind, [("header", header), *(("section", section) for section in sections)])


def _device_sections(content: bytes) -> list[tuple[bytes, bytes]] | None:
    """Names and contents; None for what is no host object. Raises ValueError."""
    if not elf.is_understood(content):
        return None
    kind, machine = elf.type_and_machine(content)
    if kind != elf.RELOCATABLE or machine == elf.CUDA_MACHINE:  # of a cubin, all is read
        return None
    found = [section for section in elf.sections(content) if section[0].startswith(_DEVICE_SECTIONS)]
    return [(section[0], elf.content_of(content, section)) for section in found]


def _members(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents of an archive's members, without their dates and owners; raises ValueError."""
    position = len(_ARCHIVE)
    while position < len(content):
        header = content[position : position + _MEMBER_HEADER]
        if len(header) < _MEMBER_HEADER or not header.endswith(b"`\n"):
            raise ValueError("no member's header")
        size = int(header[48:58])
        start = position + _MEMBER_HEADER
        if start + size > len(content):
            raise ValueError("a member beyond the end")
        name = header[:16].rstrip()
        # The table of symbols follows from the members, and has a date.
        if name not in (b"/", b"/SYM64/"):
            yield name, content[start : start + size]
        position = start + size + size % 2
