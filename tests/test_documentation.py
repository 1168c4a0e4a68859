"""Documentation: what needs a compile, a wheel or a run of a page. The rest is in scripts/check_pages.py.

`sh scripts/docs` builds the site, and fails on any warning. Commands of pages run in test_doc_examples.py.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

import doc_pages
from nvccache import outcomes
from workspaces import make_workspace

ROOT = Path(__file__).parents[1]


def test_every_reason_that_is_given_is_one_of_the_list():
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    given = {word for text in texts for word in re.findall(r'\bBypass\(\s*"(\w+)"', text)}
    assert len(given) > 10 and given <= outcomes.REASONS.keys()


def test_the_wheel_installs_the_manual_page(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/nvccache.1")]
        assert name.endswith(".data/data/share/man/man1/nvccache.1")
        assert archive.read(name) == (ROOT / "docs/man/nvccache.1").read_bytes()


# What commands print with --json: the fields that docs/reference/json.md describes.
JSON_LINES = [
    *("clean --all --dry-run", "config", "config jobs", "config jobs 2", "config --unset jobs"),
    *("explain a.o", "install shims", "doctor", "remote status", "remote push"),
    *("stats", "stats --by source", "--version", "--version --verbose"),
]
BY_NAME = ("settings", "calls", "bypass_reasons", "stages", "kinds")  # objects whose fields are words


def names_in(document: object, name: str = "") -> set[str]:
    """All names of fields, but for those that are words or names of settings, stages or the like."""
    if isinstance(document, list):
        return {found for element in document for found in names_in(element)}
    if not isinstance(document, dict):
        return set()
    below = {found for key, value in document.items() for found in names_in(value, key)}
    return below if name in BY_NAME else below | document.keys()


def test_every_field_of_json_is_described(tmp_path, light_nvcc):
    workspace = make_workspace(tmp_path, light_nvcc)
    workspace.write("a.cu", "__global__ void k() {}\n")
    assert workspace.cached("-arch=sm_80", "-c", "a.cu", "-o", "a.o").status == 0
    (workspace.directory / "remote").mkdir()
    remote = {"NVCCACHE_NVCC": light_nvcc, "NVCCACHE_REMOTE": f"file://{workspace.directory}/remote,rw"}
    described = (ROOT / "docs/reference/json.md").read_text()
    for line in JSON_LINES:
        section = re.search(rf"^## nvccache {line.split()[0]}\n(.*?)(?=^## |\Z)", described, re.M | re.S)
        shown = workspace.run([sys.executable, "-m", "nvccache", *line.split(), "--json"], **remote).stdout
        assert section and names_in(json.loads(shown)) <= set(re.findall(r"`(\w+)`", section[1])), line


PAGE = """\
```cuda title="a/b.txt"
one
```

```console
$ cat a/b.txt; echo took 3.5 s
one
took 1.25 s
$ export X=2; echo "$X
> three"
...
three
```

## Elsewhere

<!-- not-run -->

```sh
frob
```
"""


def test_commands_of_a_page_are_run_in_order_and_amounts_are_not_compared(tmp_path):
    environ = {**os.environ, "HOME": str(tmp_path)}
    stale = PAGE.replace("\nthree\n```", "\nold\n```")
    for page, is_right in ((PAGE, True), (stale, False)):
        outputs = doc_pages.run(page, tmp_path, environ)
        shown = [doc_pages.is_shown(command.shown, printed) for command, printed in outputs]
        assert shown == [True, is_right]
    assert "2\nthree\n```" in doc_pages.with_outputs(stale, outputs)
    with pytest.raises(doc_pages.CommandError, match=r"line 6: `cat a/c\.txt; .*` failed"):
        doc_pages.run(PAGE.replace("$ cat a/b.txt", "$ cat a/c.txt"), tmp_path, environ)
