"""The figures of `nvccache stats` for other programs: Prometheus, and GitHub's job summary."""

from __future__ import annotations

from collections.abc import Mapping

from nvccache.cli.stats_text import Figures, seconds_by_part
from nvccache.cli.units import format_seconds, format_size


def prometheus(statistics: Figures) -> list[str]:
    """The exposition format of Prometheus, version 0.0.4, for node_exporter's textfile collector."""
    remote, uploads, executor = (statistics[name] for name in ("remote", "uploads", "executor"))
    size, calls, stages = statistics["store"], statistics["calls"], statistics["stages"]
    results = {
        f'stage="{stage}",result="{result}"': counts[result]
        for stage, counts in stages.items()
        for result in ("replayed", "hit", "miss")
    }
    counters = (
        ("calls_total", "Calls by outcome.", _by("outcome", calls)),
        ("bypasses_total", "Calls that were left to nvcc.", _by("reason", statistics["bypass_reasons"])),
        (
            "store_faults_total",
            "Calls whose results could not all be stored.",
            _by("fault", statistics["store_faults"]),
        ),
        ("remote_names_asked_total", "Names queried on remotes.", remote["asked"]),
        ("remote_names_found_total", "Names found on remotes.", remote["found"]),
        ("remote_received_bytes_total", "Bytes received.", remote["bytes_received"]),
        ("remote_waited_seconds_total", "Time waited for remotes.", remote["seconds_waited"]),
        ("remote_faults_total", "Calls with a fault of a remote.", _by("fault", remote["faults"])),
        ("executor_stages_sent_total", "Stages sent to other machines.", executor["sent"]),
        ("executor_stages_returned_total", "Stages that came back.", executor["came_back"]),
        (
            "executor_action_cache_hits_total",
            "Stages that the engine had the result of.",
            executor["from_action_cache"],
        ),
        (
            "executor_stages_run_here_total",
            "Stages that were sent and ran here.",
            _by("reason", executor["reasons"]),
        ),
        (
            "executor_seconds_total",
            "Time that stages spent elsewhere.",
            _by("part", seconds_by_part(executor)),
        ),
        ("executor_sent_bytes_total", "Bytes sent with stages.", executor["bytes_sent"]),
        ("executor_received_bytes_total", "Bytes received of stages.", executor["bytes_received"]),
        ("stages_total", "Stages of compiles.", results),
        ("call_seconds_total", "Wall time of all calls.", statistics["seconds"]),
        ("tool_seconds_saved_total", "Tool time saved.", statistics["seconds_saved"]),
    )
    gauges = (
        ("remote_pending_objects", "Objects still to be sent.", uploads["pending"]),
        ("executor_left_alone", "Whether nothing is sent now.", statistics["executor_outage"] is not None),
        # A gauge: it decreases while a cache is filled.
        ("wall_seconds_saved", "Wall time saved.", statistics["wall_seconds_saved"]),
        ("cache_bytes", "Size of the cache.", size["bytes"]),
        ("cache_max_bytes", "Its limit, or 0.", size["max_bytes"]),
        ("cache_files", "Entries of the cache.", size["entries"]),
    )
    found = []
    for kind, metrics in (("counter", counters), ("gauge", gauges)):
        for name, sentence, value in metrics:
            samples = value if isinstance(value, dict) else {"": value}
            found += [f"# HELP nvccache_{name} {sentence}", f"# TYPE nvccache_{name} {kind}"]
            found += [f"nvccache_{name}{f'{{{at}}}' if at else ''} {one:.15g}" for at, one in samples.items()]
    return found


def _by(label: str, counts: Mapping[str, float]) -> dict[str, float]:
    """The samples of a metric, by their label (the text in braces)."""

    def escaped(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return {f'{label}="{escaped(name)}"': count for name, count in counts.items()}


def github(statistics: Figures) -> list[str]:
    """A summary in Markdown: `nvccache stats --format github >> "$GITHUB_STEP_SUMMARY"`."""
    last = statistics["last_build"]
    hits, cacheable = statistics["rates"]["hits"], statistics["rates"]["cacheable"]
    rows = [("all calls counted", hits, cacheable, statistics["wall_seconds_saved"])]
    if last:
        rows.insert(0, ("last build", last["hits"], last["cacheable"], last["wall_seconds_saved"]))
    size = statistics["store"]
    limit = f" of {format_size(size['max_bytes'])}" if size["max_bytes"] else ""
    found = ["### nvccache", "", "| | hits | of calls | rate | wall time saved |", "|---|--:|--:|--:|--:|"]
    for name, some, of_all, saved in rows:
        share = f"{100 * some / of_all:.1f} %" if of_all else "-"
        found.append(f"| {name} | {some} | {of_all} | {share} | {format_seconds(max(0.0, saved))} |")
    found += ["", "| stage | replayed | hits | misses | spent | saved |", "|---|--:|--:|--:|--:|--:|"]
    for stage, counts in statistics["stages"].items():
        if counts["replayed"] or counts["hit"] or counts["miss"]:
            times = f"{format_seconds(counts['seconds'])} | {format_seconds(counts['seconds_saved'])}"
            found.append(f"| {stage} | {counts['replayed']} | {counts['hit']} | {counts['miss']} | {times} |")
    if statistics["bypass_reasons"]:
        found += ["", "| left to nvcc | calls |", "|---|--:|"]
        found += [f"| {word} | {count} |" for word, count in statistics["bypass_reasons"].items()]
    return [*found, "", f"Cache: {format_size(size['bytes'])}{limit} in {size['entries']} files."]
