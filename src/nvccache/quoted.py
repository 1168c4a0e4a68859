"""Which files a message may quote.

gcc shows the line that a diagnostic is about, from the file that the line marker names: the source or a
header with its comments and macros, or whatever `#line` names. It does so when it compiles what cudafe++
wrote, too, whose text holds none of that. cudafe++ and cicc quote the preprocessed text, ptxas and nvlink
nothing (strace of nvcc 13.0). Which of the files are quoted follows from options and kinds of messages, so
all of them count.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from nvccache import markers, searches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from nvccache.searches import Watch

# The second form is in what cudafe++ writes.
_MARKER = re.compile(rb'^[ \t]*#[ \t]*(?:line[ \t]+)?\d+[ \t]+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Quoted:
    """The files that can be quoted, and what must stay missing for there to be no more."""

    files: tuple[str, ...] = ()
    missing: tuple[Watch, ...] = ()


NOTHING = Quoted()


def by_messages_about(texts: Iterable[bytes], scratch: str) -> Quoted:
    """What messages about these texts may quote; intermediates, in `scratch`, are known by other means."""
    names = {name for text in texts for name in _MARKER.findall(text)}
    paths = [os.fsdecode(markers.unescaped(name)) for name in sorted(names)]
    files, missing = [], []
    for path in paths:
        if not path or path.startswith(scratch + "/") or os.path.isdir(path):
            continue
        if os.path.exists(path):
            files.append(path)
        else:
            missing.append(searches.absence_of(path))
    return Quoted(tuple(files), tuple(missing))
