"""What is suggested for names of ccache, which have all an answer, and for misspelled ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvccache import hints

PAGE = Path(__file__).parents[2] / "docs/how-to/from-ccache.md"
WITHOUT = "; unlike in other caches, "


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"`CCACHE_(\w+)", PAGE.read_text()))))
def test_each_variable_of_the_page_has_an_answer_under_our_prefix(variable):
    ours = {"DIR", "DISABLE", "RECACHE", "READONLY", "UMASK"}  # have the same name
    assert variable in ours or hints.for_setting(f"NVCCACHE_{variable}")


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`ccache (-\S*)", PAGE.read_text())) - {"-s`,"}))
def test_each_option_of_the_page_has_an_answer(option):
    assert hints.for_option(option.strip("`,"))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("NVCCACHE_COMPILERCHECK", f"{WITHOUT}all that the tools read is identified by content"),
        ("NVCCACHE_CONFIGPATH", f"{WITHOUT}the settings file is below `XDG_CONFIG_HOME`"),
        ("NVCCACHE_TEMPDIR", f"{WITHOUT}temporary files are below `TMPDIR`"),
        ("NVCCACHE_DEBUG", f"{WITHOUT}`nvccache explain` names the cause of a miss, and "),
        ("NVCCACHE_NOHASHDIR", f"{WITHOUT}no input is ignored that the result depends on"),
        ("NVCCACHE_MAXFILES", f"{WITHOUT}only its size limits the cache: "),
        ("NVCCACHE_MEMCACHED", f"{WITHOUT}`NVCCACHE_REMOTE` names servers"),
        ("NVCCACHE_NODISABLE", "; did you mean `NVCCACHE_DISABLE=0`?"),
        ("direct_mode", f"{WITHOUT}there is one mode, which needs no preprocessor for a hit"),
        ("depend_mode", f"{WITHOUT}there is one mode, "),
        ("prefix_command", f"{WITHOUT}put the wrapper in front of nvccache, or around the host compiler"),
        ("NVCCACHE_CACHE_SIZE", "; did you mean `NVCCACHE_MAX_SIZE`?"),
        ("NVCCACHE_S3_RW_MODE", f"{WITHOUT}`NVCCACHE_REMOTE` has the URL"),
        ("namespace", f"{WITHOUT}use a cache directory for each"),
        ("temporary_dir", f"{WITHOUT}temporary files are below `TMPDIR`"),
        ("debug", f"{WITHOUT}`nvccache explain` "),
        ("log_file", "; did you mean `log`?"),
        ("max_sise", "; did you mean `max_size`?"),
        ("no_such_thing", ""),
    ],
)
def test_a_setting_of_ccache_or_a_misspelled_one(name, answer):
    found = hints.for_setting(name)
    assert found.startswith(answer) if answer else not found


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("-X", f"{WITHOUT}intermediates are always compressed, objects never"),
        ("--recompress", f"{WITHOUT}intermediates "),
        ("--stop-server", f"{WITHOUT}there is no server"),
        ("--show-adv-stats", "; did you mean `nvccache stats --json`?"),
        ("--config", "; did you mean `nvccache config`?"),
        ("--config-path", f"{WITHOUT}the settings file is below `XDG_CONFIG_HOME`"),
        ("stats -z", "; did you mean `nvccache stats --reset`?"),
        ("explain -z", ""),
    ],
)
def test_an_option_of_ccache(option, answer):
    found = hints.for_option(option)
    assert found.startswith(answer) if answer else not found
