"""The modules of a benchmark import each other from its directory, like those of a script."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
