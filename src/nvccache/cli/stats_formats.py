"""`nvccache stats` for other programs: Prometheus' text format, and a summary for a GitHub step."""

from __future__ import annotations

from nvccache.cli import stats_text
from nvccache.cli.units import seconds_words, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.cli.stats_text import Statistics

    Sample = tuple[tuple[tuple[str, str], ...], float]


def prometheus(statistics: Statistics) -> list[str]:
    """The exposition format of Prometheus, version 0.0.4, for node_exporter's textfile collector."""
    stages = statistics["stages"]
    results = [
        ((("stage", stage), ("result", result)), counts[result])
        for stage, counts in stages.items()
        for result in ("replayed", "hit", "miss")
    ]
    return [
        *_metric(
            "calls_total", "counter", "Calls by what became of them.", _by("outcome", statistics["calls"])
        ),
        *_metric(
            "bypasses_total",
            "counter",
            "Calls that were left to nvcc.",
            _by("reason", statistics["bypass_reasons"]),
        ),
        *_metric(
            "store_faults_total",
            "counter",
            "Calls whose results could not all be stored.",
            _by("fault", statistics["store_faults"]),
        ),
        *_of_remotes(statistics),
        *_of_executor(statistics),
        *_metric("stages_total", "counter", "Stages of compiles.", results),
        *_metric("call_seconds_total", "counter", "Wall time of all calls.", [((), statistics["seconds"])]),
        *_metric(
            "tool_seconds_saved_total", "counter", "Tool time saved.", [((), statistics["seconds_saved"])]
        ),
        *_metric(  # a gauge: filling a cache makes it fall
            "wall_seconds_saved", "gauge", "Wall time saved.", [((), statistics["wall_seconds_saved"])]
        ),
        *_metric("cache_bytes", "gauge", "Size of the cache.", [((), statistics["store"]["bytes"])]),
        *_metric("cache_max_bytes", "gauge", "Its limit, or 0.", [((), statistics["store"]["max_bytes"])]),
        *_metric("cache_files", "gauge", "Entries of the cache.", [((), statistics["store"]["entries"])]),
    ]


def _of_remotes(statistics: Statistics) -> list[str]:
    remote, uploads = statistics["remote"], statistics["uploads"]
    metrics = (
        ("remote_names_asked_total", "counter", "Names that remotes were asked for.", remote["asked"]),
        ("remote_names_found_total", "counter", "Names that remotes had.", remote["found"]),
        ("remote_received_bytes_total", "counter", "Bytes received.", remote["bytes_received"]),
        ("remote_waited_seconds_total", "counter", "Time waited for remotes.", remote["seconds_waited"]),
        ("remote_pending_objects", "gauge", "Objects still to be sent.", uploads["pending"]),
    )
    found = [
        line for name, kind, words, value in metrics for line in _metric(name, kind, words, [((), value)])
    ]
    faults = _by("fault", remote["faults"])
    return [*found, *_metric("remote_faults_total", "counter", "Calls with a fault of a remote.", faults)]


def _of_executor(statistics: Statistics) -> list[str]:
    executor = statistics["executor"]
    seconds = _by("part", stats_text.seconds_away(executor))
    here = _by("reason", executor["reasons"])
    metrics: tuple[tuple[str, str, list[Sample]], ...] = (
        ("executor_stages_sent_total", "Stages sent to other machines.", [((), executor["sent"])]),
        ("executor_stages_returned_total", "Stages that came back.", [((), executor["came_back"])]),
        (
            "executor_action_cache_hits_total",
            "Stages that the engine had the result of.",
            [((), executor["from_action_cache"])],
        ),
        ("executor_stages_run_here_total", "Stages that were sent and ran here.", here),
        ("executor_seconds_total", "Time that stages spent elsewhere.", seconds),
        ("executor_sent_bytes_total", "Bytes sent with stages.", [((), executor["bytes_sent"])]),
        ("executor_received_bytes_total", "Bytes received of stages.", [((), executor["bytes_received"])]),
    )
    found = [line for name, words, samples in metrics for line in _metric(name, "counter", words, samples)]
    is_alone = [((), float(statistics["executor_outage"] is not None))]
    return [*found, *_metric("executor_left_alone", "gauge", "Whether nothing is sent now.", is_alone)]


def _by(label: str, counts: Mapping[str, float]) -> list[Sample]:
    return [(((label, name),), count) for name, count in counts.items()]


def _metric(name: str, kind: str, sentence: str, samples: Iterable[Sample]) -> list[str]:
    found = [f"# HELP nvccache_{name} {sentence}", f"# TYPE nvccache_{name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        found.append(f"nvccache_{name}{f'{{{shown}}}' if shown else ''} {value:.15g}")
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def github(statistics: Statistics) -> list[str]:
    """A summary in Markdown: `nvccache stats --format github >> "$GITHUB_STEP_SUMMARY"`."""
    last = statistics["last_build"]
    hits, cacheable = statistics["rates"]["hits"], statistics["rates"]["cacheable"]
    rows = [("all calls counted", hits, cacheable, statistics["wall_seconds_saved"])]
    if last:
        rows.insert(0, ("last build", last["hits"], last["cacheable"], last["wall_seconds_saved"]))
    size = statistics["store"]
    limit = f" of {size_words(size['max_bytes'])}" if size["max_bytes"] else ""
    found = ["### nvccache", "", "| | hits | of calls | rate | wall time saved |", "|---|--:|--:|--:|--:|"]
    for name, some, of_all, saved in rows:
        share = f"{100 * some / of_all:.1f} %" if of_all else "-"
        found.append(f"| {name} | {some} | {of_all} | {share} | {seconds_words(max(0.0, saved))} |")
    found += ["", "| stage | replayed | hits | misses | spent | saved |", "|---|--:|--:|--:|--:|--:|"]
    for stage, counts in statistics["stages"].items():
        if counts["replayed"] or counts["hit"] or counts["miss"]:
            times = f"{seconds_words(counts['seconds'])} | {seconds_words(counts['seconds_saved'])}"
            found.append(f"| {stage} | {counts['replayed']} | {counts['hit']} | {counts['miss']} | {times} |")
    if statistics["bypass_reasons"]:
        found += ["", "| left to nvcc | calls |", "|---|--:|"]
        found += [f"| {word} | {count} |" for word, count in statistics["bypass_reasons"].items()]
    return [*found, "", f"Cache: {size_words(size['bytes'])}{limit} in {size['entries']} files."]
