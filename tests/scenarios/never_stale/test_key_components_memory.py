"""What is remembered from earlier runs, and when it counts no more: digests of tools, and seeds."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from nvccache import module_id as ids
from nvccache.files import keys, signatures
from nvccache.plan.stages import host, ptxas
from nvccache.store.store import Store
from nvccache.toolkit import toolchain
from scenarios.support.toolkits import replace


def test_a_tool_replaced_by_one_of_the_same_size_and_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is remembered by a signature; the change of the inode is what betrays it."""
    monkeypatch.setattr(signatures, "is_settled", lambda signature, now: True)
    store = Store(str(tmp_path / "cache"))
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\n# 1\n")
    status = tool.stat()
    first = toolchain.digest_of_program(str(tool), store)
    assert toolchain.digest_of_program(str(tool), store) == first
    for replacement in (tool.write_text, lambda text: replace(tool, text)):
        time.sleep(0.02)  # a tick of the clock that stamps files
        replacement("#!/bin/sh\n# 2\n")
        os.utime(tool, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert toolchain.digest_of_program(str(tool), store) != first


def test_a_tool_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    """It could be written again within the same tick of the clock."""
    store = Store(str(tmp_path / "cache"))
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\n")
    toolchain.digest_of_program(str(tool), store)
    assert not list((tmp_path / "cache").glob("memo-v1/*/*"))


def test_the_seed_of_a_module_id() -> None:
    def seed(
        source: str = "/a.cu",
        products: Sequence[str] = ("/a.o",),
        options: Sequence[str] = (),
        texts: Sequence[str] = (),
    ) -> str:
        return ids.seed_of(source, products, options, texts).text

    seeds = [
        seed(),
        seed(source="/b.cu"),
        seed(products=("/b.o",)),
        seed(products=("/a.o", "/b.o")),
        seed(options=["-DX"]),
        seed(options=["-D", "X"]),
        seed(texts=["one"]),
        seed(texts=["one", "two"]),
    ]
    assert len(set(seeds)) == len(seeds)


def test_the_sources_that_ptxas_dates() -> None:
    text = '.version 9.0\n.target sm_80\n\t.file\t1 "/a b.cu"\n\t.file\t2 "/x.h", 1, 2\n// .file 3 "/no"\n'
    assert ptxas.dated_sources(text.encode()) == ["/a b.cu", "/x.h"]
    assert ptxas.dated_sources(text.replace("9.0", "9.5").encode()) == []
    assert ptxas.grammar_of(["ptxas", "--generate-line-info"]).dates_sources
    assert ptxas.grammar_of(["ptxas", "-g"]).dates_sources
    assert not ptxas.grammar_of(["ptxas", "-arch=sm_80"]).dates_sources


@pytest.mark.parametrize(
    "word", ["-fplugin=x.so", "-B/x", "-specs=x", "-wrapper", "-frecord-gcc-switches", "@file"]
)
def test_a_host_compile_that_loads_what_no_digest_covers_is_not_cached(word: str) -> None:
    argv = ["gcc", "-D__CUDA_ARCH__=800", "-c", "-x", "c++", "x.cudafe1.cpp", "-o", "x.o"]
    found, plain = host.grammar_of([*argv, word]), host.grammar_of(argv)
    assert found and plain and plain.is_cached and not found.is_cached


def test_a_digest_is_of_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "large"
    content = bytearray(3 << 20)
    digests = set()
    for place in (None, 0, 1 << 20, len(content) - 1):
        if place is not None:
            content[place] ^= 1
        path.write_bytes(content)
        digests.add(keys.digest_file(str(path)))
        assert keys.digest_bytes(bytes(content)) in digests
    assert len(digests) == 4
