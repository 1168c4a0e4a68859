"""What lies beyond the cache directory: the remotes, as records and blobs are looked for there.

Behind the hot path: loaded by a call that the cache directory does not answer, where NVCCACHE_REMOTE is set.
What a remote sends is worth no more than its sender: a blob has to have its digest, a bundle its form, and
whatever is not right is absent. How a remote is spoken to, and for how long, is told in remote/.
"""

from __future__ import annotations

import os

from nvccache.files import keys
from nvccache.records import bundle
from nvccache.store import store
from nvccache.store.event_line import RemoteUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nvccache.config import Config
    from nvccache.remote.tier import Tier
    from nvccache.store.store import Store

_LARGEST_BUNDLE = 1 << 26  # bytes, as its sender had them
_LARGEST_ENTRY = 1 << 24
LARGEST = 256 << 20  # of what is sent at all; the device code of a large library has tens of MiB
# The first byte of a blob on a remote: how the cache that sent it keeps it.
_RAW, _COMPRESSED = b"r", b"c"


class Beyond:
    """The remotes behind one cache directory, for one call; may be used by several threads."""

    __slots__ = ("_entries", "tier")

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self._entries: dict[str, bytes] = {}  # of the bundles that were received, by their keys

    def want(self, front_keys: Iterable[str], entries: Iterable[str] = ()) -> None:
        """Begin to fetch what is going to be asked for, all at once."""
        self.tier.prefetch(
            [(bundle.BUCKET, key, _LARGEST_BUNDLE) for key in front_keys if key]
            + [(store.STAGE, key, _LARGEST_ENTRY) for key in entries]
        )

    def want_blobs(self, digests: Iterable[str]) -> None:
        self.tier.prefetch([(store.BLOB, digest, LARGEST) for digest in digests])

    def input_records(self, front_key: str) -> Iterator[tuple[str, bytes]]:
        """The input records that remotes have under a front key, with their keys, as remotes answer.

        Each remote may have other ones; those of one are newest first.
        """
        for received in self.tier.each(bundle.BUCKET, front_key, _LARGEST_BUNDLE):
            try:
                found = bundle.decode(received)
            except ValueError:
                self.tier.refuse(bundle.BUCKET, front_key, received)
                continue
            for key, (record, entry) in found.records.items():
                if entry:
                    self._entries.setdefault(key, entry)
                yield key, record

    def entry(self, key: str) -> bytes | None:
        """A stage's entry: of a bundle that was received, else by itself."""
        if key in self._entries:
            return self._entries[key]
        return self.tier.get(store.STAGE, key, _LARGEST_ENTRY)

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
    if bucket == bundle.BUCKET:
        found = bundle.of_manifest(key, cache)
        return found.encode() if found.records else None
    if bucket == store.BLOB:
        content = cache.read_blob(key)
        if content is None:
            return None
        return (_RAW if os.path.exists(cache.path(bucket, key)) else _COMPRESSED) + content
    return cache.find_record(bucket, key)


def opened_blob(received: bytes, digest: str) -> tuple[bytes, bool]:
    """What was received under a digest, and whether it is kept compressed; raises ValueError."""
    content = received[1:]  # once: it may be a large one
    if received[:1] not in (_RAW, _COMPRESSED) or keys.digest_bytes(content) != digest:
        raise ValueError("its digest is another one")
    return content, received[:1] == _COMPRESSED


def merged(bucket: str, ours: bytes, theirs: bytes | None) -> bytes:
    """What a remote is to have where it has something under the name already."""
    if bucket != bundle.BUCKET or theirs is None:
        return ours
    try:
        return bundle.decode(theirs).behind(bundle.decode(ours)).encode()
    except ValueError:
        return ours


def items_of(published: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What has to be sent of what a call has put into the cache: bucket on a remote, and key.

    Blobs come first: who finds a record should find what it promises.
    """
    found = list(published)
    recorded = {key for bucket, key in found if bucket == store.INPUT_RECORD}
    return [
        *((bucket, key) for bucket, key in found if bucket == store.BLOB),
        *((bucket, key) for bucket, key in found if bucket == store.STAGE and key not in recorded),
        *((bundle.BUCKET, key) for bucket, key in found if bucket == store.MANIFEST),
    ]
