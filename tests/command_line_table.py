"""Compare every command line of tests/scenarios with plain nvcc on several toolkits, and print a table of it.

    python tests/command_line_table.py                                        # the default toolkit
    python tests/command_line_table.py --nvcc /path/to/nvcc --nvcc /path/to/older/nvcc,/path/to/g++-11
    python tests/command_line_table.py --results DIRECTORY --nvcc ...         # keep what each gave

Prints Markdown: what became of each line in each toolkit, then totals. The status is 0 if each was as in
plain nvcc, and became what the list says. Toolkits are compared one at a time.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
TEST = TESTS / "scenarios" / "same_result" / "test_command_lines.py"
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

from nvccache.toolkit.discovery import find_nvcc  # noqa: E402 (the paths come first)
from scenarios.same_result.bench import LISTED, release_of  # noqa: E402
from scenarios.same_result.command_lines import LINES  # noqa: E402

_STEPS = ("cold", "warm", "comment", "change")
_DIFFERS = "**differs**"
_UNLISTED = "**not as listed**"  # as in plain nvcc, but hit or bypassed otherwise than the list says


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one line in one toolkit."""

    cell: str
    kind: str  # what it counts as in the totals
    message: str = ""  # how it differed


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    toolkits = arguments.nvcc or [_at_hand(os.environ)]
    with tempfile.TemporaryDirectory() as directory:
        results = Path(arguments.results or directory)
        results.mkdir(parents=True, exist_ok=True)
        found = {}
        for toolkit in toolkits:
            nvcc, _, ccbin = toolkit.partition(",")
            release = "{}.{}".format(*release_of(nvcc))
            report = results / f"{release}.xml"
            if not report.exists():
                _run(nvcc, ccbin, report, arguments)
            found[release] = _outcomes(report)
    print(_table(found))
    print(_totals(found))
    print(_differences(found))
    return int(any(outcome.message for outcomes in found.values() for outcome in outcomes.values()))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--nvcc",
        action="append",
        metavar="PATH[,CCBIN]",
        help="an nvcc, and a host compiler for it; may be repeated",
    )
    parser.add_argument(
        "--results",
        metavar="DIRECTORY",
        help="where to keep what each toolkit gave; a toolkit that is there is not run again",
    )
    parser.add_argument(
        "--light", action="store_true", help="with next to no CUDA headers, three times as fast"
    )
    parser.add_argument(
        "--jobs", default="0", help="how many lines at once, for pytest-xdist; one by default"
    )
    parser.add_argument("--select", metavar="EXPRESSION", help="only these lines, as for pytest's -k")
    return parser.parse_args(argv)


def _at_hand(environ: Mapping[str, str]) -> str:
    """The toolkit that the tests take."""
    nvcc = environ.get("NVCCACHE_TEST_NVCC") or find_nvcc(environ, release="13") or "nvcc"
    return f"{nvcc},{environ.get('NVCCACHE_TEST_CCBIN', '')}"


def _run(nvcc: str, ccbin: str, report: Path, arguments: argparse.Namespace) -> None:
    """Compare all lines; the report appears only when all are done."""
    unfinished = report.with_suffix(".unfinished")
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "junit_family=xunit1"]
    argv += ["-q", "--tb=short", "--every-case", f"--junitxml={unfinished}"]
    argv += ["-n", arguments.jobs, "--dist", "worksteal"]
    argv += ["-k", arguments.select] if arguments.select else []
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environ = {**os.environ, "NVCCACHE_TEST_NVCC": nvcc, "NVCCACHE_TEST_CCBIN": ccbin, "PYTHONPATH": path}
    environ["NVCCACHE_TEST_LIGHT"] = "1" if arguments.light else ""
    # What pytest prints is progress, not the table.
    done = subprocess.run([*argv, str(TEST)], cwd=TESTS.parent, env=environ, stdout=sys.stderr, check=False)
    if done.returncode not in (0, 1):  # It did not come to its end.
        sys.exit(done.returncode)
    unfinished.rename(report)


def _outcomes(report: Path) -> dict[str, Outcome]:
    """Name of a line -> what became of it."""
    cases = ElementTree.parse(report).iter("testcase")
    return {case.attrib["name"].partition("[")[2][:-1]: _outcome(case) for case in cases}


def _outcome(case: ElementTree.Element) -> Outcome:
    steps = {item.attrib["name"]: item.attrib["value"] for item in case.iter("property")}
    text = " / ".join(steps[name] for name in _STEPS if name in steps)
    for problem in (*case.iter("failure"), *case.iter("error")):
        message = problem.attrib["message"]
        kind = _UNLISTED if LISTED in message else _DIFFERS
        return Outcome(f"{kind} {text}".strip(), kind, message)
    for skipped in case.iter("skipped"):
        return Outcome(skipped.attrib["message"], "not in this toolkit")
    if steps["cold"].startswith("bypass:"):
        return Outcome(steps["cold"].replace(":", ": "), steps["cold"].replace(":", ": "))
    return Outcome(text, "failed, as in nvcc" if steps["cold"] == "failed" else steps.get("warm", text))


def _table(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Rows for lines, columns for toolkits; only the lines that were run."""
    rows = [
        f"Outcomes: {' / '.join(_STEPS)}, where `comment` and `change` are edits of a source.\n",
        f"| name | command | {' | '.join(found)} |",
        f"|---|---|{'---|' * len(found)}",
    ]
    for line in LINES:
        cells = [outcomes[line.name].cell if line.name in outcomes else "" for outcomes in found.values()]
        if any(cells):
            rows.append(
                f"| {line.name} | {_code(_command(line.environ, line.command))} | {' | '.join(cells)} |"
            )
    return "\n".join(rows) + "\n"


def _command(environ: Mapping[str, str], command: str) -> str:
    variables = [f"{name}='{value}'" for name, value in environ.items()]
    return " ".join([*variables, "nvcc", command]).strip()


def _code(text: str) -> str:
    return "`` " + text.replace("\n", "\\n").replace("|", "\\|") + " ``"


def _totals(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    counts = {
        release: collections.Counter(outcome.kind for outcome in outcomes.values())
        for release, outcomes in found.items()
    }
    kinds = sorted(
        {kind for count in counts.values() for kind in count}, key=lambda kind: ("bypass" in kind, kind)
    )
    rows = [f"| total | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for kind in kinds:
        rows.append(f"| {kind} | {' | '.join(str(count[kind]) for count in counts.values())} |")
    rows.append(f"| all lines | {' | '.join(str(count.total()) for count in counts.values())} |")
    return "\n".join(rows) + "\n"


def _differences(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    """How each line that differed did so."""
    messages = [
        f"- {release}, {name}: {' '.join(outcome.message.split())[:400]}"
        for release, outcomes in found.items()
        for name, outcome in outcomes.items()
        if outcome.message
    ]
    return "\n".join(messages) if messages else "Every line did what it does in plain nvcc."


if __name__ == "__main__":
    sys.exit(main())
