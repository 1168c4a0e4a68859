"""For which architecture a stage compiles."""

from __future__ import annotations

import pytest

from nvccache.plan.model import architecture_of, architecture_option
from nvccache.values import replace
from stages_of_nothing import stage


@pytest.mark.parametrize(
    ("argv", "architecture"),
    [
        ("ptxas -arch=sm_80 a.ptx", "sm_80"), ("cicc -arch compute_90a a.ii", "compute_90a"),
        ("nvlink --arch=sm_80", "sm_80"), ("x --gpu-name sm_90", "sm_90"), ("x -arch", ""),
        ("g++ -march=native -DX=-arch a.ii", ""), ("x -arch=a=b", "a=b"),
    ],
)  # fmt: skip
def test_the_architecture_of_a_stage_is_the_value_of_its_architecture_option(argv, architecture):
    made = replace(stage("cicc", "a.ptx", "a.ii"), argv=tuple(argv.split()))
    assert architecture_option(made) == architecture
    assert architecture_of(made, []) == architecture


def test_the_architecture_of_a_preprocessor_stage_is_that_of_the_stage_that_reads_its_text():
    text = stage("device_preprocess", "a.ii")
    other = replace(stage("cicc", "b.ptx", "b.ii"), argv=("cicc", "-arch=compute_70"))
    reader = replace(stage("cicc", "a.ptx", "a.ii"), argv=("cicc", "-arch=compute_90a"))
    assert architecture_of(text, [text, other, reader]) == "compute_90a"
    assert architecture_of(text, [text, other]) == ""
