"""What strace saw a command read: the paths, by process, and which of them the observer need not see.

The documented classes, of what the C library and the loader do on their own:

- the loader's search between a program's start and that of the observer in it, and for what dlopen loads by
  name or another library needs; what it found is recorded as loaded;
- components of a path that realpath resolves, which is recorded as a whole;
- locales, messages, character sets and time zones;
- the C library's own questions to the kernel, for what sysconf, malloc and their like answer;
- what the observer itself reads, in its directory and of /proc, and the directories of processes there, whose
  names it replaces by what they lead to.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "open,openat,openat2,creat,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,readlink,readlinkat,"
    "execve,execveat,chdir,fchdir,statfs,getxattr,lgetxattr,listxattr,fork,vfork,clone,clone3"
)
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")
_RESULT = re.compile(r"\) += (-?\d+)(?:<.*>)?(?: ([A-Z]\w+))?")
_TEXT = re.compile(r'(?:(AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_OF_LOCALES = re.compile(
    r"/(?:locale|locale-langpack|gconv|zoneinfo)(?:/|$)|/LC_MESSAGES/|/locale\.alias$|^/etc/localtime$|/gconv-modules"
)
# What sysconf, malloc, getpwnam and the like ask for on their own.
_OF_LIBC = re.compile(
    r"^/proc/(?:self/(?:maps|cgroup|mountinfo|stat|status|task)\b|sys/|stat$|meminfo$|cpuinfo$|filesystems$)"
    r"|^/sys/(?:devices/system/cpu|fs/cgroup|kernel/mm)\b|^/etc/(?:nsswitch\.conf|passwd|group)$|^/var/run/nscd/"
    r"|^/dev/(?:urandom|random|tty|null)$|^/etc/ld\.so\.cache$"
)
_OF_OBSERVER = re.compile(r"^/proc/(?:self|\d+)(?:/(?:exe|cmdline|fd/\d+))?$")


@dataclass
class _Life:
    directory: str
    reports: bool = False  # the observer has begun; until then the loader works
    calls: list[tuple[str, str, bool, bool]] = field(default_factory=list)


def read(trace: Path, directory: str, watched: Path) -> tuple[set[str], set[str]]:
    """The paths, from the root, that were read or looked for by programs, and by loaders that found them."""
    lives: dict[str, _Life] = {}
    read_paths: set[str] = set()
    loaded: set[str] = set()
    for line in trace.read_text(errors="surrogateescape").splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        pid, call, rest = found.groups()
        life = lives.setdefault(pid, _Life(directory))
        result = _RESULT.search(rest)
        is_known = result is not None
        status = int(result[1]) if result else 0
        if call in ("fork", "vfork", "clone", "clone3"):
            if status > 0:
                child = lives.setdefault(str(status), _Life(life.directory, life.reports))
                child.directory, child.reports = life.directory, life.reports
            continue
        text = _TEXT.search(rest)
        if not text or not text[3]:  # of a descriptor there is nothing to look up
            continue
        base = text[2] if text[2] else life.directory
        path = from_root(base, _unescaped(text[3]))
        if call == "execve" and status == 0:
            life.reports = False
            read_paths.add(path)
        elif call == "chdir":
            if status == 0:
                life.directory = path
        elif path == str(watched / "log"):
            life.reports = True
        elif path.startswith(f"{watched}/"):
            continue
        elif not life.reports:
            if status >= 0 and is_known and call.startswith("open"):
                loaded.add(path)
        elif not _writes(call, rest):
            read_paths.add(path)
    return read_paths, loaded


def _unescaped(text: str) -> str:
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in text else text


def _writes(call: str, rest: str) -> bool:
    return call == "creat" or (call.startswith("open") and "O_CREAT" in rest)


def is_documented(path: str, resolved: set[str], sought: set[str]) -> bool:
    """Whether this is of a class that only the C library sees.

    `resolved` are the names that realpath asks about, `sought` those of the libraries that loaders look for.
    """
    return bool(
        _OF_LOCALES.search(path)
        or _OF_LIBC.search(path)
        or _OF_OBSERVER.search(path)
        or os.path.basename(path) in sought
        or path in resolved
    )


def components(resolved: set[str]) -> set[str]:
    """What realpath asks about: each name on the way to a path, and on that to what its links lead to."""
    found: set[str] = set()
    for path in resolved:
        rest = path.split("/")[::-1]
        here = ""
        steps = 0
        while rest and steps < 200:
            steps += 1
            part = rest.pop()
            if part == "..":
                here = os.path.dirname(here)
            elif part not in ("", "."):
                name = f"{here.rstrip('/')}/{part}"
                found.add(name)
                target = os.readlink(name) if os.path.islink(name) else ""
                here = "" if target.startswith("/") else here if target else name
                rest += target.split("/")[::-1]
    return found


def from_root(directory: str, path: str) -> str:
    """Without what tells nothing; `..` stays, since it may follow a link."""
    parts = [part for part in os.path.join(directory, path).split("/") if part not in ("", ".")]
    return "/" + "/".join(parts)
