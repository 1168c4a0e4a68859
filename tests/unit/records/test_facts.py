"""The class of the processor, by which libm chooses functions."""

from __future__ import annotations

import os
import platform

import pytest

from nvccache.records import facts
from nvccache.records.facts import USED_BY_LIBM, CurrentState, class_in

ALIAS = "cpu:type:x86,ven0000fam0006mod0055:feature:,0000,{}\n"


@pytest.mark.parametrize("flag", USED_BY_LIBM)
def test_the_processor_class_names_each_feature_that_libm_chooses_by(flag):
    alias, none = ALIAS.format(USED_BY_LIBM[flag]), ALIAS.format("0001")
    assert class_in(alias, "glibc 2.36") == f"glibc 2.36 {flag}"
    assert class_in(none, "glibc 2.36") == "glibc 2.36" != class_in(none, "glibc 2.35")


@pytest.mark.parametrize(
    ("alias", "version"),
    [
        (ALIAS.format("0001"), "glibc 2.43"),
        (ALIAS.format("0001"), "glibc 3.0"),
        (ALIAS.format("0001"), ""),
        ("cpu:type:aarch64:feature:,0000\n", "glibc 2.36"),
        ("", "glibc 2.36"),
    ],
)
def test_if_libms_choices_are_unknown_the_whole_cpu_is_described(alias, version):
    assert class_in(alias, version) == f"{version}\n{facts.describe_processor()}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has these features")
def test_the_kernel_numbers_features_as_they_are_named_in_cpuinfo():
    flags = next(line for line in facts.describe_processor().split("\n") if line.startswith("flags")).split()
    found = facts.processor_class().split()[2:]
    assert found == [flag for flag in USED_BY_LIBM if flag in flags]


def test_the_description_of_the_processor_is_stable():
    described = facts.describe_processor()
    assert described == facts.describe_processor()
    assert "flags" in described or "Features" in described
    assert "MHz" not in described


def test_the_state_of_the_caller_includes_the_kind_of_its_standard_input(monkeypatch):
    def refuse(*given):
        raise OSError

    def state(of_input=None):
        stub = of_input or refuse
        monkeypatch.setattr(os, "fstat", lambda number: fstat(number) if number else stub(number))
        return facts.answer(facts.CALLER, "", {})

    fstat = os.fstat
    found = {state(), state(lambda number: os.stat("/dev/null")), state(lambda number: os.stat("/"))}
    assert "" not in found and len(found) == 3
    monkeypatch.setattr(facts, "_text_of_kernel", refuse)
    assert state() == ""


def test_the_digest_of_a_file_that_cannot_be_read_is_empty(tmp_path):
    for path in ("/nowhere/x", "nul\0", str(tmp_path)):
        now = CurrentState({})
        assert now.digest(path) == now.digest(path) == now.digest_of_code(path) == ""
        assert now.read == {path: ""}
