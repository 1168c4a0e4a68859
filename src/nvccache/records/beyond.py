"""What lies beyond the cache directory: the remotes, as records and blobs are looked for there.

Behind the hot path: loaded by a call that the cache directory does not answer, where NVCCACHE_REMOTE is set.
What a remote sends is worth no more than its sender: a blob has to have its digest, a record its form, and
whatever is not right is absent. How a remote is spoken to, and for how long, is told in remote/.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.records import record
from nvccache.store import store
from nvccache.store.event_line import RemoteUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nvccache.config import Config
    from nvccache.remote.tier import Tier
    from nvccache.store.store import Store

_LARGEST_RECORD = 1 << 26  # bytes, as its sender had them
LARGEST = 256 << 20  # of what is sent at all; the device code of a large library has tens of MiB
# The first byte of a blob on a remote: how the cache that sent it keeps it.
_RAW, _COMPRESSED = b"r", b"c"


class Beyond:
    """The remotes behind one cache directory, for one call; may be used by several threads."""

    __slots__ = ("tier",)

    def __init__(self, tier: Tier) -> None:
        self.tier = tier

    def want(self, front_keys: Iterable[str]) -> None:
        """Begin to fetch what is going to be asked for, all at once."""
        self.tier.prefetch([(store.RECORD, key, _LARGEST_RECORD) for key in front_keys])

    def want_blobs(self, digests: Iterable[str]) -> None:
        self.tier.prefetch([(store.BLOB, digest, LARGEST) for digest in digests])

    def records(self, front_key: str) -> Iterator[bytes]:
        """The records that remotes have under a front key, as they answer: each may have other ones."""
        for received in self.tier.each(store.RECORD, front_key, _LARGEST_RECORD):
            try:
                yield record.without_hints(received)
            except ValueError:
                self.tier.refuse(store.RECORD, front_key, received)

    def blob(self, digest: str) -> tuple[bytes, bool] | None:
        """The content with this digest, and whether it is an intermediate, which is kept compressed."""
        while True:  # another remote may have what this one should
            received = self.tier.get(store.BLOB, digest, LARGEST)
            if received is None:
                return None
            try:
                return opened_blob(received, digest)
            except ValueError:
                self.tier.refuse(store.BLOB, digest, received)

    def use(self) -> RemoteUse | None:
        """What was asked so far, for the event log; None if nothing was."""
        counts = self.tier.counts
        asked = max((each.asked for each in counts), default=0)  # all are asked for each name
        faults = dict.fromkeys(word for each in counts for word in each.faults)
        if not asked and not faults:
            return None
        found = sum(each.found for each in counts)
        size = sum(each.bytes_in for each in counts)
        return RemoteUse(asked, min(found, asked), size, self.tier.waited, tuple(faults))

    def give_up(self) -> None:
        """Ask for nothing more, and wait for nothing: the call is to end at once."""
        self.tier.close()

    def has_blob(self, digest: str) -> bool:
        return self.tier.has(store.BLOB, digest)


def of(config: Config, environ: Mapping[str, str]) -> Beyond | None:
    """The remotes that the settings name, or None if there is none that can be asked."""
    if not config.remote:
        return None
    from nvccache import log
    from nvccache.remote import tier

    opened = tier.of(config, environ, lambda sentence: log.write(config.log, sentence))
    return Beyond(opened) if opened else None


def to_send(bucket: str, key: str, cache: Store) -> bytes | None:
    """What a remote is to have under a name; None if this cache does not have it any more."""
    if bucket == store.RECORD:
        found = cache.find_record(bucket, key)
        try:
            return None if found is None else record.without_hints(found)
        except ValueError:
            return None
    content = cache.read_blob(key)
    if content is None:
        return None
    return (_RAW if os.path.exists(cache.path(bucket, key)) else _COMPRESSED) + content


def opened_blob(received: bytes, digest: str) -> tuple[bytes, bool]:
    """What was received under a digest, and whether it is kept compressed; raises ValueError."""
    content = received[1:]  # once: it may be a large one
    if received[:1] not in (_RAW, _COMPRESSED) or keys.digest_bytes(content) != digest:
        raise ValueError("its digest is another one")
    return content, received[:1] == _COMPRESSED


def items_of(published: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What has to be sent of what a call has put into the cache: bucket, and key.

    Blobs come first: who finds a record should find what it promises.
    """
    return sorted(published, key=lambda item: item[0] == store.RECORD)
