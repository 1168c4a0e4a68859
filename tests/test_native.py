"""The sums of the launcher's C, which are Python's."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

from installations import NATIVE
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


def test_native_checksums_match_the_python_package(tmp_path: Path) -> None:
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
