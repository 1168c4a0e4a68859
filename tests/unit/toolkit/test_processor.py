"""The class of the processor, by which libm chooses functions."""

from __future__ import annotations

import pytest

from nvccache.files import keys
from nvccache.toolkit import processor
from nvccache.toolkit.processor import class_in

NONE = "model\t: 85\nflags\t: fpu sse2\n"


def having(*flags: str) -> str:
    return NONE.replace("fpu", " ".join(flags))


@pytest.mark.parametrize("flag", ["avx", "avx2", "fma", "fma4", "sse4_1"])
def test_the_class_is_what_libm_chooses_by(flag):
    assert class_in(having(flag), "glibc 2.36") == f"glibc 2.36 {flag}"
    assert class_in(having("avx512f", f"{flag}x"), "glibc 2.36") == class_in(NONE, "glibc 2.36")
    assert class_in(having(flag), "glibc 2.35") != class_in(having(flag), "glibc 2.36")


@pytest.mark.parametrize(
    ("description", "version"),
    [(NONE, "glibc 2.43"), (NONE, "glibc 3.0"), (NONE, ""), ("Features\t: fp asimd\n", "glibc 2.36")],
)
def test_where_the_choice_is_not_known_all_of_the_processor_counts(description, version):
    assert class_in(description, version) == f"{version}\n{description}"


def test_the_class_is_determined_once(cache, monkeypatch):
    first = processor.processor_class(cache)
    monkeypatch.setattr(processor, "class_in", None)
    assert processor.processor_class(cache) == first


def test_another_processor_or_library_has_a_memo_of_its_own(monkeypatch, tmp_path):
    (tmp_path / "alias").write_text("one")
    monkeypatch.setattr(processor, "_ALIAS", str(tmp_path / "alias"))
    names = {processor.memo_key("glibc 2.36"), processor.memo_key("glibc 2.37")}
    (tmp_path / "alias").write_text("two")
    names.add(processor.memo_key("glibc 2.36"))
    (tmp_path / "alias").unlink()
    names.add(processor.memo_key("glibc 2.36"))
    assert len(names) == 4 and {*map(len, names)} == {keys.LENGTH}


def test_the_processor_is_described_the_same_each_time():
    described = processor.describe()
    assert described == processor.describe()
    assert "flags" in described or "Features" in described
    assert "MHz" not in described
