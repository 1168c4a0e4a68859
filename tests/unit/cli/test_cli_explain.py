"""What `nvccache explain` says, and that it never says it with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.compile import miss_reason
from nvccache.store import event_line, sections, store
from nvccache.store.store import Store
from unprivileged import unreadable
from workspaces import Workspace

FIRST = "it is the first compile of it that is recorded"


def journal(cache_dir: str, product: str, outcome: str, reason: str = "", stages=None) -> None:
    call = event(outcome, reason, stages or ())
    call.product = os.path.abspath(product)
    event_line.append(cache_dir, call)


def note(
    cache_dir: str,
    product: str,
    cause: str,
    details=(),
    outcome: str = "miss",
    reason_against_record: str = "",
) -> None:
    text = [
        cause,
        sections.join(list(details)),
        outcome,
        "nvcc",
        "/work",
        "",
        b"",
        b"",
        "",
        "",
        "",
        reason_against_record,
    ]
    parts = [part if isinstance(part, bytes) else os.fsencode(part) for part in text]
    key = miss_reason.key_of(os.path.abspath(product))
    Store(cache_dir).add_record(store.OBJECT, key, sections.pack("object-3", parts))


def said(result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_without_a_cache_nothing_is_known_and_nothing_is_made(nvccache, cache_dir):
    for arguments, sentence in (([], "no compile is known"), (["a.o"], "no compile of `a.o` is known")):
        result = nvccache("explain", *arguments)
        assert (result.exit_code, result.output) == (1, f"Error: {sentence}\n")
    assert not os.path.exists(cache_dir)


def test_an_unknown_object_is_one_sentence(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    result = nvccache("explain", "sub/b.o")
    assert (result.exit_code, result.output) == (1, "Error: no compile of `sub/b.o` is known\n")


def test_a_direct_hit_has_nothing_to_tell(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST, ["another"])
    journal(cache_dir, "a.o", outcomes.MISS)
    journal(cache_dir, "a.o", outcomes.DIRECT_HIT)
    assert said(nvccache("explain", "a.o")) == [
        "`a.o`: direct hit, because nothing it depends on has changed",
    ]


def test_a_program_that_was_only_linked_tells_of_no_earlier_cause(nvccache, cache_dir):
    note(cache_dir, "a", FIRST, ["another"])
    journal(cache_dir, "a", outcomes.STAGE_HIT, outcomes.LINKED, [("cicc", True, 2.0)])
    assert said(nvccache("explain", "a")) == [
        "`a`: stage hit, because nothing has changed that its device code depends on,"
        " and the host's link always runs",
        "  cicc: saved 2.000 s",
    ]


@pytest.mark.parametrize("reason", ["library", "unknown_option", "source_in_ptx"])
def test_a_bypass_is_told_with_its_reason(nvccache, cache_dir, reason):
    journal(cache_dir, "a.o", outcomes.BYPASS, reason)
    assert said(nvccache("explain", "a.o")) == [f"`a.o`: bypass, because {outcomes.REASONS[reason]}"]


def test_a_reason_of_another_version_is_told_by_its_word(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.BYPASS, "of_tomorrow")
    assert said(nvccache("explain", "a.o")) == ["`a.o`: bypass, because of_tomorrow"]


@pytest.mark.parametrize(
    ("outcome", "clause"),
    [
        (outcomes.FAILED, "nvcc reports an error"),
        (outcomes.FAULT, "nvccache had a fault, which NVCCACHE_LOG tells more of"),
    ],
)
def test_what_went_wrong_is_told(nvccache, cache_dir, outcome, clause):
    note(cache_dir, "a.o", FIRST)
    journal(cache_dir, "a.o", outcome)
    assert said(nvccache("explain", "a.o")) == [f"`a.o`: {outcome}, because {clause}"]


def test_a_miss_is_told_with_all_that_differs_and_what_it_cost(nvccache, cache_dir):
    note(cache_dir, "a.o", "`x.h` changed", ["`y.h` is gone"], reason_against_record="`a.cu` uses `__TIME__`")
    stages = [("cudafe", True, 0.25), ("cicc", False, 12.3456)]
    journal(cache_dir, "a.o", outcomes.PARTIAL_HIT, stages=stages)
    assert said(nvccache("explain", "a.o")) == [
        "`a.o`: partial hit, because `x.h` changed",
        "  also: `y.h` is gone",
        "  also: no direct record is kept: `a.cu` uses `__TIME__`",
        "  cudafe: saved 0.250 s",
        "  cicc: ran 12.346 s",
    ]


def test_a_reason_against_a_record_is_told_once(nvccache, cache_dir):
    clause = "no direct record is kept: `a.cu` uses `__TIME__`"
    note(cache_dir, "a.o", clause, reason_against_record="`a.cu` uses `__TIME__`")
    journal(cache_dir, "a.o", outcomes.STAGE_HIT)
    assert said(nvccache("explain", "a.o")) == [f"`a.o`: stage hit, because {clause}"]


def test_what_went_wrong_beside_the_compile_is_told(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    call = event(outcomes.MISS)
    call.product, call.store_fault, call.wrong_settings = os.path.abspath("a.o"), "disk_full", "jobs"
    event_line.append(cache_dir, call)
    assert said(nvccache("explain", "a.o")) == [
        f"`a.o`: miss, because {FIRST}",
        f"  the cache could not be used as it should: {outcomes.STORE_FAULTS['disk_full']}",
        "  with a setting that is wrong: jobs",
    ]


def test_a_record_that_was_evicted_is_missed(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.MISS)
    assert said(nvccache("explain", "a.o")) == ["`a.o`: miss, because its record is no longer in the cache"]


def test_a_call_that_the_journal_forgot_is_told_from_its_record(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    assert said(nvccache("explain", "a.o")) == [f"`a.o`: miss, because {FIRST}"]


def test_without_an_object_it_is_the_last_call_of_all(nvccache, cache_dir):
    for name in ("a.o", "b.o"):
        note(cache_dir, name, f"`{name}.h` changed")
        journal(cache_dir, name, outcomes.MISS)
    path = os.path.abspath("b.o")
    assert said(nvccache("explain")) == [f"`{path}`: miss, because `b.o.h` changed"]
    assert said(nvccache("explain", "a.o")) == ["`a.o`: miss, because `a.o.h` changed"]


def test_an_object_is_found_however_its_path_is_spelled(nvccache, cache_dir):
    note(cache_dir, "sub/a.o", FIRST)
    journal(cache_dir, "sub/a.o", outcomes.MISS)
    for name in ("sub/a.o", "./sub/a.o", "sub/../sub//a.o", os.path.abspath("sub/a.o")):
        assert said(nvccache("explain", name)) == [f"`{name}`: miss, because {FIRST}"]


def test_a_damaged_record_is_no_record(nvccache, cache_dir):
    note(cache_dir, "a.o", FIRST)
    with open(
        Store(cache_dir).path(store.OBJECT, miss_reason.key_of(os.path.abspath("a.o"))), "ab"
    ) as stream:
        stream.write(b"x")
    assert nvccache("explain", "a.o").output == "Error: no compile of `a.o` is known\n"


def test_file_in_place_of_the_cache_is_one_sentence(nvccache, cache_dir):
    with open(cache_dir, "w"):
        pass
    result = nvccache("explain")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1


def test_unreadable_journal_is_one_sentence(nvccache, cache_dir):
    journal(cache_dir, "a.o", outcomes.MISS)
    nvccache("explain")
    with unreadable(cache_dir) as copy:
        result = nvccache("explain", NVCCACHE_DIR=copy)
    assert result.exit_code == 1
    assert result.output.startswith("Error: cannot read ")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_names_that_are_no_text_are_shown_somehow(cache_dir, tmp_path, locale):
    note(cache_dir, tmp_path / "a.o", "`\udcff.h` changed", ["`é\udcfe` is gone"])
    journal(cache_dir, str(tmp_path / "a.o"), outcomes.MISS)
    environ = {"NVCCACHE_DIR": cache_dir, "HOME": str(tmp_path), "LC_ALL": locale}
    done = subprocess.run(
        [sys.executable, "-m", "nvccache", "explain", str(tmp_path / "a.o")],
        env=environ, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert b"miss, because `" in done.stdout


def test_a_real_compile_is_explained(workspace: Workspace):
    """From the first compile to one that fails, as a user would see it."""

    def explained(*arguments: str) -> str:
        done = workspace.run([sys.executable, "-m", "nvccache", "explain", *arguments])
        assert done.status == 0, done.stderr.decode()
        return done.stdout.decode().partition("\n")[0]

    workspace.write("a.cu", "__global__ void k() {}\n")
    line = ["-c", "a.cu", "-o", "a.o"]
    os.utime(workspace.directory / "a.cu", (1, 1))
    workspace.cached(*line, "-DX")
    assert explained("a.o") == f"`a.o`: miss, because {FIRST}"
    workspace.cached(*line)
    assert explained("a.o").endswith("because `-DX` was removed from the command line")
    workspace.cached(*line)
    assert (
        explained() == f"`{workspace.directory}/a.o`: direct hit, because nothing it depends on has changed"
    )
    workspace.write("a.cu", "__global__ void k() { no }\n")
    assert workspace.cached(*line).status != 0
    assert explained("a.o") == "`a.o`: failed, because nvcc reports an error"
    workspace.cached("-lib", "a.o", "-o", "liba.a")
    assert explained("liba.a") == f"`liba.a`: bypass, because {outcomes.REASONS['library']}"
