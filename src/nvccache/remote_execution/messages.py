"""The messages of the Remote Execution API as Python classes, from the committed descriptors (reapi.binpb).

They are loaded into a pool of their own: the names of this package cannot meet those of another one in this
process, and no generated code ties a release of protobuf to the one that generated it.
"""

from __future__ import annotations

import os
import threading
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DESCRIPTORS = os.path.join(os.path.dirname(__file__), "reapi.binpb")
_PACKAGE = "nvccache.reapi"
_loaded: dict[str, Any] = {}  # the pool, and classes by their names
_lock = threading.Lock()  # stages are sent on threads of their own


def of(name: str) -> Any:
    """The class of a message by its name in reapi.proto; raises ImportError without protobuf."""
    with _lock:
        if name not in _loaded:
            from google.protobuf import message_factory

            if "" not in _loaded:
                _loaded[""] = _pool()
            found = _loaded[""].FindMessageTypeByName(f"{_PACKAGE}.{name}")
            _loaded[name] = message_factory.GetMessageClass(found)
        return _loaded[name]


def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    with open(_DESCRIPTORS, "rb") as stream:
        for file in descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file:
            pool.Add(file)
    return pool


def make(name: str, /, **fields: Any) -> Any:
    return of(name)(**fields)


def digest_of(content: bytes) -> tuple[str, int]:
    """The digest by which the interface names content: SHA-256, and the size."""
    return sha256(content).hexdigest(), len(content)
