"""A cache directory with remotes behind it: they are queried for what the directory lacks.

Behind the hot path: made for a call that the cache directory does not answer, where NVCCACHE_REMOTE is set.
What a remote sends is worth no more than its sender: a blob has to have its digest, a record its form, and
whatever is not right is absent. remote/ decides how a remote is queried, and for how long.
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

LARGEST = 256 << 20  # bytes of what is sent at all; the device code of a large library has tens of MiB
# The first byte of a blob on a remote: how the cache that sent it keeps it.
RAW, COMPRESSED = b"r", b"c"


class TieredStore(Store):
    """A store whose blobs may also lie on remotes, for one call; may be used by several threads.

    Records of remotes are another matter: they cost a wait, and are asked for by who can use that time.
    """

    __slots__ = ("_tier",)

    def __init__(self, place: str | Directory, tier: Tier, is_readonly: bool = False) -> None:
        super().__init__(place, is_readonly)
        self._tier = tier

    def has_blob(self, digest: str) -> bool:
        """Whether a blob can be had, which is kept here from then on: servers forget them by age."""
        return super().has_blob(digest) or self.read_blob(digest) is not None

    def read_blob(self, digest: str) -> bytes | None:
        """The content with this digest, which is kept here from now on."""
        content = super().read_blob(digest)
        while content is None:  # another remote may have what this one should
            received = self._tier.get(store.BLOB, digest, LARGEST)
            if received is None:
                return None
            try:
                content, compress = opened_blob(received, digest)
            except ValueError:
                self._tier.refuse(store.BLOB, digest, received)
            else:
                self.add_blob(digest, content, compress, is_received=True)
        return content

    def read_blobs(self, digests: Iterable[str]) -> Iterator[bytes | None]:
        """The same of several, which are asked for at once."""
        wanted, is_here = list(digests), super().has_blob
        self._tier.prefetch([(store.BLOB, digest, LARGEST) for digest in wanted if not is_here(digest)])
        return super().read_blobs(wanted)

    def prefetch_records(self, front_keys: Iterable[str]) -> None:
        """Begin to fetch what is going to be asked for, all at once."""
        self._tier.prefetch([(store.RECORD, key, store.LARGEST_RECORD) for key in front_keys])

    def remote_records(self, front_key: str) -> Iterator[bytes]:
        """The records that remotes have under a front key, as they answer: each may have other ones."""
        for received in self._tier.each(store.RECORD, front_key, store.LARGEST_RECORD):
            try:
                yield record.without_hints(received)
            except ValueError:
                self._tier.refuse(store.RECORD, front_key, received)

    def stop_asking(self) -> None:
        """Ask remotes for nothing more, and wait for nothing: the call is to end at once."""
        self._tier.close()

    def remote_use(self) -> RemoteUse | None:
        """What remotes were asked so far, for the event log; None if nothing was."""
        remotes = self._tier.remotes
        asked = max((each.asked for each in remotes), default=0)  # all are asked for each name
        faults = dict.fromkeys(word for each in remotes for word in each.faults)
        if not asked and not faults:
            return None
        found = sum(each.found for each in remotes)
        size = sum(each.bytes_in for each in remotes)
        return RemoteUse(asked, min(found, asked), size, self._tier.waited, tuple(faults))


def of(place: Directory, config: Config, environ: Mapping[str, str]) -> TieredStore:
    """The cache directory with the remotes that the settings name."""
    from nvccache import log, remote_url
    from nvccache.remote.tier import Tier

    remotes = remote_url.parse(config.remote)
    tier = Tier(remotes, environ, config.remote_timeout, lambda sentence: log.write(config.log, sentence))
    return TieredStore(place, tier, config.readonly)


def opened_blob(received: bytes, digest: str) -> tuple[bytes, bool]:
    """What was received under a digest, and whether it is kept compressed; raises ValueError."""
    content = received[1:]  # once: it may be a large one
    if received[:1] not in (RAW, COMPRESSED) or keys.digest_bytes(content) != digest:
        raise ValueError("its digest is another one")
    return content, received[:1] == COMPRESSED
