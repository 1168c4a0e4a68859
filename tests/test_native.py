"""What the launcher's C shares with Python: the header, and the sums that both make."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
from pathlib import Path

from installations import NATIVE, ROOT
from nvccache.files import keys

SOURCES = NATIVE / "launcher"
# Reads contents, each behind its length, and writes their sums.
PROGRAM = """\
#include "launcher.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    unsigned char sum[SUM];
    uint32_t size;

    while (fread(&size, sizeof size, 1, stdin) == 1) {
        unsigned char *content = malloc(size ? size : 1); /* of this size, for the sanitizer */

        if (fread(content, 1, size, stdin) != size)
            return 1;
        sum_of(content, size, sum);
        fwrite(sum, 1, sizeof sum, stdout);
        free(content);
    }
    return 0;
}
"""


def test_the_header_is_that_of_the_code() -> None:
    script = ROOT / "src" / "native" / "generate_native_header.py"
    done = subprocess.run([sys.executable, script, "--check"], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_sums_are_those_of_the_package(tmp_path: Path) -> None:
    """Of all lengths up to 4 KiB, and of 200 others."""
    (tmp_path / "program.c").write_text(PROGRAM)
    sources = [tmp_path / "program.c", SOURCES / "xxh3.c"]
    options = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    subprocess.run(["cc", *options, "-o", tmp_path / "program", *sources], check=True)
    choose = random.Random(3)
    lengths = [*range(4097), *(choose.randrange(4097, 1 << 18) for _ in range(200))]
    contents = [choose.randbytes(length) for length in lengths]
    given = b"".join(struct.pack("=I", len(content)) + content for content in contents)
    made = subprocess.run([tmp_path / "program"], input=given, check=True, capture_output=True).stdout
    found = [made[at : at + 16] for at in range(0, len(made), 16)]
    wrong = [len(each) for each, sum_ in zip(contents, found, strict=True) if keys.sum_bytes(each) != sum_]
    assert wrong == []


def test_each_file_of_the_launcher_calls_only_those_below_it(tmp_path: Path) -> None:
    """The order is that of launcher.h, so that there is no circle."""
    order = re.findall(r"^   (\w+\.c) ", (SOURCES / "launcher.h").read_text(), re.MULTILINE)
    assert sorted(order) == sorted(path.name for path in SOURCES.glob("*.c"))
    subprocess.run(["cc", "-c", *(SOURCES / name for name in order)], check=True, cwd=tmp_path)
    symbols = {}
    for name in order:
        argv = ["nm", "-P", tmp_path / name.replace(".c", ".o")]
        lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
        symbols[name] = [(line.split()[1], line.split()[0]) for line in lines]
    defined = {symbol: name for name in order for kind, symbol in symbols[name] if kind in "TDBR"}
    for number, name in enumerate(order):
        called = {defined[symbol] for kind, symbol in symbols[name] if kind == "U" and symbol in defined}
        assert called.isdisjoint(order[: number + 1]), name


def test_the_launcher_needs_no_more_than_the_c_library() -> None:
    texts = [path.read_text() for path in SOURCES.glob("*.[ch]")]
    included = {name for text in texts for name in re.findall(r"#include <(.*)>", text)}
    assert "string.h" in included
    assert not [name for name in included if name.startswith(("linux/", "xxh", "blake"))]
