"""What an nvcc that is a script has to hand on to the nvcc that it becomes."""

from __future__ import annotations

import pytest

from nvccache.compile import scripted_nvcc
from nvccache.observation.observed_process import Given, Process
from nvccache.toolkit.dryrun import Transcript

GIVEN = {"state": 1, "unnamed": 2, "path": 3, "library_path": 4, "limits": 5}
TOLD = Transcript({"PATH": "/bin", "LD_LIBRARY_PATH": ""}, (), b"")
UNTOLD = Transcript({}, (), b"")


@pytest.mark.parametrize(
    ("changed", "transcript", "expected"),
    [
        ({}, UNTOLD, True),
        ({"state": 0}, TOLD, False),
        ({"unnamed": 0}, UNTOLD, True),
        ({"unnamed": 1}, TOLD, False),
        ({"path": 0}, TOLD, True),
        ({"path": 0}, UNTOLD, False),
        ({"library_path": 0}, TOLD, True),
        ({"library_path": 0}, UNTOLD, False),
    ],
)
def test_nvcc_has_what_its_script_was_given(
    changed: dict[str, int], transcript: Transcript, expected: bool
) -> None:
    script = Process("/bin/sh", directory="/work", given=Given(**GIVEN))
    nvcc = Process("/cuda/bin/nvcc", directory="/work", given=Given(**GIVEN | changed))
    assert scripted_nvcc._is_handed_on(script, nvcc, transcript) is expected
    nvcc.directory = "/elsewhere"
    assert not scripted_nvcc._is_handed_on(script, nvcc, transcript)


def test_what_was_not_observed_is_not_handed_on() -> None:
    assert not scripted_nvcc._is_handed_on(Process("/bin/sh"), Process("/cuda/bin/nvcc"), TOLD)
