"""The modules of a benchmark import each other as those of a script do: from its directory."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
