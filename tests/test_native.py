"""What the launcher's C shares with Python: the header, and the sums and digests that both make."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from installations import NATIVE, ROOT
from nvccache.files import keys

SOURCES = NATIVE / "launcher"
# Reads contents, each behind its length, and writes what a function makes of them.
PROGRAM = """\
#include "launcher.h"
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    unsigned char result[DIGEST];
    uint32_t size;

    while (fread(&size, sizeof size, 1, stdin) == 1) {
        unsigned char *content = malloc(size ? size : 1); /* of this size, for the sanitizer */

        if (fread(content, 1, size, stdin) != size)
            return 1;
        @FUNCTION@(content, size, result);
        fwrite(result, 1, @SIZE@, stdout);
        free(content);
    }
    return 0;
}
"""


def test_the_header_is_that_of_the_code() -> None:
    script = ROOT / "src" / "native" / "generate_native_header.py"
    done = subprocess.run([sys.executable, script, "--check"], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("function", "source", "size", "ours"),
    [
        ("sum_of", "xxh3.c", 16, keys.sum_bytes),
        ("digest_of", "blake3.c", 32, lambda content: bytes.fromhex(keys.digest_bytes(content))),
    ],
)
def test_sums_and_digests_are_those_of_the_packages(
    tmp_path: Path, function: str, source: str, size: int, ours: Callable[[bytes], bytes]
) -> None:
    """Of all lengths up to 4 KiB, and of 200 others."""
    text = PROGRAM.replace("@FUNCTION@", function).replace("@SIZE@", str(size))
    (tmp_path / "program.c").write_text(text)
    sources = [tmp_path / "program.c", SOURCES / source]
    options = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    subprocess.run(["cc", *options, "-o", tmp_path / "program", *sources], check=True)
    choose = random.Random(3)
    lengths = [*range(4097), *(choose.randrange(4097, 1 << 18) for _ in range(200))]
    contents = [choose.randbytes(length) for length in lengths]
    given = b"".join(struct.pack("=I", len(content)) + content for content in contents)
    made = subprocess.run([tmp_path / "program"], input=given, check=True, capture_output=True).stdout
    found = [made[at : at + size] for at in range(0, len(made), size)]
    assert [len(each) for each, sum_ in zip(contents, found, strict=True) if ours(each) != sum_] == []


def test_the_launcher_needs_no_more_than_the_c_library() -> None:
    texts = [path.read_text() for path in SOURCES.glob("*.[ch]")]
    included = {name for text in texts for name in re.findall(r"#include <(.*)>", text)}
    assert "string.h" in included
    assert not [name for name in included if name.startswith(("linux/", "xxh", "blake"))]
