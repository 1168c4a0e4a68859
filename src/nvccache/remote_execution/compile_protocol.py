"""Make the descriptors of the remote execution protocol anew, after reapi.proto was changed.

python -m nvccache.remote_execution.compile_protocol

Needs grpcio-tools, which a development environment has. Not part of a wheel.
"""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def compile_to(path: str) -> int:
    """The status of the compiler."""
    from grpc_tools import protoc

    words = ["protoc", f"-I{FOLDER}", f"--descriptor_set_out={path}", "reapi.proto"]
    return int(protoc.main(words))


if __name__ == "__main__":
    sys.exit(compile_to(os.path.join(FOLDER, "reapi.binpb")))
