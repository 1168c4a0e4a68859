"""Settings: where each value comes from, which are rejected, and agreement with platformdirs."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import platformdirs
import pytest

from nvccache import config, log
from nvccache.config import ConfigError

DEFAULT_SIZE = 10 * 1024**3


@pytest.fixture
def home(tmp_path):
    return str(tmp_path / "home")


@pytest.fixture
def environ(home):
    return {"HOME": home}


@pytest.fixture
def write_file(environ):
    def write(text):
        path = config.config_file(environ)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(os.fsencode(text))

    return write


@pytest.mark.parametrize("home", [None, "", "/home/user", "/home/user/", "relative", "/"])
@pytest.mark.parametrize("base", [None, "", " ", "/base", "/base/", "relative", "~/base", " /base"])
def test_default_cache_and_settings_paths_are_those_of_platformdirs(monkeypatch, home, base):
    for variable, value in (("HOME", home), ("XDG_CACHE_HOME", base), ("XDG_CONFIG_HOME", base)):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    assert config.default_cache_dir(os.environ) == platformdirs.user_cache_dir("nvccache")
    wanted = os.path.join(platformdirs.user_config_dir("nvccache"), "config.toml")
    assert config.config_file(os.environ) == wanted


@pytest.mark.parametrize("value", [None, "", " \t"])
def test_defaults_are_in_force_where_a_variable_is_not_set_or_empty(environ, home, value):
    variables = {} if value is None else {row.variable: value for row in config.SETTINGS.values()}
    settings = config.load({**environ, **variables})
    assert (settings.dir, settings.max_size) == (f"{home}/.cache/nvccache", DEFAULT_SIZE)
    assert (settings.base_dir, settings.nvcc, settings.log, settings.jobs) == ("", "", "", 0)
    assert not (settings.disable or settings.readonly or settings.recache or settings.strict)
    assert set(vars(settings)) == {*config.SETTINGS, "origins", "problems"} and settings.problems == []
    assert settings.origins.keys() == config.SETTINGS.keys()
    assert value is not None or set(settings.origins.values()) == {"default"}
    assert all(row.variable == f"NVCCACHE_{name.upper()}" for name, row in config.SETTINGS.items())


def test_environment_variables_override_the_settings_file_which_overrides_defaults(environ, write_file):
    write_file('max_size = "1G"\nlog = "/from/file"\nreadonly = true\njobs = 3\n')
    settings = config.load({**environ, "NVCCACHE_MAX_SIZE": "2G"})
    assert (settings.max_size, settings.log) == (2 * 1024**3, "/from/file")
    assert (settings.readonly, settings.jobs) == (True, 3)
    origins = [settings.origins[name] for name in ("max_size", "log", "dir")]
    assert origins == ["NVCCACHE_MAX_SIZE", "file", "default"]


def test_a_settings_file_in_the_working_directory_is_not_read(environ, tmp_path, monkeypatch):
    for name in ("nvccache.toml", "config.toml"):
        (tmp_path / name).write_text('dir = "/evil"\n')
    monkeypatch.chdir(tmp_path)
    assert config.load(environ).origins["dir"] == "default"


SIZES = {
    "0": 0, "0G": 0, "1048576": 2**20, "10G": 10 * 2**30, "10g": 10 * 2**30, "1B": 1, " 500M ": 500 * 2**20,
    "1.5T": 3 * 2**39, "64K": 2**16, "10GB": 10 * 2**30, "10GiB": 10 * 2**30,
}  # fmt: skip


def wrong(settings):
    return sorted({problem.setting for problem in settings.problems})


def test_sizes_are_parsed_with_units_and_ambiguous_ones_refused():
    assert {text: config.parse_size(text) for text in SIZES} == SIZES
    for text in ("", "G", "-1", "10X", "ten", "nan", "inf", "1e30", "1 2", "10GG", "0.4B", "1e999", "0.5"):
        with pytest.raises(ConfigError, match="is not a size such as"):
            config.parse_size(text)
    # Other caches take it as gibibytes, and as bytes it would empty the cache.
    for text in ("1", "10", "1048575"):
        with pytest.raises(ConfigError, match="`B` for bytes"):
            config.parse_size(text)


@pytest.mark.parametrize(
    ("value", "on"),
    [("1", True), ("yes", True), ("TRUE", True), ("", False), ("0", False), ("no", False), ("Off", False)],
)
def test_switch_values_are_parsed_as_on_or_off(environ, value, on):
    assert config.load({**environ, "NVCCACHE_DISABLE": value}).disable is on


PATHS = (config.as_path, config.as_program)
DEFAULTS = {"dir": None, "max_size": DEFAULT_SIZE, "jobs": 0}
WRONG = [
    ("max_size", "ten"), ("max_size", "5"), ("max_size", "-1"), ("max_size", "8388608T"),
    ("jobs", "-1"), ("jobs", "two"), ("jobs", "1000000"), ("jobs", "9" * 5000),
    ("recache", "maybe"), ("strict", "2"),
    ("dir", "~nobody-of-that-name/x"), ("log", "~nobody-of-that-name"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_invalid_setting_takes_its_default_and_leaves_the_others(environ, home, name, value):
    variable = config.SETTINGS[name].variable
    settings = config.load({**environ, "NVCCACHE_BASE_DIR": "/base", variable: value})
    default = DEFAULTS.get(name, "" if config.SETTINGS[name].parse in PATHS else False)
    assert getattr(settings, name) == (f"{home}/.cache/nvccache" if name == "dir" else default)
    assert settings.origins[name] == "default"
    assert settings.base_dir == "/base"
    assert wrong(settings) == [name]
    (sentence,) = log.sentences(settings)
    assert sentence.startswith(f"`{variable}`: `{value}`")


@pytest.mark.parametrize(("name", "value"), [("disable", "maybe"), ("readonly", "2")])
def test_an_invalid_disable_or_readonly_setting_counts_as_on(environ, write_file, name, value):
    for settings in (
        config.load({**environ, config.SETTINGS[name].variable: value}),
        (write_file(f'{name} = "{value}"\n'), config.load(environ))[1],
    ):
        assert getattr(settings, name) is True
        (sentence,) = log.sentences(settings)
        assert sentence.endswith("it counts as on")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("NVCCACHE_MAX_SISE", "NVCCACHE_MAX_SIZE"), ("NVCCACHE_max_size", "NVCCACHE_MAX_SIZE"),
        ("NVCCACHE_READ_ONLY", "NVCCACHE_READONLY"), ("NVCCACHE_XYZ", ""), ("NVCCACHE_SLOPPINESS", ""),
    ],
)  # fmt: skip
def test_an_unknown_setting_variable_is_reported_with_a_suggestion(environ, variable, meant):
    settings = config.load({**environ, variable: "1", "_NVCCACHE_TRIED": "x", "NVCC_APPEND_FLAGS": "-g"})
    (sentence,) = log.sentences(settings)
    printed = f"`{variable}`: there is no setting of this name"
    assert sentence == (f"{printed}; did you mean `{meant}`?" if meant else printed)
    assert wrong(settings) == ["unknown"]


def test_path_settings_are_made_absolute_but_a_bare_nvcc_name_is_kept(environ, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    variables = {"NVCCACHE_DIR": "~/c", "NVCCACHE_LOG": "log", "NVCCACHE_BASE_DIR": "~"}
    settings = config.load({**environ, **variables, "NVCCACHE_NVCC": "nvcc-13"})
    assert (settings.dir, settings.log, settings.base_dir) == (f"{home}/c", str(tmp_path / "log"), home)
    assert settings.nvcc == "nvcc-13"
    assert config.load({**environ, "NVCCACHE_NVCC": "bin/nvcc"}).nvcc == str(tmp_path / "bin/nvcc")


def problems_of(environ):
    settings = config.load(environ)
    return settings, [text.replace(config.config_file(environ), "FILE") for text in log.sentences(settings)]


BROKEN = ["base_dir = ", "\x00", 'log = "/l', "jobs = 1\njobs = 2"]
BROKEN += ["log = '\udcff'", "jobs = " + "9" * 5000, "x = " + "[" * 5000]


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: repr(text[:20]))
def test_a_settings_file_that_is_not_toml_gives_one_problem_and_all_defaults(environ, write_file, text):
    write_file(f'max_size = "1G"\n{text}\nlog = "/l"\n')
    settings, (sentence,) = problems_of({**environ, "NVCCACHE_JOBS": "999999"})
    assert (settings.max_size, settings.log, settings.jobs) == (DEFAULT_SIZE, "", 999_999)
    assert sentence.startswith("`FILE` cannot be read: not valid TOML: ")
    assert sentence.endswith("; the defaults are used instead") and wrong(settings) == ["file"]


def test_wrong_values_and_unknown_names_in_the_settings_file_are_reported(environ, write_file):
    text = f'max_size = "ten"\njobs = true\nlog = 0x{"f" * 5000}\nbase_dir = "relative"\n'
    text += 'nvcc = "n\\u0000"\n'
    text += 'readonly = true\nmax_sise = "1G"\n'
    write_file(f'{text}[table]\nlog = "/x"\n')
    settings, printed = problems_of(environ)
    assert settings.readonly and wrong(settings) == ["base_dir", "jobs", "log", "max_size", "nvcc", "unknown"]
    assert printed[:2] == [
        "`FILE`: there is no setting `max_sise`; did you mean `max_size`?",
        "`FILE`: there is no setting `table`",
    ]
    assert [text.partition(":")[0] for text in printed[2:]] == [
        f"`{name}` in `FILE`" for name in ("max_size", "base_dir", "nvcc", "jobs", "log")
    ]


IN_PLACE = {
    "directory": os.mkdir,
    "fifo": os.mkfifo,
    "large": lambda path: Path(path).write_bytes(b"#" * (1 << 20) + b"\n"),
    "device": lambda path: os.symlink("/dev/zero", path),
    "loop": lambda path: os.symlink(path, path),
}


@pytest.mark.parametrize("put", IN_PLACE.values(), ids=IN_PLACE)
def test_a_special_file_in_place_of_the_settings_file_does_not_block(environ, put):
    path = config.config_file(environ)
    os.makedirs(os.path.dirname(path))
    put(path)
    settings, printed = problems_of(environ)
    assert settings.max_size == DEFAULT_SIZE
    assert printed[0].startswith("`FILE` cannot be read")


@pytest.mark.parametrize("home", [None, "", "~", "relative/home"])
def test_without_a_home_directory_no_cache_is_used(monkeypatch, home):
    environ = {} if home is None else {"HOME": home}
    assert config.home_of(environ) == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    settings = config.load(environ)
    assert (settings.dir, settings.problems, config.config_file(environ)) == ("", [], "")
    assert not settings.counts_calls
    settings = config.load({**environ, "NVCCACHE_LOG": "~/log", "NVCCACHE_DIR": "/c"})
    assert (settings.dir, settings.log, wrong(settings)) == ("/c", "", ["log"])
    assert settings.counts_calls
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir="relative"))
    assert config.load({}).dir == ""


def test_path_settings_are_ignored_if_the_working_directory_is_gone(environ, tmp_path, monkeypatch):
    """Even if the working directory, the base of relative paths, is gone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    paths = {name: row.variable for name, row in config.SETTINGS.items() if row.parse in PATHS}
    settings = config.load({**environ, **dict.fromkeys(paths.values(), "sub/x")})
    assert {"dir", "nvcc", "log"} <= paths.keys()
    assert wrong(settings) == sorted(paths)
    for name in paths:
        assert getattr(settings, name) == "" or os.path.isabs(getattr(settings, name))
