"""What can be read from entries of a cache."""

from __future__ import annotations

import os
import pathlib

import pytest

from nvccache.cli import contents
from nvccache.cli.settings import untouched
from nvccache.explain import object_record
from nvccache.explain.object_record import ObjectRecord
from nvccache.records.record import Result
from nvccache.store import store
from nvccache.store.store import Store

PLANS = pathlib.Path(__file__).parents[2] / "golden" / "plans"


def stages_of(text):
    """The kind of each stage of a rendered plan, and the roles of the outputs that are kept."""
    kind, roles = "", []
    for line in [*text.splitlines(), "end of the plan"]:
        if not line.startswith(" "):
            if roles:
                yield kind, roles
            kind, roles = line.partition(" ")[0], []
        elif line.startswith("  writes ") and not line.endswith(" (unread)"):
            roles.append(line.split()[1])


def test_the_roles_of_outputs_show_the_kind_of_a_stage():
    """For all stages of all recorded plans, except preprocessor passes."""
    seen = set()
    for path in PLANS.glob("*/*.txt"):
        for kind, roles in stages_of(path.read_text()):
            if not kind.endswith("_preprocess") and roles != ["module_id"]:
                assert contents.kind_of(Result((role, "0" * 64) for role in roles)) == kind, (path, roles)
                seen.add(kind)
    assert {"cudafe", "cicc", "ptxas", "fatbinary", "host_compile"} <= seen <= set(contents.KINDS)


def test_results_without_outputs_are_of_no_kind():
    """Such as those of rehearsals and dry runs, and of calls, whose roles are numbers."""
    rehearsal = Result()
    rehearsal.facts = b"what was shown"
    call = Result([("0", "0" * 64), ("link/a.o", "0" * 64)])
    assert [contents.kind_of(result) for result in (Result(), rehearsal, call)] == [""] * 3
    assert contents.kind_of(Result([("ii", "0" * 64)])) == contents.PREPROCESS


@pytest.mark.parametrize(
    ("words", "product", "paths"),
    [
        (["-c", "src/a.cu", "-o out/x.o"], "out/x.o", ["/b/out/x.o", "/b/src/a.cu"]),
        (["-c", "a.cu", "--output-file=x.o"], "x.o", ["/b/x.o", "/b/a.cu"]),
        (["-c", "/s/a.cu"], "a.o", ["/b/a.o", "/s/a.cu"]),
        (["-ptx", "../a.cu"], "a.ptx", ["/b/a.ptx", "/a.cu"]),
        (["a.cu", "b.o"], "a.out", ["/b/a.out", "/b/a.cu", "/b/b.o"]),
        (["-c", "a.cu", "-odir elsewhere"], "elsewhere/a.o", ["/b/a.cu"]),
        ([""], "a.o", []),
    ],
)
def test_the_paths_of_a_compile_follow_from_its_command_line(words, product, paths):
    components = [("arguments", [(word, "") for word in words]), ("directory", [("/b", "")])]
    record = ObjectRecord(command="0" * 64, components=components)
    for key in object_record.keys_of(f"/b/{product}", record):
        assert contents.paths_of(record, key) == paths


def test_records_that_others_have_put_there_are_not_looked_at(cache_dir):
    """In a directory shared by a group, they could make `verify` run any program."""
    if os.geteuid() != 0:
        pytest.skip("a file of another user can be made only by root")
    record = ObjectRecord(components=[("nvcc", [("/tmp/anything", "")])])
    cache = Store(cache_dir)
    object_record.add(["/b/mine.o", "/b/theirs.o"], record, cache)
    os.chmod(cache_dir, 0o777)
    theirs = cache.path(store.OBJECT, object_record.key_of("/b/theirs.o"))
    os.chmod(theirs, 0o644)
    os.chown(theirs, 54321, 54321)
    found = contents.read(untouched(cache_dir), lambda done, total: None)
    assert list(found.objects) == [object_record.key_of("/b/mine.o")]
    assert found.of_others == 1
