"""Objects of a remote, taken apart and sealed again, as an attacker with write access can do."""

from __future__ import annotations

from dataclasses import dataclass

from nvccache.remote import envelope

SCHEMA = envelope._SEALED


@dataclass(frozen=True)
class Sealed:
    """The parts of an object, none of them verified."""

    bucket: str
    key: str
    digest: str
    body: bytes  # compressed

    @property
    def name(self) -> str:
        return envelope.name_of(self.bucket, self.key)

    @property
    def content(self) -> bytes:
        return envelope.unseal(self.encode(), self.bucket, self.key, 1 << 32)

    def encode(self) -> bytes:
        return SCHEMA.encode(self.__dict__)

    def holding(self, content: bytes) -> Sealed:
        """With another content, correctly sealed."""
        return opened(envelope.seal(self.bucket, self.key, content))


def opened(content: bytes) -> Sealed:
    return Sealed(**SCHEMA.decode(content))
