"""Writes the launcher's shared.h: definitions that it shares with Python, read from the Python modules.

python src/native/generate_native_header.py            write it
python src/native/generate_native_header.py --check    fail if it is stale
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from nvccache import environment, nvcc_lookup
from nvccache.files import comments, signatures
from nvccache.records import products, replay, replay_layout
from nvccache.store import directory, event_line, store

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher", "shared.h")
_HEAD = """\
/* What the launcher shares with Python. Written by src/native/generate_native_header.py; edit the code that
   it reads instead. The layout of a record is drawn in src/nvccache/records/replay_layout.py. */

#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>
"""
_TYPES = {"Q": "uint64_t", "q": "int64_t", "I": "uint32_t"}
_TYPES[replay_layout.SIGNED] = "struct replay_signature"


def header() -> str:
    parts = [_HEAD, *_layout(), *_names(), *_tables()]
    return "\n".join([*parts, "#endif\n"])


def _layout() -> list[str]:
    parts = [f'#define REPLAY_MAGIC "{replay_layout.MAGIC.decode()}"']
    parts.append(f"#define SUM {replay_layout.SUM}")
    parts.append(f"#define SUMMED_AFTER {replay_layout.SUMMED_FROM} /* bytes of a record */\n")
    numbers = ", ".join(f"IN_{name.upper()}" for name in replay_layout.SECTIONS)
    parts += [f"enum {{ {numbers}, SECTIONS }};\n".replace(", IN_PLAIN", ",\n    IN_PLAIN")]
    parts += ["struct replay_section { uint32_t at, count; };\n"]
    for name, fields in replay_layout.STRUCTURES.items():
        lines = [f"    {_declaration(field, code)};" for field, code in fields]
        if name == "head":
            lines.append("    struct replay_section sections[SECTIONS];")
        parts.append("\n".join([f"struct replay_{name} {{", *lines, "};"]))
        size = replay_layout.FORMATS[name].size
        added = " + SECTIONS * sizeof(struct replay_section)" if name == "head" else ""
        parts.append(f'_Static_assert(sizeof(struct replay_{name}) == {size}{added}, "a gap");\n')
    return parts


def _declaration(field: str, code: str) -> str:
    if code.endswith("s"):
        return f"unsigned char {field}[{code[:-1]}]"
    return f"{_TYPES[code]} {field}"


def _names() -> list[str]:
    texts = {
        "REPLAY_BUCKET": store.REPLAY,
        "BLOB_BUCKET": store.BLOB,
        "TAG_NAME": directory.TAG_NAME,
        "TAG": directory.TAG.decode(),
        "TEMPORARY": directory.TEMPORARY,
        "JOURNAL": event_line.FOLDER,
        "LOG": event_line.LOG,
        "TRIED": nvcc_lookup.TRIED_VARIABLE,
        "BOOT": signatures.BOOT,
    }
    numbers = {
        "LARGEST_CODE": comments.LARGEST,
        "LARGEST_RECORD": store.LARGEST_RECORD,
        "BLOB_SUMMED_FROM": store.SUMMED_FROM,
        "BLOB_TAIL": store.TAIL,
        "REFRESHED_AFTER": store.REFRESHED_AFTER,
        "LARGE_LOG": event_line.LARGE,
        "NESTED": nvcc_lookup.NESTED,
        "WORTH_CLONING": products.WORTH_CLONING,
        "MOST_PRODUCTS": replay.MOST_PRODUCTS,
    }
    lines = [f"#define {name} {json.dumps(text)}" for name, text in texts.items()]
    lines += [f"#define {name} {number}" for name, number in numbers.items()]
    return ["\n".join(lines) + "\n"]


def _tables() -> list[str]:
    tables = {"VARIABLES_OF_CALL": replay.OF_CALL, "IGNORED_VARIABLES": sorted(environment.OF_OTHERS)}
    return [_table(name, texts) for name, texts in tables.items()]


def _table(name: str, texts: Sequence[str]) -> str:
    """A macro with six texts a line. JSON's quoted strings are also valid in C."""
    lines = [", ".join(map(json.dumps, texts[at : at + 6])) for at in range(0, len(texts), 6)]
    return f"#define {name} {{" + ", \\\n    ".join(lines) + ", 0}\n"


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if sys.argv[1:]:
        with open(HEADER, encoding="utf-8") as stream:
            if stream.read() != header():
                sys.exit("src/native/launcher/shared.h is stale: python src/native/generate_native_header.py")
        return 0
    with open(HEADER, "w", encoding="utf-8") as stream:
        stream.write(header())
    return 0


if __name__ == "__main__":
    sys.exit(main())
