"""The dependency file of -MD and -MMD, byte for byte as nvcc writes it.

Part of the hot path: it is written anew for each call, since it names this call's output. The form was
compared with nvcc's own on 11.8 to 13.5; which files it lists is told by line_markers.py.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvccache.commandline.invocation import Invocation


def rule(entered: Sequence[tuple[bytes, bool]], invocation: Invocation) -> bytes:
    """The dependency file of a call whose passes list these files.

    With each file stands whether it is a system header.
    """
    wanted = invocation.dependencies
    assert wanted is not None
    # A name may be listed twice, as a system header's and not.
    files = list(dict.fromkeys(name for name, is_system in entered if not (is_system and wanted.omit_system)))
    chosen = wanted.targets[-1] if wanted.targets else invocation.output or None
    return render(target(entered[0][0], chosen, invocation.output_directory), files, wanted.phony)


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """What the rule is for: the value of -MT or -o, else the source's name as that of an object.

    That is `a.o` for -ptx and -cubin, too. -odir goes in front as it is, even of an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule: blanks are escaped in names, not in the target.

    The source, the first file, stands there as it was typed.
    """
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """The name of a header as nvcc takes it from the marker, whose escapes it does not understand.

    There two backslashes stand for one, which becomes a slash, and a quote ends the name.
    """
    before_quote, quote, _ = name.partition(b'"')
    return before_quote.replace(b"\\", b"/") + (b"\\" if quote else b"")
