"""Objects of a remote, taken apart and sealed again, as an attacker with write access can do."""

from __future__ import annotations

from dataclasses import dataclass

from nvccache.remote import envelope


@dataclass(frozen=True)
class Sealed:
    """The parts of an object, none of them verified."""

    bucket: str
    key: str
    digest: str
    body: bytes  # compressed

    @property
    def content(self) -> bytes:
        return envelope.unseal(self.encode(), self.bucket, self.key, 1 << 32)

    def encode(self) -> bytes:
        return envelope._SEALED.encode(self.__dict__)

    def holding(self, content: bytes) -> bytes:
        """The object with another content, correctly sealed."""
        return envelope.seal(self.bucket, self.key, content)


def opened(content: bytes) -> Sealed:
    return Sealed(**envelope._SEALED.decode(content))
