"""The committed descriptors of the protocol."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed: pip install 'nvccache[exec]'")

from nvccache.remote_execution import compile_protocol, protocol

ROOT = Path(__file__).parents[3]


def test_the_descriptors_are_those_of_the_protocol(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    from google.protobuf import descriptor_pb2

    made = tmp_path / "made"
    assert compile_protocol.compile_to(str(made)) == 0
    committed = ROOT / "src" / "nvccache" / "remote_execution" / "reapi.binpb"
    both = [descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()) for path in (made, committed)]
    assert both[0] == both[1]


def test_numbers_are_those_of_the_published_interface() -> None:
    """On the wire: field 6 of an Execute request is the digest, 7 of a command its output paths."""
    request = protocol.make("ExecuteRequest", action_digest={"hash": "ab", "size_bytes": 3})
    assert request.SerializeToString() == b"\x32\x06\x0a\x02ab\x10\x03"
    assert protocol.make("Command", output_paths=["o"]).SerializeToString() == b"\x3a\x01o"


def test_the_pool_is_not_that_of_the_process() -> None:
    from google.protobuf import descriptor_pool

    protocol.of("Digest")
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("nvccache.reapi.Digest")
    assert "google.protobuf" in sys.modules
