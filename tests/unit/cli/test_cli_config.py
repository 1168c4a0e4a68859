from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys

import pytest

from nvccache import config


def test_every_setting_is_shown_with_its_value_and_origin(nvccache, cache_dir):
    path = config.config_file(os.environ)
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as stream:
        stream.write('max_size = "1536M"\nreadonly = true\n')
    result = nvccache("config")
    rows = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line}
    assert set(config.SETTINGS) <= set(rows)
    assert rows["dir"] == [cache_dir, "NVCCACHE_DIR"]
    assert rows["max_size"] == ["1.5", "GiB", "file"]
    assert rows["readonly"] == ["yes", "file"]
    assert rows["strict"] == ["no", "default"]
    assert rows["file:"] == [f"`{path}`"]


def test_a_missing_file_is_shown_as_missing(nvccache):
    assert nvccache("config").output.endswith("config.toml`, which does not exist\n")


def test_values_are_shown_as_they_are_written(nvccache, monkeypatch):
    result = nvccache("config", NVCCACHE_MAX_SIZE="0", NVCCACHE_JOBS="many")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines() if line}
    assert rows["max_size"] == "no limit NVCCACHE_MAX_SIZE"
    assert rows["jobs"] == "- default, because its value is wrong"
    assert result.stderr == (
        "nvccache: `NVCCACHE_JOBS`: `many` is not a number of jobs; the default is in force\n"
    )
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    assert nvccache("config").output.endswith("\nfile: none, because there is no home directory\n")


@pytest.fixture
def file(cache_dir):
    path = config.config_file(os.environ)
    os.makedirs(os.path.dirname(path))
    return pathlib.Path(path)


TEXT = '# mine\nmax_size = "1G"  # enough\n\n"jobs" = 3\r\n# the rest\n[table]\nmax_size = 1\n'


def test_a_setting_is_changed_and_all_else_stays(nvccache, file):
    file.write_bytes(TEXT.encode())
    file.chmod(0o640)
    result = nvccache("config", "max_size", "20G")
    assert result.output == f"set `max_size` to `20G` in `{file}`\n"
    assert file.read_bytes() == TEXT.replace('"1G"', '"20G"').encode()
    assert file.stat().st_mode & 0o777 == 0o640
    assert nvccache("config", "--unset", "jobs").exit_code == 0
    assert file.read_bytes() == TEXT.replace('"1G"', '"20G"').replace('"jobs" = 3\r\n', "").encode()
    assert os.listdir(file.parent) == [file.name]


def test_a_new_setting_comes_before_any_table(nvccache, file):
    file.write_text(TEXT)
    for name, value in (("log", "/l"), ("readonly", "on"), ("NVCCACHE_BASE_DIR", "~/src"), ("jobs", "7")):
        assert nvccache("config", name, value).exit_code == 0
    loaded = config.load({**os.environ, "HOME": "/home/x", "XDG_CONFIG_HOME": str(file.parent.parent)})
    assert (loaded.log, loaded.readonly, loaded.base_dir, loaded.jobs) == ("/l", True, "/home/x/src", 7)
    assert file.read_text().endswith("[table]\nmax_size = 1\n") and "# enough" in file.read_text()


@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [
        ("max_size", "ten", "`ten` is not a size"),
        ("jobs", "many", "`many` is not a number of jobs"),
        ("readonly", "perhaps", "`perhaps` is neither on"),
        ("dir", "cache", "`cache` is neither an absolute path"),
        ("log", " ", "cannot be empty"),
    ],
)
def test_a_wrong_value_leaves_the_file_as_it_is(nvccache, file, name, value, printed):
    file.write_bytes(TEXT.encode())
    result = nvccache("config", name, value)
    assert result.exit_code == 1
    assert printed in result.output.splitlines()[0]
    assert file.read_bytes().decode() == TEXT


def test_a_name_that_is_none_is_refused_with_the_nearest(nvccache, cache_dir):
    result = nvccache("config", "max_sise", "1G")
    assert result.exit_code == 2
    assert result.output.splitlines()[0] == "Error: there is no setting `max_sise`; did you mean `max_size`?"
    assert not os.path.exists(config.config_file(os.environ))


def test_a_file_that_is_not_toml_is_left_alone(nvccache, file):
    file.write_text('max_size = "1G"\njobs 3\n')
    result = nvccache("config", "max_size", "2G")
    assert result.exit_code == 1
    assert f"is unchanged in `{file}`: Expected" in result.output and "line 2" in result.output
    assert file.read_text() == 'max_size = "1G"\njobs 3\n'


def test_a_link_to_the_file_stays_one(nvccache, file, tmp_path):
    (tmp_path / "dotfile").write_text("jobs = 1\n")
    file.symlink_to(tmp_path / "dotfile")
    assert nvccache("config", "jobs", "2").exit_code == 0
    assert file.is_symlink() and (tmp_path / "dotfile").read_text() == "jobs = 2\n"


def test_there_need_not_be_a_file(nvccache, cache_dir):
    path = config.config_file(os.environ)
    assert nvccache("config", "--unset", "jobs").output == f"`jobs` is not set in `{path}`\n"
    assert not os.path.exists(os.path.dirname(path))
    assert nvccache("config", "jobs", "2").exit_code == 0
    assert pathlib.Path(path).read_text() == "jobs = 2\n"
    result = nvccache("config", "jobs", "4", NVCCACHE_JOBS="1")
    assert result.stderr == "nvccache: `NVCCACHE_JOBS` is set in the environment, which takes precedence\n"


def test_changes_at_once_are_all_kept(nvccache, cache_dir, monkeypatch):
    program = "import sys; from nvccache.cli import main; sys.exit(main(sys.argv[1:]))"
    values = {"jobs": "2", "max_size": "1G", "readonly": "on", "strict": "on", "recache": "on", "log": "/l"}
    started = [
        subprocess.Popen([sys.executable, "-c", program, "config", name, value])
        for name, value in values.items()
    ]
    assert [each.wait() for each in started] == [0] * len(values)
    with open(config.config_file(os.environ)) as stream:
        assert {line.partition(" ")[0] for line in stream} == set(values)


def test_without_a_home_directory_there_is_no_file(nvccache, monkeypatch):
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    for argv in (["jobs", "1"], ["--unset", "jobs"]):
        result = nvccache("config", *argv)
        assert result.exit_code == 1
        assert result.output.startswith("Error: there is no settings file")


def test_as_json_every_setting_has_its_value_and_origin(nvccache, cache_dir):
    shown = nvccache.json("config", NVCCACHE_JOBS="3", NVCCACHE_MAX_SIZE="x")
    assert shown["settings"].keys() == config.SETTINGS.keys()
    assert shown["settings"]["jobs"] == {"value": 3, "origin": "NVCCACHE_JOBS", "variable": "NVCCACHE_JOBS"}
    assert shown["problems"][0]["setting"] == "max_size"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_file_as_it_is(nvccache, file, monkeypatch, step):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file.write_bytes(TEXT.encode())
    monkeypatch.setattr(os, step, fail)
    result = nvccache("config", "jobs", "9")
    assert result.exit_code == 1
    assert result.output == f"Error: `jobs` is unchanged in `{file}`: No space left on device\n"
    assert file.read_bytes() == TEXT.encode()
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    "text",
    [
        "# head\n[max_size] # c1\n# precious\na = 1 # c3\n[other]\n",
        'max_size = [ # one\n "5G", # two\n] # three\n',
        'max_size.foo = "5G" # dotted\n',
    ],
)
def test_what_has_comments_of_its_own_is_not_replaced(nvccache, file, text):
    file.write_text(text)
    result = nvccache("config", "max_size", "20G")
    assert (result.exit_code, file.read_text()) == (1, text)
    assert result.output.startswith("Error: `max_size` is unchanged in ")


@pytest.mark.parametrize("kind", ["FIFO", "endless"])
def test_a_settings_file_that_is_none_is_not_waited_for(nvccache, file, kind):
    file.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    result = nvccache("config", "max_size", "20G")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].endswith("it is no regular file")


URL = "https://user:SECRET@host/cache,rw"
SHOWN = "https://***@host/cache,rw"


@pytest.mark.parametrize(("more", "shown"), [("", SHOWN), (",SECRET", "comma")], ids=["right", "wrong"])
@pytest.mark.parametrize("words", [["config"], ["config", "--json"], ["--version", "--verbose"]])
def test_the_password_of_a_remote_is_not_shown(nvccache, words, more, shown):
    result = nvccache(*words, NVCCACHE_REMOTE=URL + more)
    assert shown in result.output
    assert "SECRET" not in result.output


@pytest.mark.parametrize("json_words", [[], ["--json"]])
def test_a_password_that_is_set_is_not_shown(nvccache, json_words):
    result = nvccache("config", "remote", URL, *json_words)
    assert SHOWN in result.output
    assert "SECRET" not in result.output
    assert config.load(os.environ).remote == URL


def test_a_wrong_url_is_not_set(nvccache):
    result = nvccache("config", "remote", "ftp://user:SECRET@host")
    assert result.exit_code == 1
    assert "unknown scheme `ftp`" in result.output
    assert "SECRET" not in result.output
    assert config.load(os.environ).remote == ""


def test_one_setting_is_shown(nvccache):
    assert nvccache("config", "max-size", NVCCACHE_MAX_SIZE="1536M").output == "1.5 GiB\n"
    assert nvccache("config", "NVCCACHE_LOG").output == "\n"
    assert nvccache("config", "remote", NVCCACHE_REMOTE=URL).output == f"{SHOWN}\n"
    assert nvccache.json("config", "jobs") == {"setting": "jobs", "value": 0, "origin": "default"}
    assert nvccache("config", "jbos").exit_code == 2


@pytest.mark.parametrize(
    "text", ['jobs = """\n3"""\n', "jobs = 3 # a\njobs.x = 1\n", 'log = "\\u002f"\n[jobs]\n']
)
def test_what_cannot_be_edited_by_line_is_left_to_its_author(nvccache, file, text):
    file.write_text(text)
    result = nvccache("config", "jobs", "4")
    assert (result.exit_code, file.read_text()) == (1, text)
    assert "`jobs` is unchanged in " in result.output


@pytest.mark.parametrize("value", ['/a"b\\c', "/ü\x7f\t", "/#x"])
def test_a_value_is_read_as_it_was_typed(nvccache, file, value):
    file.write_text("log = '/old' # mine\n")
    assert nvccache("config", "log", value).exit_code == 0
    assert config.load(os.environ).log == value
    assert file.read_text().endswith(" # mine\n")
    assert nvccache("config", "log", "/next").exit_code == (1 if "\\" in file.read_text() else 0)
