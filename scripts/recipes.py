"""Extract the files for CI services and containers from the how-tos into a folder, for scripts/lint to check.

python scripts/recipes.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import doc_pages  # noqa: E402

PAGES = ("ci", "docker")


def main(folder: Path) -> None:
    for page in PAGES:
        for block in doc_pages.blocks((ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8")):
            if block.title and block.language in ("yaml", "dockerfile"):
                is_github = block.title.endswith("workflow.yml")
                path = folder / ("github/workflows" if is_github else "") / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
