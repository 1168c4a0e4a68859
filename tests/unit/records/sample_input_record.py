"""An input record of a directory with everything in it, for tests that change one thing."""

from __future__ import annotations

import os

import pytest

from answering import Answering
from nvccache import environment
from nvccache.files import keys, presence, signatures
from nvccache.records import input_records
from nvccache.records.base_dir import Relocation
from nvccache.records.input_records import InputRecord

MACHINE = [("native", "", "a digest"), ("libraries", "/etc/ld.so.cache:libm.so.6", "another")]
NOWHERE = Relocation("", "/")
ENVIRON = {"ASKED": "1", "EMPTY": "", "GROUP_A": "2", "PATH": "/usr/bin:/bin", "OTHER": "3"}
ASKED = ("ASKED", "EMPTY", "UNSET", "GROUP_*")


def ask(topic: str, subject: str) -> str:
    return next(answer for known, about, answer in MACHINE if (known, about) == (topic, subject))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory: `late/x.h` was read, `early/x.h` is missing, `link` leads to `late/x.h`.

    `bin` has a program and a directory, and was listed.
    """
    monkeypatch.chdir(tmp_path)
    for directory in ("early", "late", "bin", "bin/folder"):
        (tmp_path / directory).mkdir()
    (tmp_path / "bin" / "tool").write_text("")
    (tmp_path / "bin" / "tool").chmod(0o755)
    (tmp_path / "bin" / "loop").symlink_to("loop")
    (tmp_path / "late" / "x.h").write_text("int x;\n")
    (tmp_path / "link").symlink_to("late/x.h")
    return tmp_path


def taken(signed: bool = True) -> InputRecord:
    """An input record with everything in it; without signatures every file is checked."""
    made = InputRecord()
    made.files, made.kinds = ["late/x.h", "link"], input_records.SOURCE * 2
    made.digests = [keys.digest_file(path) for path in made.files]
    made.directories = ["bin", "early", "late"]
    made.names = [["!loop", "dfolder", "xtool"], ["-sub", "-x.h"], ["+x.h", "-libm.so.6"]]
    looked_at = (*made.files, *made.directories)
    known = [signatures.of(path) if signed else signatures.UNKNOWN for path in looked_at]
    made.signatures, made.directory_signatures = known[:2], known[2:]
    made.links = [("link", os.path.realpath("link"))]
    made.dates = [("late/x.h", presence.date_and_size("late/x.h")), ("never", "")]
    made.plain, made.listings = ["bin"], [("bin", presence.digest_of_listing("bin"))]
    made.identities = [("bin", "bin"), ("early", "early"), ("late", "late")]
    made.duplicates = [("late/x.h", "late/x.h", "late/x.h"), ("link", "late/x.h", "late/x.h")]
    made.variables = [(name, environment.digest_of(name, ENVIRON)) for name in ASKED]
    made.sought, made.search_path = ["sh"], ENVIRON["PATH"]
    made.machine = list(MACHINE)
    return made


def unlike(made: InputRecord, ask=ask, environ=ENVIRON) -> list[tuple[str, str]]:
    found = input_records.differences(made, Answering(environ, ask))
    return [(difference.what, difference.path) for difference in found]
