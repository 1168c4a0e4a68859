"""What native code depends on, and the loader's data on the processor by which libm chooses functions."""

from __future__ import annotations

from nvccache.toolkit import processor
from nvccache.toolkit.processor import class_in

FMA, AVX2, SSE4_1 = 1 << 12, 1 << 5, 1 << 19


def diagnostics(**bits: int) -> bytes:
    """The output of x86-64's loader: leaf and register of a name such as `a0_2`, and its active bits."""
    active = {(0, 2): 0, (1, 1): 0, (2, 2): 0, (0, 3): 0} | {
        (int(name[1]), int(name[3])): value for name, value in bits.items()
    }
    lines = [f"x86.cpu_features.features[{leaf:#x}].active[{register:#x}]={value:#x}"
             for (leaf, register), value in active.items()]  # fmt: skip
    return "\n".join(["dl_hwcap=0x2", *lines, "x86.cpu_features.isa_1=0xf", ""]).encode()


def test_the_class_is_what_libm_chooses_by():
    none = class_in(diagnostics(), (2, 36))
    for bits in ({"a0_2": FMA}, {"a0_2": SSE4_1}, {"a1_1": AVX2}, {"a2_2": 1 << 16}):
        assert class_in(diagnostics(**bits), (2, 36)) != none
    for bits in ({"a0_2": 1}, {"a1_1": 1 << 16}, {"a0_3": 1}):
        assert class_in(diagnostics(**bits), (2, 36)) == none


def test_of_a_glibc_that_is_not_known_all_features_count():
    assert class_in(diagnostics(a1_1=1 << 16), (3, 0)) != class_in(diagnostics(), (3, 0))


def test_of_another_architecture_all_capabilities_count():
    listing = b'dl_hwcap=0x%d\ndl_hwcap2=0x7\ndl_platform="aarch64"\naarch64.cpu_features.midr_el1=0x%d\n'
    assert class_in(listing % (1, 1), (2, 36)) == class_in(listing % (1, 2), (2, 36))
    assert class_in(listing % (1, 1), (2, 36)) != class_in(listing % (2, 1), (2, 36))
    assert class_in(b"", (2, 36)) == ""


def test_the_processor_is_described_the_same_each_time():
    described = processor.describe()
    assert described == processor.describe()
    assert "flags" in described or "Features" in described
    assert "MHz" not in described
