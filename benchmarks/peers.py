"""What an edit costs with plain nvcc, nvccache, ccache and sccache, each from the same state.

    python benchmarks/peers.py [--rounds N] [--sccache PATH] [--svg FILE] [--json FILE]

One unit of templates is compiled for two architectures with an empty cache, again, and after each of five
changes. Every round has a new constant in its kernels, so that nothing is cached at its start. Prints medians
as ratios to plain nvcc in a Markdown table, and draws bars with `--svg`. Missing programs are named and left
out. `--draw FILE` draws results of `--json`; docs/images shows those of benchmarks/recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bars
from contenders import CCACHE, HOW_TO_INSTALL, LAUNCHER, SCCACHE, Contender, contenders
from nvccache import __version__
from nvccache.toolkit import discovery

PLAIN, OURS = "nvcc", "nvccache"
SOURCE = Path(__file__).parents[1] / "scripts/demo.cu"
COMMENT = "// A filter of TAPS coefficients that the caller keeps in memory."


def gencode(*numbers: str) -> tuple[str, ...]:
    return tuple(word for n in numbers for word in ("-gencode", f"arch=compute_{n},code=sm_{n}"))


# Name -> the architectures and options of the compile; the text changes in those that are edits.
SCENARIOS = {
    "empty cache": gencode("80", "90"),
    "nothing changed": gencode("80", "90"),
    "a comment edited": gencode("80", "90"),
    "host code edited": gencode("80", "90"),
    "an architecture dropped": gencode("80"),
    "an architecture added": gencode("80", "86"),
    "a ptxas option added": (*gencode("80", "86"), "-Xptxas", "-O2"),
}


def text_for(scenario: str, number: int) -> str:
    """The source in one scenario of a round."""
    text = SOURCE.read_text()
    assert COMMENT in text
    order = list(SCENARIOS)
    text += f"\n__global__ void round_{number}(int *x) {{ *x *= {number + 3}; }}\n"
    if order.index(scenario) >= order.index("a comment edited"):
        text = text.replace(COMMENT, "// A finite impulse response.")
    if order.index(scenario) >= order.index("host code edited"):
        text += "int answer() { return 42; }\n"
    return text


def seconds_of(contender: Contender, scenario: str, number: int, folder: Path) -> float:
    """Compile with one contender in one scenario; returns wall seconds."""
    source, product = folder / "unit.cu", folder / "unit.o"
    text = text_for(scenario, number)
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    product.unlink(missing_ok=True)
    time.sleep(1.5)  # ccache and nvccache distrust newer files
    argv = [*contender.argv, *SCENARIOS[scenario], "-c", source.name, "-o", product.name]
    begun = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=contender.environ, capture_output=True, check=False)
    taken = time.perf_counter() - begun
    if done.returncode or not product.exists():
        raise SystemExit(f"{contender.name}, {scenario}: {done.stderr.decode()}")
    return taken


def measure(rounds: int, nvcc: str, sccache: str | None, work: Path) -> dict[str, dict[str, float]]:
    """Scenario -> contender -> the median of its ratios to plain nvcc in the same round."""
    ratios: dict[str, dict[str, list[float]]] = {name: {} for name in SCENARIOS}
    with contenders(work, nvcc, sccache) as present:
        taking_part = {LAUNCHER: OURS, CCACHE: CCACHE, SCCACHE: SCCACHE}
        lanes = {taking_part[one.name]: one for one in present if one.name in taking_part}
        plain = Contender(PLAIN, (nvcc,), present[0].environ)
        for name, command in HOW_TO_INSTALL.items():
            if name not in lanes:
                print(f"{name} is not installed ({command})")
        for number in range(rounds):
            folders = {name: work / f"{name}-{number}" for name in (PLAIN, *lanes)}
            for folder in folders.values():
                folder.mkdir()
            for scenario in SCENARIOS:
                base = seconds_of(plain, scenario, number, folders[PLAIN])
                for name, lane in lanes.items():
                    taken = seconds_of(lane, scenario, number, folders[name])
                    ratios[scenario].setdefault(name, []).append(taken / base)
                    print(f"  {number} {scenario:26}{name:10}{taken:8.3f} s of {base:.3f} s", flush=True)
    return {
        scenario: {PLAIN: 1.0} | {name: statistics.median(found) for name, found in by_name.items()}
        for scenario, by_name in ratios.items()
    }


def table(medians: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(medians.values())))
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for scenario, found in medians.items():
        lines.append(f"| {scenario} | {' | '.join(formatted(found[name]) for name in names)} |")
    return "\n".join(lines)


def formatted(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def described(nvcc: str, sccache: str | None, rounds: int) -> dict[str, object]:
    """The conditions of the comparison: versions by name, cores, rounds, month."""
    found: dict[str, object] = {PLAIN: discovery.release_of(nvcc), OURS: __version__}
    for name, program in ((CCACHE, CCACHE), (SCCACHE, sccache or SCCACHE)):
        try:
            shown = subprocess.check_output([program, "--version"], text=True).splitlines()[0]
        except OSError:
            continue
        found[name] = shown.split()[-1]
    cores = len(os.sched_getaffinity(0))
    return {**found, "cores": cores, "rounds": rounds, "date": time.strftime("%B %Y")}


def draw(svg: str, document: dict[str, object]) -> None:
    """Draw the results that --json wrote."""
    about: dict[str, object] = document["about"]  # type: ignore[assignment]
    note = f"{about['cores']} cores, medians of {about['rounds']} rounds, {about['date']}"
    versions = {name: str(about[name]) for name in (PLAIN, OURS, CCACHE, SCCACHE) if name in about}
    title = "Time of a compile, as a share of plain nvcc's"
    Path(svg).write_text(bars.drawing(title, note, PLAIN, versions, document["medians"]))  # type: ignore[arg-type]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sccache", metavar="PATH", help="an sccache that is not on PATH")
    parser.add_argument("--svg", metavar="FILE", help="draw the medians as bars")
    parser.add_argument(
        "--json", metavar="FILE", help="keep the medians, and the versions that they belong to"
    )
    parser.add_argument("--draw", metavar="FILE", help="measure nothing, draw what --json kept")
    options = parser.parse_args()
    if options.draw:
        document = json.loads(Path(options.draw).read_text())
    else:
        nvcc = discovery.find_nvcc(os.environ)
        if not nvcc:
            parser.error("no nvcc found")
        with tempfile.TemporaryDirectory() as temporary:
            medians = measure(options.rounds, nvcc, options.sccache, Path(temporary))
        about = described(nvcc, options.sccache, options.rounds)
        print(", ".join(f"{name} {value}" for name, value in about.items()))
        document = {"about": about, "medians": medians}
    if options.json:
        Path(options.json).write_text(json.dumps(document, indent=2) + "\n")
    if options.svg:
        draw(options.svg, document)
    print(table(document["medians"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
