"""Values of the requested variables in the environment."""

from __future__ import annotations

import shutil

import pytest

from nvccache.environment import WHOLE, digest_of, found_on, is_set

ENVIRON = {"A": "1", "B": "", "BASH_FUNC_f%%": "() { :; }", "BASH_FUNCTION": "x", "TMPDIR": "/tmp"}


def test_the_digest_of_a_variable_covers_its_value_and_distinguishes_unset():
    values = [{}, {"A": ""}, {"A": "1"}, {"A": "2"}, {"A": "-"}, {"A": "\udcff"}]
    assert len({digest_of("A", environ) for environ in values}) == len(values)
    assert [is_set(digest_of("A", environ)) for environ in values] == [False, *[True] * 5]
    assert not is_set("")
    assert digest_of("A", {"A": "x", "B": "y"}) == digest_of("A", {"A": "x"}) == digest_of("B", {"B": "x"})


@pytest.mark.parametrize(
    ("changed", "shows"),
    [
        ({"A": "2"}, True),
        ({"NEW": ""}, True),
        ({"B": "x"}, True),
        ({"BASH_FUNC_f%%": "() { echo; }"}, True),
        ({"TMPDIR": "/elsewhere"}, False),
        ({"NVCCACHE_DIR": "/elsewhere", "_NVCCACHE_X": "1"}, False),
        ({"NVCCACHE": "1"}, True),
        ({"SHLVL": "3", "_": "/usr/bin/make", "OLDPWD": "/", "MAKEFLAGS": "-j", "MAKELEVEL": "1"}, False),
    ],
)
def test_the_digest_of_the_environment_ignores_only_variables_without_effect(changed, shows):
    assert (digest_of(WHOLE, {**ENVIRON, **changed}) != digest_of(WHOLE, ENVIRON)) == shows


def test_the_whole_environment_is_names_with_values_in_any_order():
    digest = digest_of(WHOLE, ENVIRON)
    assert digest_of(WHOLE, dict(reversed(ENVIRON.items()))) == digest
    assert digest_of(WHOLE, {name: value for name, value in ENVIRON.items() if name != "B"}) != digest
    assert digest_of(WHOLE, {"A": "1", "B": "2"}) != digest_of(WHOLE, {"A": "1B=2"})


def test_a_variable_name_with_a_star_covers_all_that_begin_so():
    before = digest_of("BASH_FUNC_*", ENVIRON)
    assert digest_of("BASH_FUNC_*", {**ENVIRON, "A": "2", "BASH_FUNCTION": "y", "BASH_FUNC": "z"}) == before
    for changed in ({"BASH_FUNC_f%%": "() { echo; }"}, {"BASH_FUNC_g%%": "() { :; }"}):
        assert digest_of("BASH_FUNC_*", {**ENVIRON, **changed}) != before
    assert digest_of("BASH_FUNC_*", {}) != before


@pytest.mark.parametrize(
    ("search_path", "found"),
    [
        ("one:two", "one/tool"),
        ("never:plain:folder:two", "two/tool"),
        ("never:plain", ""),
        *((path, "./tool") for path in ("", ":never", "never:", "plain::one")),
    ],
)
def test_a_program_is_found_on_the_search_path_as_by_a_shell(tmp_path, monkeypatch, search_path, found):
    """`plain` has a file of that name, `folder` a directory; an empty part is the working directory."""
    for name in ("one", "two", "."):
        (tmp_path / name).mkdir(exist_ok=True)
        shutil.copy("/bin/true", tmp_path / name / "tool")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tool").write_text("")
    (tmp_path / "folder" / "tool").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert found_on(search_path, "tool") == found
