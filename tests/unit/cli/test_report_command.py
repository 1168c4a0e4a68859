from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import webbrowser

import pytest

import made_builds
from nvccache.report.command import PAGE
from sample_events import event


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The command's working directory, empty."""
    (path := tmp_path / "here").mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def build(cache_dir):
    """A build of 40 calls in the event log."""
    made_builds.log(cache_dir, made_builds.build(40))


def data_of(text):
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ([], [PAGE]),
        (["-o", "build.html", "--trace", "trace.json"], ["build.html", "trace.json"]),
        (["-o", "-"], []),
    ],
    ids=" ".join,
)
def test_report_prints_the_names_of_the_written_files(nvccache, folder, build, options, files):
    result = nvccache("report", *options)
    assert result.exit_code == 0
    assert sorted(os.listdir(folder)) == files
    for name in files:
        text = (folder / name).read_text()
        calls = data_of(text)["calls"]["start"] if name != "trace.json" else json.loads(text)["traceEvents"]
        assert len(calls) >= 40
    if files:
        assert result.output.startswith(f"wrote {' and '.join(f'`{name}`' for name in files)}: ")
    else:
        assert result.stdout.startswith("<!DOCTYPE html>") and result.stdout.endswith("</html>\n")


def test_report_open_opens_the_written_page_in_a_browser(nvccache, folder, build, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    result = nvccache("report", "--open")
    assert (result.exit_code, result.stderr) == (0, "")
    assert opened == [(folder / PAGE).as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda url: False)  # as on a machine without a browser
    result = nvccache("report", "--open")
    assert result.exit_code == 0
    assert result.stderr == "nvccache: no browser could be started; open the page yourself\n"
    assert nvccache("report", "--open", "-o", "-").exit_code == 2


def test_report_shows_only_the_last_build(nvccache, folder, cache_dir):
    now = time.time()
    last = event("miss", stages=[("cicc", False, 2.0)], sources=["a.cu"], seconds=3.0, started=now - 603.0)
    earlier = event("miss", sources=["c.cu"], started=now - 7000.0)
    bypassed = event("bypass", "verbose", sources=["b.cu"], started=now - 601.0, seconds=1.0)
    made_builds.log(cache_dir, [earlier, last, bypassed])
    assert nvccache("report").output.startswith(
        f"wrote `{PAGE}`: the last build, 10 min 0 s ago: 2 compiles in 3.00 s, 0 % of compiler time reused"
    )
    made = data_of((folder / PAGE).read_text())
    assert {made["texts"][number] for number in made["calls"]["source"]} == {"a.cu", "b.cu"}


def test_report_without_a_cache_shows_no_calls(nvccache, folder, cache_dir):
    result = nvccache("report")
    assert (result.exit_code, result.stderr) == (0, "nvccache: found no recorded calls\n")
    assert "<h1>No calls</h1>" in (folder / PAGE).read_text()
    assert not os.path.exists(cache_dir)


def test_hostile_names_in_the_event_log_cannot_inject_html(nvccache, folder, cache_dir):
    made_builds.log(cache_dir, made_builds.hostile()[:-1])  # the last one is decades older
    assert nvccache("report", "--trace", "t.json", "-o", PAGE).exit_code == 0
    text = (folder / PAGE).read_text()
    assert text.count("<script") == text.count("</script>") == 2
    assert "window.harmed" in text and "<img" not in text
    assert all(line.isprintable() for line in text.split("\n"))
    json.loads((folder / "t.json").read_text())


def test_the_report_page_may_run_only_its_own_script_and_loads_nothing(nvccache, build):
    text = nvccache("report", "-o", "-").stdout
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text and "default-src 'none'" in text
    assert not [word for word in ("http:", "https:", "src=", "@import", "url(") if word in text]
