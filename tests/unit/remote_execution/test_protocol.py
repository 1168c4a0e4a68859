"""The committed descriptors of the protocol."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'nvccache[exec]'")

from google.protobuf import descriptor_pb2, descriptor_pool

from nvccache.remote_execution import protocol
from nvccache.remote_execution.protocol import messages

FOLDER = Path(protocol.__file__).parent


def test_the_committed_protocol_descriptors_are_those_of_the_proto_file(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    made, committed = tmp_path / "made", FOLDER / "reapi.binpb"
    argv = ["-m", "grpc_tools.protoc", f"-I{FOLDER}", f"--descriptor_set_out={made}", "reapi.proto"]
    subprocess.run([sys.executable, *argv], check=True)
    both = [descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()) for path in (made, committed)]
    assert both[0] == both[1]


def test_protocol_field_numbers_match_the_published_interface():
    """On the wire: field 6 of an Execute request is the digest, 7 of a command its output paths."""
    request = messages.ExecuteRequest(action_digest={"hash": "ab", "size_bytes": 3})
    assert protocol.serialized(request) == b"\x32\x06\x0a\x02ab\x10\x03"
    assert protocol.serialized(messages.Command(output_paths=["o"])) == b"\x3a\x01o"


def test_the_protocol_registers_nothing_in_the_processs_protobuf_pool():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("nvccache.reapi.Digest")
