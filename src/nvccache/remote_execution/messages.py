"""The messages of the Remote Execution API as Python classes, from the committed descriptors (reapi.binpb).

They are loaded into a pool of their own: the names of this package cannot meet those of another one in this
process, and no generated code ties a release of protobuf to the one that generated it.
"""

from __future__ import annotations

import os
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DESCRIPTORS = os.path.join(os.path.dirname(__file__), "reapi.binpb")
_PACKAGE = "nvccache.reapi"
_classes: dict[str, Any] = {}
_pool: Any = None


def of(name: str) -> Any:
    """The class of a message by its name in reapi.proto; raises ImportError without protobuf."""
    global _pool
    if name not in _classes:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        if _pool is None:
            _pool = descriptor_pool.DescriptorPool()
            with open(_DESCRIPTORS, "rb") as stream:
                for file in descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file:
                    _pool.Add(file)
        _classes[name] = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    return _classes[name]


def make(name: str, **fields: Any) -> Any:
    return of(name)(**fields)


def digest_of(content: bytes) -> tuple[str, int]:
    """The digest by which the interface names content: SHA-256, and the size."""
    return sha256(content).hexdigest(), len(content)
