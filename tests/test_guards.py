"""Each row of the guards names a line and tests that are there; guards.py takes the lines out one by one."""

from __future__ import annotations

import pytest

from guards import GUARDS, ROOT, found


@pytest.mark.parametrize("module", sorted({guard.module for guard in GUARDS}))
def test_each_guarded_line_is_there(module: str) -> None:
    text = found(module, ROOT, "src/nvccache").read_text()
    assert [guard.name for guard in GUARDS if guard.module == module and guard.line not in text] == []


def test_each_guard_names_test_files() -> None:
    files = {word for guard in GUARDS for word in guard.test.split() if not word.startswith("-")}
    assert all(found(name, ROOT, "tests").is_file() for name in files)
