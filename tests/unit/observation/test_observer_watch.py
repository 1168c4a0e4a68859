"""Running tools so that they are observed, and the messages where they cannot be."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from nvccache.machine import process
from nvccache.observation import observer
from nvccache.observation.observer import Log, Watch
from nvccache.store.store import Store
from observed_programs import compile_c

ENVIRON = {"PATH": "/usr/bin:/bin"}
SHELL = os.path.realpath("/bin/sh")


@pytest.fixture
def scratch(tmp_path) -> str:
    (tmp_path / "scratch").mkdir()
    return str(tmp_path / "scratch")


@pytest.fixture
def tried(monkeypatch) -> list[str]:
    """The programs run to test whether observing works."""
    found: list[str] = []
    run = process.run

    def run_and_tell(argv, *others, **options):
        found.append(argv[0])
        return run(argv, *others, **options)

    monkeypatch.setattr(process, "run", run_and_tell)
    return found


def test_the_observer_is_tried_once_for_each_cache(scratch, cache, tried):
    assert observer.obstacle(scratch, cache) == ""
    assert observer.obstacle(scratch, Store(cache.root)) == ""
    assert tried == ["/bin/sh"]
    assert os.listdir(scratch) == []


@pytest.mark.parametrize("mark", [" ", ":"])
def test_loader_special_characters_in_the_library_path_prevent_observation(scratch, cache, monkeypatch, mark):
    os.mkdir(f"{scratch}/a{mark}b")
    shutil.copyfile(observer.LIBRARY, f"{scratch}/a{mark}b/observer.so")
    monkeypatch.setattr(observer, "LIBRARY", f"{scratch}/a{mark}b/observer.so")
    assert "cannot be loaded" in observer.obstacle(scratch, cache)


def test_without_the_observer_library_nothing_is_observed(scratch, cache, monkeypatch):
    monkeypatch.setattr(observer, "LIBRARY", f"{scratch}/never.so")
    assert "was not built" in observer.obstacle(scratch, cache)


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF", None])
def test_an_observer_library_that_does_not_load_is_tried_once_and_remembered(
    tmp_path, scratch, cache, tried, monkeypatch, content
):
    (tmp_path / "observer.so").write_bytes(content or b"")
    if content is None:
        (tmp_path / "empty.c").write_text("")
        compile_c(tmp_path / "empty.c", tmp_path / "observer.so", "-shared")
    monkeypatch.setattr(observer, "LIBRARY", str(tmp_path / "observer.so"))
    for _ in range(2):
        assert "cannot be loaded" in observer.obstacle(scratch, Store(cache.root))
    assert tried == ["/bin/sh"]


def test_a_replaced_observer_library_is_tried_again(tmp_path, scratch, cache, tried, monkeypatch):
    (tmp_path / "observer.so").write_bytes(b"")
    original = observer.LIBRARY
    monkeypatch.setattr(observer, "LIBRARY", str(tmp_path / "observer.so"))
    assert observer.obstacle(scratch, cache)
    shutil.copyfile(original, tmp_path / "copy.so")
    os.rename(tmp_path / "copy.so", tmp_path / "observer.so")
    assert observer.obstacle(scratch, cache) == ""
    assert len(tried) == 2


def test_a_failed_trial_of_the_observer_for_lack_of_scratch_is_not_remembered(scratch, cache):
    assert "could not be tested" in observer.obstacle(f"{scratch}/never", cache)
    assert observer.obstacle(scratch, cache) == ""


def test_an_observed_tool_has_the_status_and_output_it_has_without(scratch):
    watch = Watch(scratch)
    completed, log = watch.run(
        ["sh", "-c", "export -p | grep -c LD_PRELOAD; ls -d / >/dev/null; cd / && test -e never"], ENVIRON
    )
    assert (completed.status, completed.stdout, completed.stderr) == (1, b"1\n", b"")
    seen = log.read()
    assert seen.incomplete == ""
    assert seen.processes[0].program == SHELL
    assert "/never" in seen.processes[0].absent
    assert "QUOTING_STYLE" in set().union(*(process.variables for process in seen.processes))


def test_each_observed_run_has_a_log_of_its_own(scratch):
    watch = Watch(scratch)
    logs: dict[int, Log] = {}

    def run(number: int) -> None:
        logs[number] = watch.run(["/bin/sh", "-c", f"test -e /never/{number}"], ENVIRON)[1]

    threads = [threading.Thread(target=run, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, log in logs.items():
        absent = {path for process in log.read().processes for path in process.absent}
        assert {path for path in absent if path.startswith("/never")} == {f"/never/{number}"}


def test_an_observation_without_log_or_of_another_program_is_incomplete(scratch):
    assert "log" in Log(f"{scratch}/never", "/bin/sh").read().incomplete
    _, log = Watch(scratch).run(["true"], ENVIRON)
    assert log.read().incomplete == ""
    for program in ("", "never", "/bin/sh"):
        assert Log(f"{scratch}/watched-0", program).read().incomplete


NAMING = {
    "#!/bin/sh\necho ${LD_PRELOAD+set}\n": True,
    "#!/bin/bash\n[ -v LD_PRELOAD ] && echo set; true\n": True,
    "#!/bin/sh\nenv\n": False,
}


@pytest.mark.parametrize("text", NAMING)
def test_scripts_that_name_ld_preload_are_run_unobserved(scratch, text):
    """So they do not see it."""
    path = f"{scratch}/script"
    with open(path, "w") as stream:
        stream.write(text)
    os.chmod(path, 0o755)
    completed, log = Watch(scratch).run([path], ENVIRON)
    assert ("contains `LD_PRELOAD`" in log.read().incomplete) == NAMING[text]
    assert not NAMING[text] or completed.stdout.strip() == b""
    assert not observer.looks_for_observer("/bin/sh") and not observer.looks_for_observer(f"{scratch}/none")
