"""A cache directory with remotes, which are queried for what the directory lacks.

This module is only used if NVCCACHE_REMOTE is set and the cache directory does not answer a call, so it is
not part of the hot path. Remotes are not trusted: a blob that does not match its digest is ignored, as is a
record that cannot be decoded. The package remote/ decides how a remote is queried, and for how long.
"""

from __future__ import annotations

from nvccache.files import keys
from nvccache.records import record
from nvccache.store import store
from nvccache.store.event_line import RemoteUse
from nvccache.store.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nvccache.config import Config
    from nvccache.remote.tier import Tier
    from nvccache.store.directory import Directory

LARGEST = 256 << 20  # bytes of an item on a remote; the device code of a large library has tens of MiB
# The first byte of a blob on a remote says whether its sender, and thus its receiver, stores it compressed.
RAW, COMPRESSED = b"r", b"c"

_SECONDS = 2.0  # how long a call waits for all its remotes together


class TieredStore(Store):
    """The store of one call, whose blobs may also be on remotes. Thread-safe.

    Remotes are queried for records only if a caller requests it, because a query takes a while. Some callers
    do other work meanwhile.
    """

    def __init__(self, directory: str | Directory, tier: Tier, is_readonly: bool = False) -> None:
        super().__init__(directory, is_readonly)
        self._tier = tier

    def has_blob(self, digest: str) -> bool:
        """Whether a blob is available. A blob on a remote is copied, since the server may delete it later."""
        return super().has_blob(digest) or self.read_blob(digest) is not None

    def read_blob(self, digest: str) -> bytes | None:
        """The content with this digest, or None. A blob on a remote is copied into this cache."""
        content = super().read_blob(digest)
        if content is not None:
            return content
        for received in self._tier.each(store.BLOB, digest, LARGEST):
            try:
                content, compress = opened_blob(received, digest)
            except ValueError:
                self._tier.note_broken()  # another remote may have an undamaged copy
            else:
                self.add_blob(digest, content, compress, is_received=True)
                return content
        return None

    def read_blobs(self, digests: Iterable[str]) -> Iterator[bytes | None]:
        """The contents of several blobs, which are all requested from remotes at the same time."""
        wanted, is_here = list(digests), super().has_blob
        self._tier.prefetch([(store.BLOB, digest, LARGEST) for digest in wanted if not is_here(digest)])
        return super().read_blobs(wanted)

    def prefetch_records(self, front_keys: Iterable[str]) -> None:
        """Start to fetch records that will be needed, all at the same time."""
        self._tier.prefetch([(store.RECORD, key, store.LARGEST_RECORD) for key in front_keys])

    def remote_records(self, front_key: str) -> Iterator[bytes]:
        """The records that remotes have under a front key, in the order of the remotes in the settings."""
        for received in self._tier.each(store.RECORD, front_key, store.LARGEST_RECORD):
            try:
                yield record.without_hints(received)
            except ValueError:
                self._tier.note_broken()

    def stop_queries(self) -> None:
        """Send no more queries, and do not wait for those in progress, since the call has to end at once."""
        self._tier.close()

    def remote_use(self) -> RemoteUse | None:
        """The queries so far, for the event log; None if there were none."""
        tier = self._tier
        if not tier.asked and not tier.faults:
            return None
        return RemoteUse(tier.asked, tier.found, tier.bytes_in, tier.waited, tuple(tier.faults))


def configured(directory: Directory, config: Config, environ: Mapping[str, str]) -> TieredStore:
    """The store for a cache directory, with the remotes that the settings name."""
    from nvccache import log, remote_url
    from nvccache.remote.tier import Tier

    remotes = remote_url.parse(config.remote)
    tier = Tier(remotes, environ, _SECONDS, lambda sentence: log.write(config.log, sentence))
    return TieredStore(directory, tier, config.readonly)


def opened_blob(received: bytes, digest: str) -> tuple[bytes, bool]:
    """The content of a received blob, and whether to store it compressed; raises ValueError."""
    content = received[1:]  # sliced only once, since it may be large
    if received[:1] not in (RAW, COMPRESSED) or keys.digest_bytes(content) != digest:
        raise ValueError("the blob does not match its digest")
    return content, received[:1] == COMPRESSED
