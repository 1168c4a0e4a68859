"""What is suggested for a misspelled setting."""

from __future__ import annotations

import pytest

from nvccache import hints


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("max_sise", "; did you mean `max_size`?"),
        ("NVCCACHE_MAX_SISE", "; did you mean `NVCCACHE_MAX_SIZE`?"),
        ("no_such_thing", ""),
        ("NVCCACHE_SLOPPINESS", ""),
    ],
)
def test_a_misspelled_setting_gets_its_nearest_name(name, answer):
    assert hints.for_setting(name) == answer
