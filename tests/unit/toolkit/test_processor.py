"""What native code depends on."""

from __future__ import annotations

from nvccache.toolkit import processor


def test_the_processor_is_described_the_same_each_time():
    described = processor.describe()
    assert described == processor.describe()
    assert "flags" in described or "Features" in described
    assert "MHz" not in described
