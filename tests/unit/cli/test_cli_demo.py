from __future__ import annotations

import os

import pytest

from nvccache.cli import demo
from nvccache.cli.install import adding
from nvccache.cli.output import Failure
from nvccache.plan import stages
from nvccache.store import event_totals
from nvccache.toolkit.discovery import find_nvcc


@pytest.fixture
def counts(tmp_path):
    """The counts of `stats` for one miss."""
    empty = event_totals.read(str(tmp_path / "none"), stages.counted())
    empty["calls"]["miss"] = 1
    return empty


def test_without_an_nvcc_the_extra_is_named(nvccache, monkeypatch):
    monkeypatch.setattr(demo, "find_nvcc", lambda environ, configured: None)
    result = nvccache("demo")
    assert result.exit_code == 1
    assert f"`{adding('toolkit')}` installs one" in result.output


def test_an_nvcc_that_is_set_and_missing_is_named_with_its_setting(nvccache):
    result = nvccache("demo", NVCCACHE_NVCC="/nowhere/nvcc")
    assert result.exit_code == 1
    assert "`/nowhere/nvcc`, which NVCCACHE_NVCC names: No such file" in result.output


def test_call_that_was_not_cached_is_off(counts):
    demo._check(demo.STEPS[0], counts)
    with pytest.raises(Failure, match="counted miss instead of one direct_hit or stage_hit"):
        demo._check(demo.STEPS[1], counts)
    counts["calls"] |= {"miss": 0, "bypass": 1}
    counts["bypass_reasons"]["nested"] = 1
    with pytest.raises(Failure, match="counted bypass, nested instead of one miss"):
        demo._check(demo.STEPS[0], counts)


def test_stage_that_ran_again_is_off(counts):
    counts["calls"] |= {"miss": 0, "stage_hit": 1}
    demo._check(demo.STEPS[1], counts)
    counts["stages"]["ptxas"]["miss"] = 1
    with pytest.raises(Failure, match="ptxas ran again"):
        demo._check(demo.STEPS[1], counts)


def test_failing_compile_is_shown(nvccache, tmp_path):
    broken = tmp_path / "nvcc"
    broken.write_text("#!/bin/sh\necho no license today >&2\nexit 3\n")
    broken.chmod(0o755)
    result = nvccache("demo", NVCCACHE_NVCC=str(broken))
    assert result.exit_code == 1
    assert "nvccache: no license today\n" in result.output
    assert result.output.endswith("ended with status 3\n")


def test_environment_of_the_demo_has_no_cache_of_the_user(monkeypatch):
    monkeypatch.setenv("NVCCACHE_DIR", "/users/cache")
    monkeypatch.setenv("NVCCACHE_DISABLE", "1")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-keep")
    environ = demo._environment("/somewhere")
    assert environ["NVCCACHE_DIR"] == "/somewhere/cache"
    assert "NVCCACHE_DISABLE" not in environ
    assert "NVCC_APPEND_FLAGS" not in environ


@pytest.mark.skipif(find_nvcc(os.environ) is None, reason="no real nvcc on this machine")
def test_real_program_is_reused_as_promised(nvccache, cache_dir):
    result = nvccache("demo")
    assert result.exit_code == 0, result.output
    assert "byte for byte" in result.output
    assert not os.path.exists(cache_dir)
