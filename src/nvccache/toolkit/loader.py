"""Which libraries a program loads, according to the dynamic loader.

The loader runs with `--list` and LD_DEBUG, which executes no code of the program. The result is kept as a
memo. It stays valid while the files that were found are unchanged, the paths that were tried and missing are
still absent, and the loader's cache (`ld.so.cache`) has the same entries for the names that were searched.

A direct hit imports this only if that cache has changed.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping

from nvccache import environment
from nvccache.files import elf, keys, signatures, untrusted
from nvccache.store.sections import ASCII, STRING, STRINGS, Schema
from nvccache.store.store import Store
from nvccache.toolkit import processor
from nvccache.values import dataclass

_MEMO = Schema(
    "loaded-1",
    ("loader", STRING),
    ("files", STRINGS),
    ("signatures", ASCII),
    ("absent", STRINGS),
    ("cache", STRING),
    ("names", STRINGS),
    ("cache_signature", ASCII),
    ("cache_digest", ASCII),
)
_PRELOAD_LIST = "/etc/ld.so.preload"
_SEARCHED = rb"(?m)^\s*\d+:\tfind library=(\S+) "
_TRIED = rb"(?m)^\s*\d+:\t  trying file=(.+)$"
_CACHE = rb"(?m)^\s*\d+:\t search cache=(.+)$"
_LISTED = rb"(?m)^\t(?:\S+ => )?(.+) \(0x[0-9a-f]+\)$"
_NOT_FOUND = rb"(?m)^\t\S+ => not found$"
_CACHE_NAME = "ld.so.cache"  # built into glibc; its directory is chosen at build time
_LARGEST_CACHE = 64 << 20  # a hundred times that of a large system
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sI24x")
_ENTRY = struct.Struct("<iIIIQ")
# They would add to the loader's output or redirect it.
_REMOVED_VARIABLES = ("LD_BIND_NOW", "LD_DEBUG_OUTPUT", "LD_SHOW_AUXV", "LD_VERBOSE", "LD_WARN")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The files that starting a program loads, and what else decides that."""

    loader: str
    # Libraries in symbol search order, files that were tried and rejected, the loader.
    files: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # paths that would be found first if they existed
    cache: str = ""  # the path of ld.so.cache, if it was searched
    names: tuple[str, ...] = ()  # the library names that were searched
    is_known: bool = True  # if not, only `loader` is set

    @property
    def has_libm(self) -> bool:
        return any(os.path.basename(path).startswith(("libm.", "libm-")) for path in self.files)


def of_program(path: str, environ: Mapping[str, str], cache: Store) -> Loaded:
    """Raises OSError."""
    loader = elf.interpreter(path)
    if loader is None or "LD_AUDIT" in environ:
        return Loaded("", is_known=False)
    if not loader:
        return Loaded("")
    real_path = os.path.realpath(path)
    shown = signatures.all_of([real_path, os.path.realpath(loader)])
    if shown is None:
        raise FileNotFoundError(f"no file `{path}` or `{loader}`")
    search = [f"{name}={environ[name]}" for name in environment.OF_LOADER if name in environ]
    components = [
        ("file", (real_path, loader, signatures.to_text(shown))),
        ("search", tuple(search)),
        ("features", (processor.features(loader, environ, cache, is_of_tool=True),)),
    ]
    memo_key = keys.key_of("loaded", components)
    known = _from_memo(cache.find_memo(memo_key), loader)
    if known:
        return known
    known = _query(real_path, loader, environ)
    if known.is_known and all(map(_settled, (real_path, *known.files))):
        cache.add_memo(memo_key, _to_memo(known))
    return known


def _query(path: str, loader: str, environ: Mapping[str, str]) -> Loaded:
    from nvccache.machine import process

    kept = {name: value for name, value in environ.items() if name not in _REMOVED_VARIABLES}
    done = process.run([loader, "--list", path], {**kept, "LD_DEBUG": "libs"})
    if done.status != 0 or re.search(_NOT_FOUND, done.stdout):
        return Loaded(loader, is_known=False)
    tried = _names(_TRIED, done.stderr)
    listed = [name for name in _names(_LISTED, done.stdout) if os.path.isfile(name)]
    searched_caches = _names(_CACHE, done.stderr)
    names = _names(_SEARCHED, done.stderr)
    is_unclear = len(searched_caches) > 1 or any(":" in name for name in [*names, *searched_caches])
    if is_unclear or not all(digest_of_cache(path, names) for path in searched_caches):
        return Loaded(loader, is_known=False)
    preloaded = [name for name in re.split("[ :]", environ.get("LD_PRELOAD", "")) if "/" in name]
    candidates = [_PRELOAD_LIST, *preloaded, *tried]
    deciding = dict.fromkeys(_first_missing(name) for name in candidates)
    present = [name for name in deciding if os.path.exists(name)]
    if not all(map(os.path.isfile, present)):
        return Loaded(loader, is_known=False)
    return Loaded(
        loader,
        tuple(dict.fromkeys([*listed, *present, loader])),
        tuple(name for name in deciding if name not in present),
        "".join(searched_caches),
        tuple(names),
    )


def _names(pattern: bytes, text: bytes) -> list[str]:
    return [os.fsdecode(name) for name in dict.fromkeys(re.findall(pattern, text))]


def _first_missing(path: str) -> str:
    """The shortest prefix of a path that is not a directory: until it is one, the path cannot exist."""
    while True:
        above = os.path.dirname(path)
        if not above or os.path.isdir(above):
            return path
        path = above


def _to_memo(known: Loaded) -> str:
    encoded = _MEMO.encode(
        {
            "loader": known.loader,
            "files": list(known.files),
            "signatures": signatures.to_text(signatures.all_of(known.files) or []),
            "absent": list(known.absent),
            "cache": known.cache,
            "names": list(known.names),
            "cache_signature": _settled(known.cache),
            "cache_digest": digest_of_cache(known.cache, known.names),
        }
    )
    return os.fsdecode(encoded)


def _from_memo(memo: str, loader: str) -> Loaded | None:
    """The result in a memo, if it is still valid.

    A memo may be forged, so it must name the loader that the program names: that one is going to be run.
    """
    try:
        kept = _MEMO.decode(os.fsencode(memo))
    except ValueError:
        return None
    if kept["loader"] != loader:
        return None
    files, absent, names = (tuple(kept[field]) for field in ("files", "absent", "names"))
    known = Loaded(loader, files, absent, kept["cache"], names)
    if not all(map(_can_be_read, known.files)):
        return None
    now = signatures.all_of(known.files)
    is_same = now is not None and signatures.to_text(now) == kept["signatures"]
    if not is_same or any(map(os.path.exists, known.absent)):
        return None
    if bool(known.cache) != bool(kept["cache_digest"]):
        return None
    is_untouched = kept["cache_signature"] and _settled(known.cache) == kept["cache_signature"]
    is_known = is_untouched or digest_of_cache(known.cache, known.names) == kept["cache_digest"]
    return known if is_known else None


def _can_be_read(path: str) -> bool:
    try:
        return untrusted.can_be_read(os.stat(path))
    except (OSError, ValueError):
        return False


def _settled(path: str) -> str:
    """A file's signature if it is old enough to show any later change, else empty."""
    shown = signatures.of(path) if path else None
    return signatures.to_text([shown]) if shown and signatures.is_settled(shown, time.time_ns()) else ""


def digest_of_cache(path: str, names: Iterable[str]) -> str:
    """The digest of these names' entries in the loader's cache, or of the whole file if it is malformed.

    Empty if the path cannot be a loader's cache: it may come from a forged record.
    """
    if os.path.basename(path) != _CACHE_NAME:
        return ""
    try:
        content = untrusted.read_named(path, _LARGEST_CACHE)
    except (FileNotFoundError, PermissionError):
        return "unreadable"  # the loader cannot read it either
    except (OSError, ValueError):
        return ""
    wanted = {os.fsencode(name) for name in names}
    try:
        found = [("entry", (name, *value)) for name, value in _entries(content) if name in wanted]
    except (struct.error, ValueError):
        return keys.digest_bytes(content)
    return keys.key_of("cache of the loader", found)


def _entries(content: bytes) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Name, path and requirements of each library; raises struct.error and ValueError."""
    start = content.index(_CACHE_MAGIC)  # a table in the older format may precede it
    _, count = _HEADER.unpack_from(content, start)
    table = content[start + _HEADER.size :][: count * _ENTRY.size]
    for kind, name, path, system, hardware in _ENTRY.iter_unpack(table):
        where = [content[start + at : content.index(b"\0", start + at)] for at in (name, path)]
        yield where[0], (where[1], b"%d %d %d" % (kind, system, hardware))
