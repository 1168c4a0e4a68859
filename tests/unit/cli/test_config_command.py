"""`nvccache config` and the user's file: a change is one line, or refused. For what it prints see golden/."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from nvccache import config


@pytest.fixture
def file(cache_dir):
    path = pathlib.Path(config.config_file(os.environ))
    path.parent.mkdir(parents=True)
    return path


TEXT = '# mine\nmax_size = "1G"  # enough\n\n"jobs" = 3\n# the rest\n[table]\nmax_size = 1\n'


def test_config_makes_a_private_settings_file_and_keeps_the_mode_of_an_existing_one(nvccache, file, tmp_path):
    file.parent.rmdir()
    nvccache.lines("config", "jobs", "2")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("jobs = 2\n", 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "dotfile").write_text("jobs = 1\n")
    (tmp_path / "dotfile").chmod(0o640)
    file.unlink()
    file.symlink_to(tmp_path / "dotfile")
    nvccache.lines("config", "jobs", "2")
    assert file.is_symlink() and (tmp_path / "dotfile").read_text() == "jobs = 2\n"
    assert file.stat().st_mode & 0o777 == 0o640


def test_config_adds_a_setting_before_toml_tables_and_it_reads_back_as_typed(nvccache, file):
    file.write_text(TEXT)
    typed = {"log": '/ü\t#a"b\\c', "readonly": "on", "NVCCACHE_BASE_DIR": "/src", "jobs": "7"}
    for name, value in typed.items():
        nvccache.lines("config", name, value)
    loaded = config.load(os.environ)
    assert (loaded.log, loaded.readonly, loaded.base_dir, loaded.jobs) == (typed["log"], True, "/src", 7)
    assert file.read_text().endswith("[table]\nmax_size = 1\n") and "# enough" in file.read_text()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('max_size = "1G"\njobs 3\n', "4"),  # no TOML
        ("# head\n[jobs] # c1\na = 1\n", "4"),
        ("jobs = [ # one\n 5, # two\n]\n", "4"),
        ("jobs.foo = 5\n", "4"),
        ('jobs = """\n3"""\n', "4"),
        (TEXT, "four"),
        (TEXT, " "),
    ],
)
def test_config_edits_no_multiline_value_and_writes_no_invalid_one(nvccache, file, text, value):
    file.write_text(text)
    result = nvccache("config", "jobs", value)
    assert (result.exit_code, file.read_text()) == (1, text)
    assert result.output.startswith("Error: cannot change `jobs` in ")


@pytest.mark.parametrize("value", ["/\udcff", "/\x7f"])
def test_config_refuses_a_value_that_toml_cannot_hold(nvccache, file, value):
    file.write_text(TEXT)
    assert nvccache("config", "log", value).exit_code == 1
    assert file.read_text() == TEXT


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_config_refuses_a_settings_file_that_is_not_regular(nvccache, file, put):
    put(file)
    result = nvccache("config", "max_size", "20G")
    error = f"Error: cannot change `max_size` in `{file}`: not a regular file\n"
    assert (result.exit_code, result.output) == (1, error)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_config_leaves_the_settings_file_unchanged_on_a_full_disk(nvccache, file, monkeypatch, step):
    def fail(first, *_):
        assert step != "fsync" or os.fstat(first).st_size
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file.write_text(TEXT)
    monkeypatch.setattr(os, step, fail)
    result = nvccache("config", "jobs", "9")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: cannot write `{file}`: No space left on device\n",
    )
    assert file.read_text() == TEXT and os.listdir(file.parent) == [file.name]


def test_without_a_home_directory_config_names_no_settings_file(nvccache, monkeypatch):
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    assert nvccache("config").output.endswith("\nfile: none, because there is no home directory\n")
    for argv in (["jobs", "1"], ["--unset", "jobs"]):
        assert nvccache("config", *argv).output.startswith("Error: there is no settings file")
