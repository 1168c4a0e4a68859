"""Make the descriptors of the remote execution protocol anew, after reapi.proto was changed.

Needs grpcio-tools, which a development environment has.
"""

from __future__ import annotations

import os
import sys

from grpc_tools import protoc

FOLDER = os.path.join(os.path.dirname(__file__), "..", "src", "nvccache", "remote_execution")


def compile_to(path: str) -> int:
    """The status of the compiler."""
    words = ["protoc", f"-I{FOLDER}", f"--descriptor_set_out={path}", "reapi.proto"]
    return int(protoc.main(words))


if __name__ == "__main__":
    sys.exit(compile_to(os.path.join(FOLDER, "reapi.binpb")))
