"""What of the cache takes how much room, by kind of entry; see store.py for what the kinds are."""

from __future__ import annotations

import os

from nvccache.store import directory as directories
from nvccache.store import layout, store
from nvccache.values import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.store.directory import Directory

_LARGEST = 1 << 40  # bytes; more is no size, but says that it is not known
_HEAD = 18  # bytes of a zstd frame that hold the size of its content


@dataclass(slots=True)
class Size:
    """Files of one kind: how many, bytes on disk, and bytes before they were compressed."""

    files: int = 0
    bytes: int = 0
    unpacked: int = 0


def by_kind(place: str | Directory) -> dict[str, Size]:
    """Sizes by bucket without its version; blobs as `blob`, or `blob (zstd)` where compressed.

    Raises OSError.
    """
    root = directories.at(place)
    found: dict[str, Size] = {}
    for path, size, _ in layout.entries(root):
        bucket = path.partition("-v")[0]
        is_compressed = path.endswith(store.COMPRESSED)
        kind = found.setdefault(f"{bucket} (zstd)" if is_compressed else bucket, Size())
        kind.files += 1
        kind.bytes += size
        kind.unpacked += (_unpacked(root, path) or size) if is_compressed else size
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _unpacked(root: Directory, path: str) -> int:
    """The size of what a file holds, or 0 where it does not say."""
    import zstandard

    try:
        descriptor, _ = root.open(path)
    except OSError:
        return 0
    try:
        size = zstandard.get_frame_parameters(os.pread(descriptor, _HEAD, 0)).content_size
    except zstandard.ZstdError:
        return 0
    finally:
        os.close(descriptor)
    return size if size < _LARGEST else 0
