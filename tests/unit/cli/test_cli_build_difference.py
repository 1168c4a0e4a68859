"""`nvccache explain --diff`: two builds compared."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from made_events import event
from nvccache import outcomes
from nvccache.store import event_line

HOUR = 3600.0


def log(
    cache_dir: str, ago: float, outcomes_by_product: dict[str, str], cause: str = "`a.h` changed"
) -> None:
    """Log one build: a call a second, the first `ago` seconds ago."""
    started = time.time() - ago
    for number, (product, outcome) in enumerate(outcomes_by_product.items()):
        is_hit = outcome == outcomes.DIRECT_HIT
        call = event(outcome, product=product, started=started + number, seconds=0.5)
        call.cause = "" if is_hit else cause
        call.wall_saved = 2.0 if is_hit else 0.0
        event_line.append(cache_dir, call)


@pytest.fixture
def builds(cache_dir):
    """Three builds: of two products, of four, and of the same four with other hits."""
    log(cache_dir, 3 * HOUR, {"/b/a.o": "miss", "/b/b.o": "miss"}, "first")
    log(
        cache_dir, 2 * HOUR,
        {"/b/a.o": "direct_hit", "/b/b.o": "stage_hit", "/b/c.o": "miss", "/b/d.o": "direct_hit"},
    )  # fmt: skip
    log(
        cache_dir, 60.0,
        {"/b/a.o": "partial_hit", "/b/b.o": "direct_hit", "/b/c.o": "direct_hit", "/b/e.o": "miss"},
        "`b.h` changed",
    )  # fmt: skip


def test_hits_that_ran_are_listed_with_their_cause(nvccache, builds):
    found = nvccache.lines("explain", "--diff", "last-build~1", "last-build")
    assert found[0] == "1 product that was a hit now ran, 1 that ran is now a hit, 1 as before"
    assert found[2].startswith("last-build~1  20") and found[2].endswith(
        "4 calls in 3.50 s, 3 of 4 compiles were hits, 4.00 s saved"
    )
    assert found[3].startswith("last-build    20")
    assert found[4:] == [
        "",
        "hits in last-build~1 that ran in last-build: 1",
        "  /b/a.o: partial hit, because `b.h` changed",
        "",
        "ran in last-build~1, hits in last-build: 1",
        "  /b/c.o: was miss, because `a.h` changed",
        "",
        "only made in last-build~1: 1",
        "  /b/d.o",
        "",
        "only made in last-build: 1",
        "  /b/e.o",
    ]


def test_compiles_that_failed_did_not_run(nvccache, cache_dir):
    log(cache_dir, HOUR, {"/b/a.o": "failed", "/b/b.o": "direct_hit"})
    log(cache_dir, 60.0, {"/b/a.o": "miss", "/b/b.o": "failed"})
    found = nvccache.lines("explain", "--diff", "last-build~1", "last-build")
    assert found[0] == "2 products failed in one build or both"
    assert ", 1 of 1 compile was a hit, " in found[2] and ", no compile was a hit, " in found[3]
    assert found[4:] == [
        "",
        "failed: 2",
        "  /b/a.o: failed in last-build~1, miss in last-build",
        "  /b/b.o: direct hit in last-build~1, failed in last-build",
    ]
    log(cache_dir, -60.0, {"/b/a.o": "failed"})
    assert (
        "1 call in 0.50 s, 0.00 s saved"
        in nvccache.lines("explain", "--diff", "last-build~1", "last-build")[3]
    )


def test_the_difference_as_json(nvccache, builds):
    found = nvccache.json("explain", "--diff", "last-build~1", "last-build")
    totals = [[build[name] for name in ("name", "calls", "hits", "cacheable")] for build in found["builds"]]
    assert totals == [["last-build~1", 4, 3, 4], ["last-build", 4, 2, 4]]
    assert found["now_run"] == [
        {
            "product": "/b/a.o",
            "outcomes": ["direct_hit", "partial_hit"],
            "causes": ["nothing it depends on has changed", "`b.h` changed"],
        }
    ]
    assert [change["product"] for change in found["now_hit"]] == ["/b/c.o"]
    assert (found["same"], found["only_first"], found["only_second"]) == (1, ["/b/d.o"], ["/b/e.o"])


@pytest.mark.parametrize(
    ("name", "count"),
    [("last-build~0", 4), ("last-build~2", 2), ("179m", 2), ("119m", 4), ("0s", 4), ("150m", 2)],
)
def test_a_build_is_named_by_its_number_or_by_a_time(nvccache, builds, name, count):
    """A time between two builds names the earlier one."""
    found = nvccache.json("explain", "--diff", name, "last-build")
    assert (found["builds"][0]["name"], found["builds"][0]["calls"]) == (name, count)


def test_the_last_call_for_a_product_counts(nvccache, cache_dir):
    log(cache_dir, 2 * HOUR, {"/b/a.o": "miss"})
    log(cache_dir, 60.0, {"/b/a.o": "miss"})
    log(cache_dir, 30.0, {"/b/a.o": "direct_hit"})
    found = nvccache.json("explain", "--diff", "last-build~1", "last-build")
    assert [change["outcomes"] for change in found["now_hit"]] == [["miss", "direct_hit"]]


def test_the_last_call_is_the_one_that_ended_last(nvccache, cache_dir):
    now = time.time()
    log(cache_dir, HOUR, {"/b/a.o": "direct_hit"})
    for started, seconds, outcome in ((now - 90, 60.0, "miss"), (now - 80, 1.0, "direct_hit")):
        event_line.append(
            cache_dir,
            event(
                outcome,
                build="7-1",
                product="/b/a.o",
                started=started,
                seconds=seconds,
                cause="`a.h` changed",
            ),
        )
    found = nvccache.json("explain", "--diff", "last-build~1", "last-build")
    assert [change["product"] for change in found["now_run"]] == ["/b/a.o"]


def test_every_field_is_described(nvccache, builds):
    """Fields with values; tests/test_json_reference.py checks the others."""
    found = nvccache.json("explain", "--diff", "last-build~1", "last-build")
    page = (Path(__file__).parents[3] / "docs" / "reference" / "json.md").read_text()
    for name in (*found, *found["builds"][0], *found["now_run"][0], *found["now_hit"][0]):
        assert f"`{name}`" in page


def test_builds_without_a_difference(nvccache, cache_dir):
    for ago in (HOUR, 60.0):
        log(cache_dir, ago, {"/b/a.o": "miss", "/b/b.o": "direct_hit"})
    found = nvccache.lines("explain", "--diff", "last-build~1", "last-build")
    assert found[0] == "no difference: each product was a hit in both builds or ran in both (2 products)"
    assert len(found) == 4


def test_of_many_products_the_first_are_listed(nvccache, cache_dir):
    for ago, outcome in ((HOUR, "direct_hit"), (200.0, "miss")):
        log(cache_dir, ago, {f"/b/{number:03}.o": outcome for number in range(100)})
    found = nvccache.lines("explain", "--diff", "last-build~1", "last-build")
    assert found[0] == "100 products that were hits now ran, 0 that ran are now hits, 0 as before"
    assert found[-1] == "  and 80 more; --json has all of them"
    assert len([line for line in found if line.startswith("  /b/")]) == 20


@pytest.mark.parametrize(
    ("names", "status", "sentence"),
    [
        (["last-build~3", "last-build"], 1, "Error: no build `last-build~3` is recorded\nHint: the oldest"),
        (["9d", "last-build"], 1, "Error: no build of `9d` is recorded\nHint: the oldest one began on 20"),
        (["last-build", "last-build~x"], 2, "Error: `--diff`: `last-build~x` is neither an age such as `2h`"),
        (["last-build"], 2, "Error: "),
        (["last-build", "last-build~1", "a.o"], 2, "Error: `--diff` compares whole builds"),
    ],
)  # fmt: skip
def test_a_build_that_is_none_is_one_sentence(nvccache, builds, names, status, sentence):
    result = nvccache("explain", "--diff", *names)
    assert result.exit_code == status
    assert result.output.startswith(sentence)
    assert len(result.output.splitlines()) == 2


def test_without_a_log_no_build_is_known(nvccache):
    result = nvccache("explain", "--diff", "last-build", "last-build")
    assert (result.exit_code, result.output) == (1, "Error: no build is recorded\n")
