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
