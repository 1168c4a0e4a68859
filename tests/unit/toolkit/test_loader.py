"""A program's libraries and the processor as the dynamic loader reports them, and when it is run again."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time

import pytest

from nvccache.files import elf
from nvccache.machine import process
from nvccache.store.store import Store
from nvccache.toolkit import loader, processor

PROGRAM = os.path.realpath(sys.executable)
LOADER = elf.interpreter(PROGRAM) or ""
pytestmark = pytest.mark.skipif(not LOADER, reason="this Python has no dynamic loader")


@pytest.fixture
def asked(monkeypatch) -> list[list[str]]:
    """The commands that were run."""
    commands: list[list[str]] = []
    run = process.run

    def run_and_tell(argv, *others, **options):
        commands.append(list(argv))
        return run(argv, *others, **options)

    monkeypatch.setattr(process, "run", run_and_tell)
    return commands


@pytest.fixture(scope="module")
def computing(tmp_path_factory):
    """A program that calls libm."""
    place = tmp_path_factory.mktemp("computing")
    source = place / "a.c"
    source.write_text("#include <math.h>\nint main(int n, char **v) { return (int)sin(n); }\n")
    subprocess.run(["gcc", "-fno-builtin", source, "-lm", "-o", place / "a"], check=True)
    time.sleep(0.15)
    return place


def environ(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LD_")} | more


def test_libraries_come_in_the_order_of_the_search_for_symbols(computing, cache, tmp_path):
    (tmp_path / "libx.so").symlink_to(shutil.which("true"))  # no library: the loader says so and goes on
    loaded = loader.of_program(str(computing / "a"), environ(), cache)
    names = [os.path.basename(path) for path in loaded.files]
    assert names.index("libm.so.6") < names.index("libc.so.6") < names.index(os.path.basename(LOADER))
    assert loaded.has_libm
    assert loaded.names == ("libm.so.6", "libc.so.6")


def test_the_loader_is_asked_once(computing, cache, asked, tmp_path, monkeypatch):
    first = loader.of_program(str(computing / "a"), environ(), cache)
    assert len(asked) == 2, "for the libraries and for the processor"
    monkeypatch.chdir(tmp_path)
    assert loader.of_program(str(computing / "a"), environ(), Store(cache.root)) == first
    assert len(asked) == 2


def test_the_loader_is_asked_again_where_it_would_find_another_library(computing, cache, asked, tmp_path):
    searched = environ(LD_LIBRARY_PATH=f"{tmp_path}/one:{tmp_path}/two")
    first = loader.of_program(str(computing / "a"), searched, cache)
    original = next(path for path in first.files if "libm." in path)
    for number, place in enumerate(("two", "one"), 3):
        (tmp_path / place).mkdir()
        assert loader.of_program(str(computing / "a"), searched, cache).files, "an empty directory"
        copy = shutil.copyfile(original, tmp_path / place / "libm.so.6")
        time.sleep(0.15)
        found = loader.of_program(str(computing / "a"), searched, cache)
        assert str(copy) in found.files
        assert len(asked) >= number
        before = len(asked)
        assert loader.of_program(str(computing / "a"), searched, cache) == found
        assert len(asked) == before


def test_a_static_program_computes_by_itself(computing, cache):
    """Its content is in the key anyway; its choice of functions is not."""
    argv = ["gcc", "-fno-builtin", "-static", computing / "a.c", "-lm", "-o", computing / "static"]
    if subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("there are no static libraries")
    loaded = loader.of_program(str(computing / "static"), environ(), cache)
    assert loaded == loader.Loaded("")
    assert loaded.is_known and not loaded.has_libm


def test_what_was_remembered_in_another_form_is_forgotten(computing, cache, asked, monkeypatch):
    first = loader.of_program(str(computing / "a"), environ(), cache)
    monkeypatch.setattr(loader._MEMO, "kind", "loaded-0")
    before = len(asked)
    assert loader.of_program(str(computing / "a"), environ(), Store(cache.root)) == first
    assert len(asked) == before + 1


@pytest.mark.parametrize("named", ["/dev/zero", "/proc/version"])
def test_what_was_remembered_of_no_file_is_forgotten(computing, cache, monkeypatch, named):
    """An attacker may have forged it: an endless library would be read for its digest."""
    first = loader.of_program(str(computing / "a"), environ(), cache)
    memo = loader._to_memo(loader.Loaded(LOADER, (*first.files, named)))
    assert loader._from_memo(memo, LOADER) is None
    memo = loader._to_memo(loader.Loaded(LOADER, first.files))
    assert loader._from_memo(memo, LOADER)


def test_a_loader_that_does_not_answer_is_not_known(computing, cache, tmp_path):
    program = tmp_path / "a"
    program.write_bytes(
        (computing / "a").read_bytes().replace(LOADER.encode(), b"/bin/false".ljust(len(LOADER), b"\0"))
    )
    assert not loader.of_program(str(program), environ(), cache).is_known
    assert not loader.of_program(PROGRAM, environ(LD_AUDIT="x"), cache).is_known


def test_what_is_missing_is_not_known(computing, cache, tmp_path):
    missing = environ(LD_PRELOAD=f"{tmp_path}/missing/lib.so")
    loaded = loader.of_program(str(computing / "a"), missing, cache)
    assert f"{tmp_path}/missing" in loaded.absent


def entry(start: int, strings: bytes, name: bytes, path: bytes, hardware: int = 0) -> bytes:
    where = [start + strings.index(part + b"\0") for part in (name, path)]
    return struct.pack("<iIIIQ", 0x303, *where, 0, hardware)


def loaders_cache(tmp_path, *lines: tuple[bytes, bytes], older: bytes = b"") -> str:
    strings = b"".join(part + b"\0" for line in lines for part in line)
    start = 48 + 24 * len(lines)
    table = b"".join(entry(start, strings, *line) for line in lines)
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II20x", len(lines), len(strings))
    path = tmp_path / "ld.so.cache"
    path.write_bytes(older + head + table + strings)
    return str(path)


LIBM, LIBX = (b"libm.so.6", b"/lib/libm.so.6"), (b"libx.so.1", b"/lib/libx.so.1")


def test_only_what_the_loaders_cache_says_of_the_names_counts(tmp_path):
    def cache_digest(*lines, **more):
        return loader.digest_of_cache(loaders_cache(tmp_path, *lines, **more), ["libm.so.6"])

    alone = cache_digest(LIBM)
    assert cache_digest(LIBM, LIBX) == alone
    assert cache_digest(LIBX, LIBM, older=b"ld.so-1.7.0\0") == alone
    assert cache_digest((b"libm.so.6", b"/opt/libm.so.6")) != alone
    assert cache_digest(LIBM, (b"libm.so.6", b"/opt/libm.so.6")) != alone
    assert cache_digest(LIBX) != alone


def test_a_cache_of_another_form_counts_as_a_whole(tmp_path):
    path = tmp_path / "ld.so.cache"
    found = set()
    for content in (b"", b"ld.so-1.7.0", b"glibc-ld.so.cache1.1" + b"\xff" * 40):
        path.write_bytes(content)
        found.add(loader.digest_of_cache(str(path), ["libm.so.6"]))
    path.unlink()
    assert len({*found, loader.digest_of_cache(str(path), []), loader.digest_of_cache("", [])}) == 5


def test_a_loader_that_does_not_say_leaves_all_of_the_processor(cache, monkeypatch):
    monkeypatch.setattr(processor, "_query", lambda *_: "")
    found = processor.features(LOADER, {"GLIBC_TUNABLES": "x=y"}, cache)
    assert found == f"{processor.describe()}GLIBC_TUNABLES=x=y"


def test_tunables_reach_the_class(cache):
    whole = processor.features(LOADER, {}, cache)
    less = processor.features(LOADER, {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"}, cache)
    if "GLIBC_TUNABLES" not in less and "FMA" in processor.describe().upper():
        assert less != whole
    assert processor.features(LOADER, {"GLIBC_TUNABLES": "glibc.malloc.perturb=1"}, cache) == whole or (
        "GLIBC_TUNABLES" in whole
    )
