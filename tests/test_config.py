"""The settings: where each value comes from, what is refused, and the agreement with platformdirs."""

from __future__ import annotations

import os

import platformdirs
import pytest

from nvccache import config
from nvccache.config import ConfigError


@pytest.fixture
def home(tmp_path):
    return str(tmp_path / "home")


@pytest.fixture
def environ(home):
    return {"HOME": home}


@pytest.fixture
def write_file(environ):
    def write(text, encoding="utf-8"):
        path = config.config_file(environ)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding=encoding) as stream:
            stream.write(text)

    return write


@pytest.mark.parametrize("cache_home", [None, "", " ", "/elsewhere/cache"])
@pytest.mark.parametrize("config_home", [None, "", " ", "/elsewhere/config"])
def test_directories_are_those_of_platformdirs(monkeypatch, home, cache_home, config_home):
    monkeypatch.setenv("HOME", home)
    for variable, value in (("XDG_CACHE_HOME", cache_home), ("XDG_CONFIG_HOME", config_home)):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    assert config.default_cache_dir(os.environ) == platformdirs.user_cache_dir("nvccache")
    wanted = os.path.join(platformdirs.user_config_dir("nvccache"), "config.toml")
    assert config.config_file(os.environ) == wanted


def test_defaults(environ, home):
    settings = config.load(environ)
    assert settings.dir == f"{home}/.cache/nvccache"
    assert settings.max_size == 10 * 1024**3
    assert (settings.base_dir, settings.nvcc, settings.log, settings.jobs) == ("", "", "", 0)
    assert not (settings.disable or settings.readonly or settings.recache or settings.strict)
    assert set(settings.origins) == set(config.SETTINGS)
    assert set(settings.origins.values()) == {"default"}


def test_every_setting_has_a_slot_and_a_variable_of_ours():
    assert set(config.Config.__slots__) == {*config.SETTINGS, "origins"}
    assert all(variable == f"NVCCACHE_{name.upper()}" for name, (variable, _) in config.SETTINGS.items())


def test_environment_goes_before_the_file_and_the_file_before_defaults(environ, write_file):
    write_file('max_size = "1G"\nlog = "/from/file"\nreadonly = true\njobs = 3\n')
    settings = config.load({**environ, "NVCCACHE_MAX_SIZE": "2G"})
    assert settings.max_size == 2 * 1024**3
    assert settings.log == "/from/file"
    assert settings.readonly is True
    assert settings.jobs == 3
    assert settings.origins["max_size"] == "NVCCACHE_MAX_SIZE"
    assert settings.origins["log"] == "file"
    assert settings.origins["dir"] == "default"


def test_file_in_the_working_directory_is_not_read(environ, tmp_path, monkeypatch):
    (tmp_path / "nvccache.toml").write_text('dir = "/evil"\n')
    (tmp_path / "config.toml").write_text('dir = "/evil"\n')
    monkeypatch.chdir(tmp_path)
    assert config.load(environ).origins["dir"] == "default"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("1048576", 2**20), ("10G", 10 * 2**30), ("10g", 10 * 2**30), (" 500M ", 500 * 2**20),
        ("1.5T", 3 * 2**39), ("64K", 2**16), ("10GB", 10 * 2**30), ("10GiB", 10 * 2**30), ("7B", 7),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert config.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "10X", "ten", "nan", "inf", "1e30", "1 2", "10GG"])
def test_sizes_that_are_refused(text):
    with pytest.raises(ConfigError, match="is not a size such as"):
        config.parse_size(text)


@pytest.mark.parametrize(
    ("value", "on"),
    [("1", True), ("yes", True), ("TRUE", True), ("", False), ("0", False), ("no", False), ("Off", False)],
)
def test_switches(environ, value, on):
    assert config.load({**environ, "NVCCACHE_DISABLE": value}).disable is on


@pytest.mark.parametrize("value", ["-1", "two", "1.5"])
def test_number_of_jobs_that_is_refused(environ, value):
    with pytest.raises(ConfigError, match="is not a number of jobs"):
        config.load({**environ, "NVCCACHE_JOBS": value})


def test_paths_are_absolute_and_know_the_home(environ, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = config.load(
        {**environ, "NVCCACHE_DIR": "~/c", "NVCCACHE_LOG": "log", "NVCCACHE_BASE_DIR": "~"}
    )
    assert settings.dir == f"{home}/c"
    assert settings.log == str(tmp_path / "log")
    assert settings.base_dir == home


def test_name_of_nvcc_stays_a_name_and_a_path_becomes_absolute(environ, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.load({**environ, "NVCCACHE_NVCC": "nvcc-13"}).nvcc == "nvcc-13"
    assert config.load({**environ, "NVCCACHE_NVCC": "bin/nvcc"}).nvcc == str(tmp_path / "bin/nvcc")


@pytest.mark.parametrize("text", ["max_size = ", "\x00", "= 1"])
def test_file_that_is_not_toml_is_one_sentence(environ, write_file, text):
    write_file(text)
    with pytest.raises(ConfigError, match=r"cannot read `.*config\.toml`"):
        config.load(environ)


def test_file_that_is_not_text_is_one_sentence(environ, write_file):
    write_file('log = "é"\n', encoding="latin-1")
    with pytest.raises(ConfigError, match=r"cannot read `.*config\.toml`"):
        config.load(environ)


def test_unknown_setting_in_the_file_is_named(environ, write_file):
    write_file('max_sise = "1G"\n')
    with pytest.raises(ConfigError, match=r"unknown setting `max_sise` in `.*config\.toml`"):
        config.load(environ)
