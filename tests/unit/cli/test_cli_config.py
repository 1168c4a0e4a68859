from __future__ import annotations

import os

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


def test_missing_file_is_said_to_be_missing(nvccache):
    assert nvccache("config").output.endswith("config.toml`, which does not exist\n")


def test_values_are_shown_as_they_are_written(nvccache, monkeypatch):
    result = nvccache("config", NVCCACHE_UMASK="2", NVCCACHE_MAX_SIZE="0", NVCCACHE_JOBS="many")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines() if line}
    assert rows["umask"] == "002 NVCCACHE_UMASK"
    assert rows["max_size"] == "no limit NVCCACHE_MAX_SIZE"
    assert rows["jobs"] == "- default, since what is set is wrong"
    assert result.stderr == (
        "nvccache: `NVCCACHE_JOBS`: `many` is not a number of jobs; the default is in force\n"
    )
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    assert nvccache("config").output.endswith("\nfile: none, since there is no home directory\n")
