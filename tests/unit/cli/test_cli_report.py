from __future__ import annotations

import json
import os
import stat
import time
import zipfile

import pytest

import made_builds
from made_builds import call, write
from made_events import event
from nvccache.report import page
from nvccache.report.command import PAGE
from nvccache.store import event_line, store
from nvccache.store.store import Store


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The command's working directory, empty."""
    path = tmp_path / "here"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def log(tmp_path):
    return str(write(tmp_path / "events.jsonl", made_builds.build(40)))


def data_of(text):
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def test_a_page_is_written_and_named(nvccache, folder, log):
    result = nvccache("report", "--from", log)
    assert result.exit_code == 0
    assert result.output.startswith(f"wrote `{PAGE}`: ")
    assert " compiles were hits; " in result.output
    assert os.listdir(folder) == [PAGE]
    text = (folder / PAGE).read_text()
    assert len(data_of(text)["calls"]["start"]) == 40
    assert stat.S_IMODE((folder / PAGE).stat().st_mode) == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("options", "written"), [([], "`trace.json`"), (["-o", "build.html"], "`build.html` and `trace.json`")]
)
def test_with_a_trace_there_is_a_page_only_if_it_is_named(nvccache, folder, log, options, written):
    result = nvccache("report", "--from", log, *options, "--trace", "trace.json")
    assert result.output.startswith(f"wrote {written}: ")
    assert sorted(os.listdir(folder)) == [*options[1:], "trace.json"]
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]


def test_the_figures_can_be_had_as_json(nvccache, folder, log):
    made = nvccache.json("report", "--from", log)
    assert (made["version"], made["calls"]) == (1, 40)
    assert {"hit_rate", "wall_saved", "tool_saved", "by_outcome"} <= set(made)
    assert made["causes"][0]["count"] and made["slowest_stages"][0]["kind"]
    assert sum(tally["count"] for tally in made["sources"]) == 40
    assert os.listdir(folder) == []
    assert nvccache("report", "--from", log, "--json", "-o", "page.html").exit_code == 2


def test_a_page_on_standard_output_is_nothing_but_the_page(nvccache, folder, log):
    result = nvccache("report", "--from", log, "-o", "-")
    assert result.stdout.startswith("<!DOCTYPE html>") and result.stdout.endswith("</html>\n")
    assert os.listdir(folder) == []


def test_the_last_build_is_shown_by_default(nvccache, folder, tmp_path):
    now = time.time()
    ages = (90_000.0, 7_000.0, 6_999.0, 30.0)
    path = str(
        write(tmp_path / "log", [call(started=now - age, build="", product=f"/{age}.o") for age in ages])
    )

    def shown(*arguments):
        result = nvccache("report", "--from", path, *arguments)
        assert result.exit_code == 0, result.output
        made = data_of((folder / PAGE).read_text())
        return len(made["calls"]["start"]), len(made["builds"])

    assert shown() == shown("--since", "last-build") == (1, 1)
    assert shown("--since", "2h") == (3, 2)
    assert shown("--since", "all") == (4, 3)
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now - 8_000))
    assert shown("--since", day) == (3, 2)


@pytest.mark.parametrize("when", ["yesterday", "2", "-3h", "2026-13-01", ""])
def test_a_time_that_is_none_is_wrong_usage(nvccache, folder, log, when):
    result = nvccache("report", "--from", log, "--since", when)
    assert result.exit_code == 2
    assert "last-build" in result.stderr and "Traceback" not in result.output


def test_the_event_log_is_what_is_read(nvccache, folder, cache_dir):
    last = time.time() - 600
    event_line.append(
        cache_dir,
        event("miss", stages=[("cicc", False, 2.0)], sources=["a.cu"], seconds=3.0, started=last - 3.0),
    )
    event_line.append(
        cache_dir, event("bypass", "verbose", sources=["b.cu"], started=last - 1.0, seconds=1.0)
    )
    impossible = event("miss", sources=["c.cu"], seconds=-3.0)
    event_line.append(cache_dir, impossible)
    assert nvccache("report").output.startswith(
        f"wrote `{PAGE}`: the last build, 10 min 0 s ago: no compile was a hit; 1 bypassed the cache; "
    )
    made = data_of((folder / PAGE).read_text())
    assert {made["texts"][number] for number in made["calls"]["source"]} == {"a.cu", "b.cu"}
    assert 'id="kept"' in (folder / PAGE).read_text()


def test_a_cache_that_is_not_there_yet_is_an_empty_log(nvccache, folder, cache_dir):
    result = nvccache("report")
    assert (result.exit_code, result.stderr) == (0, "nvccache: no calls are recorded\n")
    assert not os.path.exists(cache_dir)


def test_what_events_prints_is_what_from_reads(nvccache, folder, cache_dir):
    made = event("partial_hit", stages=[("cicc", True, 2.0), ("ptxas", False, 1.0)], sources=["a.cu"])
    made.directory = "/build\udcff"
    event_line.append(cache_dir, made)
    (folder / "events").write_text(nvccache("events", "--json").output)
    assert nvccache("report", "--from", "events", "-o", "from.html").exit_code == 0
    assert nvccache("report", "-o", "log.html").exit_code == 0
    assert data_of((folder / "from.html").read_text()) == data_of((folder / "log.html").read_text())


def test_an_empty_log_makes_a_page_and_a_warning(nvccache, folder, tmp_path):
    result = nvccache("report", "--from", str(write(tmp_path / "log", [])))
    assert result.exit_code == 0
    assert result.stderr == "nvccache: no calls are recorded\n"
    assert "<h1>No calls</h1>" in (folder / PAGE).read_text()


def test_damaged_lines_are_left_out_and_counted(nvccache, folder, tmp_path):
    path = write(tmp_path / "log", [call()])
    with path.open("ab") as stream:
        stream.write(b'{"version": 1, "sta\n{"version": 7}\n')
    result = nvccache("report", "--from", str(path))
    assert result.exit_code == 0
    assert result.stderr == (
        f"nvccache: 1 line of `{path}` left out: no event (the first is line 2)\n"
        f"nvccache: 1 line of `{path}` left out: of a newer version of nvccache (the first is line 3)\n"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x7fELF\x00\n\x01\x02", "is not what `nvccache events --json` prints"),
        (b'{"version": 3}\n', "was written by a newer version of nvccache"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_is_no_log_is_one_sentence(nvccache, folder, tmp_path, content, sentence):
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    result = nvccache("report", "--from", str(path))
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and sentence in result.stderr
    assert os.listdir(folder) == []


def test_hostile_texts_stay_texts(nvccache, folder, tmp_path):
    path = write(tmp_path / "log", made_builds.hostile())
    assert (
        nvccache("report", "--from", str(path), "--since", "all", "--trace", "t.json", "-o", PAGE).exit_code
        == 0
    )
    text = (folder / PAGE).read_text()
    assert text.count("<script") == text.count("</script>") == 2
    assert "window.harmed" in text and "<img" not in text
    assert all(line.isprintable() for line in text.split("\n"))
    json.loads((folder / "t.json").read_text())


def test_the_policy_of_the_page_names_its_script_and_nothing_else(nvccache, folder, log):
    nvccache("report", "--from", log)
    text = (folder / PAGE).read_text()
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    assert f"script-src 'sha256-{page._hash(script)}'" in text
    assert "default-src 'none'" in text


def test_nothing_in_the_page_is_elsewhere(nvccache, folder, log):
    nvccache("report", "--from", log)
    text = (folder / PAGE).read_text()
    assert not [word for word in ("http:", "https:", "src=", "@import", "url(") if word in text]


def test_what_is_kept_is_shown_where_the_log_is_of_this_cache(nvccache, folder, log, cache_dir):
    Store(cache_dir).add_blob("ab" * 32, b"x" * 2048, compress=False)
    nvccache("report", "--from", log)
    assert 'id="kept"' not in (folder / PAGE).read_text()
    text = page.of([], page_kept(cache_dir), 0.0)
    assert 'id="kept"' in text and "outputs of stages" in text


def page_kept(cache_dir):
    from nvccache.report import kept

    assert os.path.isdir(f"{cache_dir}/{store.BLOB}")
    return kept.of(cache_dir)


def test_the_wheel_holds_the_parts_of_the_page(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"nvccache/report/{name}" for name in (*page.SCRIPTS, "page.html", "page.css")} <= names


@pytest.mark.parametrize("source", ["/dev/zero", "lines"])
def test_what_has_no_end_is_not_read_to_it(nvccache, folder, source):
    if source == "lines":
        (folder / source).write_text("y\n" * 1_000_000)
    result = nvccache("report", "--from", source, "--json")
    assert (result.exit_code, result.output) == (
        1, f"Error: `{source}` is not what `nvccache events --json` prints\n",
    )  # fmt: skip


def test_the_build_before_is_the_last_that_made_one_of_the_same_products(nvccache, folder, tmp_path):
    def build(number, seconds, product):
        started = made_builds.BEGUN + 100 * number
        return call(started=started, seconds=seconds, product=product, build=f"{number}-1")

    made = [build(1, 30.0, "/a.o"), build(2, 20.0, "/elsewhere.o"), build(3, 10.0, "/a.o")]
    path = str(write(tmp_path / "log", made))
    assert nvccache("report", "--from", path).exit_code == 0
    assert "previous build: 30.00 s" in (folder / PAGE).read_text()
    assert nvccache("report", "--from", path, "--since", "all").exit_code == 0
    assert "previous build: " not in (folder / PAGE).read_text()
