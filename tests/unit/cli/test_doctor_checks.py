"""What `nvccache doctor` finds wrong, and what fixes it; nothing that it tries stays in the cache."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import unprivileged
from nvccache import config
from nvccache.cli import cache_checks, doctor
from nvccache.cli.install import install_command, launcher
from nvccache.cli.output import BAD, GOOD, ODD
from nvccache.explain import miss_reason
from nvccache.explain.miss_reason import ObjectRecord
from nvccache.files import keys
from nvccache.remote import outages
from nvccache.remote_execution import work
from nvccache.store import event_line, store
from nvccache.store.event_line import Event
from nvccache.store.store import Store


@pytest.fixture
def root():
    """A cache with files in each part, outside pytest's directories, which only their owner may enter."""
    outer = Path(tempfile.mkdtemp(prefix="nvccache-test-"))
    outer.chmod(0o755)
    path = outer / "a cache"
    cache = Store(str(path))
    for bucket in store.BUCKETS:
        cache.add_record(bucket, "ab" * 32, b"body")
    event_line.append(str(path), Event("miss"))
    yield path
    unprivileged.remove(outer)


def check(root, **variables):
    settings = config.load({"HOME": "/nowhere", "NVCCACHE_DIR": str(root), **variables})
    return list(cache_checks.check_cache(settings))


def states(findings):
    return [finding.state for finding in findings]


def test_doctor_tries_each_cache_folder_and_leaves_no_files(root):
    before = sorted(root.rglob("*"))
    assert states(check(root)) == [GOOD]
    assert states(check(root, NVCCACHE_READONLY="1")) == [ODD, GOOD]
    assert sorted(root.rglob("*")) == before
    root.chmod(0o2775)
    assert [finding.topic for finding in check(root)] == ["cache", "trust"]


def test_doctor_creates_a_missing_cache_but_not_in_readonly_mode(root):
    new = root.parent / "new"
    check(new, NVCCACHE_READONLY="1")
    assert not new.exists()
    assert states(check(new)) == [GOOD]
    assert sorted(os.listdir(new)) == ["CACHEDIR.TAG", "tmp"]


@pytest.mark.parametrize("part", ["tmp", "journal", "locks", store.BLOB])
def test_doctor_names_a_cache_folder_that_cannot_be_written_and_its_owner(root, part):
    """A cache shared by all users, in which one has created something with another umask."""
    (root / "locks").mkdir(exist_ok=True)
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (root / part).chmod(0o555)
    if is_root := os.geteuid() == 0:
        os.seteuid(unprivileged.NOBODY)
    try:
        findings = check(root)
    finally:
        if is_root:
            os.seteuid(0)
    (found,) = [each for each in findings if each.state == BAD]
    owner = f"owner {os.getuid()}, group {os.getgid()}, mode 555"
    expected = f"nothing can be stored in `{root / part}` ({owner}): Permission denied"
    assert (found.text, "docs/how-to/shared-cache.md" in found.details[0]) == (expected, True)


@pytest.mark.parametrize("place", ["journal", store.BLOB])
def test_doctor_rejects_a_link_in_place_of_a_cache_folder_and_writes_nothing_through_it(
    root, tmp_path, place
):
    shutil.rmtree(root / place)
    before = os.listdir(tmp_path)
    (root / place).symlink_to(tmp_path)
    (found,) = check(root)
    assert found.state == BAD and "it is a symbolic link, or not a directory" in found.text
    assert os.listdir(tmp_path) == before


def test_doctor_advises_to_make_room_on_a_full_disk(root, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    (found,) = check(root)
    assert "No space left" in found.text and "make room" in found.details[0]


def test_doctor_rejects_a_foreign_cache_directory_and_a_missing_home(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text("")
    (found,) = check(tmp_path)
    assert found.state == BAD and "contains files but no cache of nvccache" in found.text
    assert "CACHEDIR.TAG" not in os.listdir(tmp_path)
    monkeypatch.setattr(config, "home_of", lambda environ: "")
    (found,) = cache_checks.check_cache(config.load({}))
    assert found.state == BAD and "there is no home directory" in found.text


def spoil(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def rename(path):
    path.rename(path.parent / ("0" * 64))


def link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("damage", [spoil, rename, link, None])
def test_doctor_names_damaged_cache_files_and_changes_none(cache_dir, damage):
    """A blob as it is, a compressed one, and the record of an object."""
    cache = Store(cache_dir)
    for content in (b"x" * 5000, b"y" * 5000):
        cache.add_blob(keys.digest_bytes(content), content, compress=content[:1] == b"y")
    Path(cache_dir, "blob-v1", "aa").mkdir(parents=True)
    Path(cache_dir, "blob-v1", "aa", "a" * 64).write_text("of an older version")
    miss_reason.add_record(["/b/a.o"], ObjectRecord("it is the first", "miss"), cache)
    for path in [path for bucket in store.BUCKETS for path in Path(cache_dir, bucket).glob("*/*")]:
        if damage:
            damage(path)
    files = [path for bucket in store.BUCKETS for path in Path(cache_dir, bucket).glob("*/*")]
    before = [os.lstat(path).st_mtime_ns for path in files]
    (found,) = cache_checks.check_files(config.load({"NVCCACHE_DIR": cache_dir}))
    assert [os.lstat(path).st_mtime_ns for path in files] == before
    if not damage:
        assert found.state == GOOD and found.text.startswith("3 files, ")
        return
    assert (found.state, found.text) == (BAD, "3 of 3 files damaged; the results will be compiled again")
    assert sorted(found.details) == sorted(str(path.relative_to(cache_dir)) for path in files)


@pytest.fixture
def programs(tmp_path, cache_dir):
    """Directories with an nvcc each: `shim` has nvccache's, `cuda` another, `empty` none."""
    for name in ("shim/nvccache", "cuda/nvcc", "empty/x"):
        program = tmp_path / name
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "shim" / "nvcc").symlink_to("nvccache")
    return tmp_path


IS_FIRST = 'export PATH=HERE/{}:"$PATH"'


@pytest.mark.parametrize(
    ("folders", "variables", "state", "text", "fix"),
    [
        ("cuda", {}, GOOD,
         "`nvcc` is NVIDIA's; to use the cache, call `nvccache nvcc` or see `nvccache install`", ""),
        ("empty shim cuda", {}, GOOD, "`nvcc` is nvccache: `HERE/shim/nvcc`", ""),
        ("shim", {"NVCCACHE_NVCC": "nvcc-1"}, BAD, "`HERE/shim/nvcc` is nvccache, but there is no nvcc for it"
         " to run: there is no compiler `nvcc-1`, which is set in NVCCACHE_NVCC, on PATH besides nvccache",
         ""),
        ("cuda shim", {}, ODD, "`HERE/cuda/nvcc` comes before nvccache's `HERE/shim/nvcc`, so calls of"
         " `nvcc` are not cached", IS_FIRST.format("shim")),
        ("empty", {}, ODD,
         "there is no `nvcc`, so `nvccache nvcc` cannot work; CMake may find an nvcc elsewhere",
         IS_FIRST.format("cuda")),
    ],
)  # fmt: skip
def test_doctor_requires_the_shim_first_on_path_and_a_compiler_behind_it(
    programs, folders, variables, state, text, fix
):
    path = "::".join(str(programs / name) for name in folders.split())
    environ = {**os.environ, "PATH": path, **variables}
    (found,) = doctor.check_path(config.load(environ), environ, f"{programs}/cuda/nvcc")
    assert (found.state, found.topic) == (state, "on PATH")
    assert [found.text, "".join(found.fix)] == [each.replace("HERE", str(programs)) for each in (text, fix)]
    assert not list(doctor.check_path(config.load(environ), {"PATH": f"{programs}/empty"}, None))


LAUNCHER = "CMAKE_CUDA_COMPILER_LAUNCHER"
CACHED = "`HERE` compiles CUDA through the cache"


@pytest.mark.parametrize(
    ("entries", "state", "text", "further"),
    [
        (f"{LAUNCHER}:STRING=HERE/shim/nvccache", GOOD, CACHED, ""),
        (f"{LAUNCHER}:UNINITIALIZED=/bin/true;HERE/shim/nvccache", GOOD, CACHED, ""),
        ("CMAKE_CUDA_COMPILER:FILEPATH=HERE/shim/nvcc", GOOD, CACHED, ""),
        ("", ODD, "`HERE` compiles CUDA without nvccache", ""),
        (f"{LAUNCHER}:STRING=/gone/nvccache", BAD,
         f"`{LAUNCHER}` of `HERE` is `/gone/nvccache`, which does not exist, so builds fail", ""),
        ("CMAKE_CUDA_COMPILER:FILEPATH=HERE/shim/nvccache", BAD, "CMake uses nvccache itself,"
         " `HERE/shim/nvccache`, as the compiler, so builds fail", " -DCMAKE_CUDA_COMPILER=nvcc --fresh"),
    ],
)  # fmt: skip
def test_a_build_directory_compiles_through_the_cache_or_has_a_command_that_fixes_it(
    programs, entries, state, text, further
):
    cached = f"# by CMake\nCMAKE_CUDA_COMPILER:FILEPATH=HERE/cuda/nvcc\n{entries}\n"
    (programs / "CMakeCache.txt").write_text(cached.replace("HERE", str(programs)))
    found = doctor.check_build(str(programs))
    assert (found.state, found.topic, found.text) == (state, "build", text.replace("HERE", str(programs)))
    command = f"cmake -D{LAUNCHER}={launcher()} {programs}{further}"
    assert found.fix == ((command,) if state != GOOD else ())


def test_doctor_offers_no_fix_without_cuda_and_rejects_a_directory_without_a_cmake_cache(programs):
    found = doctor.check_build(str(programs))
    assert found.text == f"cannot read `CMakeCache.txt` in `{programs}`: No such file or directory"
    assert (found.state, found.details) == (BAD, ("only CMake build directories can be checked",))
    (programs / "CMakeCache.txt").write_text("CMAKE_CXX_COMPILER:FILEPATH=/bin/c++\n")
    found = doctor.check_build(str(programs))
    assert (found.state, found.topic, found.fix) == (ODD, "build", ())
    assert found.text == f"`{programs}` compiles no CUDA, so it does not need nvccache"


def test_doctor_reports_a_wrong_setting_with_its_fix(cache_dir):
    (wrong,) = doctor.check_settings(config.load({**os.environ, "NVCCACHE_REMOTE": "file://shared,rw"}))
    assert wrong.state == BAD and "the URL has no absolute path" in wrong.text


def test_doctor_shows_what_could_not_be_built_at_installation(tmp_path, monkeypatch):
    (tmp_path / "notes").write_bytes(b"launcher: not built: no room\nobserver: not built: error: too \xff\n")
    monkeypatch.setattr(doctor.observer, "LIBRARY", str(tmp_path / "observer.so"))
    *_, program, found = doctor.check_installation()
    fix = "to fix it: install a C compiler, and then nvccache again"
    assert program.details == ("launcher: not built: no room", fix)
    assert found.topic == "observer" and found.text.endswith(", so every call runs nvcc without the cache")
    assert (found.state, found.details) == (ODD, ("observer: not built: error: too \udcff", fix))


def test_doctor_shows_an_outage_of_remote_execution(cache_dir, own_pool, monkeypatch):
    monkeypatch.setattr(work, "CHECK", "/nowhere")
    settings = config.load({**os.environ, "NVCCACHE_EXECUTOR": "grpc://h:1"})
    assert [found.state for found in doctor.check_executor(settings)] == [BAD]
    outages.begin(outages.OF_EXECUTOR.format(doctor.endpoint.parse("grpc://h:1").identity), "full", "no room")
    _, found = doctor.check_executor(settings)
    assert found.state == ODD and found.text.endswith(": no room")


def test_doctor_without_an_nvcc_compiles_nothing_and_shows_how_to_get_one(nvccache, own_pool, monkeypatch):
    monkeypatch.setattr(doctor.discovery, "find_nvcc", lambda environ, configured: None)
    document = nvccache.json("doctor", PATH="/nowhere")
    assert [each["topic"] for each in document["findings"]] == [
        "version", "launcher", "observer", "nvcc", "cache",
    ]  # fmt: skip
    started, found = document["findings"][1], document["findings"][3]
    about = r"nvccache \S+ \(.+\), \w+ 3[.\w]+, \w+ [\d.]+, Linux \S+ \w+"
    assert re.fullmatch(about, document["findings"][0]["text"])
    without = "the compiled launcher is missing, so no call can be replayed"
    assert (started["state"], started["text"]) == (ODD, f"`{launcher()}`; {without}")
    assert (found["state"], document["is_bad"]) == (BAD, True)
    assert found["fix"] == [install_command("toolkit")]
    document = nvccache.json("doctor", PATH="/nowhere", NVCCACHE_NVCC="nvcc-1")
    assert document["findings"][3]["fix"] == ["unset NVCCACHE_NVCC"]


PROXY = '#!/bin/sh\n[ "$1 $2" != "-m nvccache" ] || shift 2\n'
SAMPLE = """#!/bin/sh
[ "$NVCCACHE_STRICT$NVCCACHE_LOG $NVCCACHE_DIR $XDG_CONFIG_HOME" = "1 $PWD/cache $PWD" ] || exit 9
case "$*" in "-keep -keep-dir keep -c probe.cu -o probe.o" | "-c probe.cu -o probe.o") ;; *) exit 8 ;; esac
[ -d keep ] || exit 7
for object; do :; done
{act}
"""


@pytest.mark.parametrize(
    ("nvcc", "ours", "expected"),
    [
        (
            "cat probe.cu >$object",
            "",
            [
                (GOOD, "plain nvcc", "compiles in TIME", ()),
                (GOOD, "nvccache", "miss in TIME, and the object is the same as nvcc's", ()),
                (ODD, "and again", "bypass in TIME: of_tomorrow", ()),
            ],
        ),
        ("echo one; echo two >&2; exit 3", "", [(BAD, "plain nvcc", "cannot compile:", ("two", "one"))]),
        ("exit 3", "", [(BAD, "plain nvcc", "cannot compile:", ("status 3",))]),
        (
            "cat probe.cu >$object",
            "[ $# = 5 ] && echo >probe.o; exit",
            [
                (GOOD, "plain nvcc", "compiles in TIME", ()),
                (BAD, "nvccache", "the object differs from nvcc's; please report this bug", ()),
            ],
        ),
    ],
    ids=["good", "failing nvcc", "silently failing nvcc", "wrong object"],
)
def test_doctor_compiles_a_sample_plainly_and_twice_through_the_cache(
    tmp_path, monkeypatch, nvcc, ours, expected
):
    for name, text in (("nvcc", SAMPLE.format(act=nvcc)), ("nvccache", PROXY + f'{ours}\nexec "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    recorded, waited = iter([Event(), Event("miss"), Event("bypass", "of_tomorrow")]), []
    monkeypatch.setattr(doctor, "launcher", lambda: "" if ours else str(tmp_path / "nvccache"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nvccache"))
    monkeypatch.setattr(doctor.events, "newest", lambda cache: iter([next(recorded)]))
    monkeypatch.setattr(doctor.time, "sleep", waited.append)
    environ = {**os.environ, "NVCCACHE_LOG": "/mine"}
    found = list(doctor._compiles(str(tmp_path / "nvcc"), environ))
    texts = [re.sub(r"in [\d.]+ m?s", "in TIME", each.text) for each in found]
    states = [(each.state, each.topic, text, each.details) for each, text in zip(found, texts, strict=True)]
    assert states == expected
    assert waited == [doctor._SETTLED] * len(found)
