"""What links and compiles cost if nothing has changed, as ratios to plain nvcc.

    python tests/benchmarks/links.py [--runs 5] [--objects 20] [--cases dlink,...] [--nvcc PATH]

Plain nvcc and nvccache make the same product in turn, in alternating order. Prints a Markdown table of
medians, the ratio of medians, and the median and range of ratios of pairs. The device functions of the linked
objects call each other. The host link of a program always runs, so the best outcome is a stage hit.

Every object is compared with that of `nvcc -keep`, and of programs the device code. Fails if something
differs, if a stage ran, or if a call had a wrong outcome. Cases with `-dlto` are skipped if the toolkit
cannot link with it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import workbench
from miss_scenarios import unexpected
from rows import MARKDOWN, Row, markdown
from units import Version, text_of, units
from workbench import OBJECT, OURS, Bench

from nvccache import outcomes
from nvccache.plan import stages
from nvccache.store import event_totals
from nvccache.toolkit import discovery, dryrun

_OWN = "links"  # the directory below --keep that is recreated
_ONE = ("-arch=sm_80",)
_LTO = (*_ONE, "-dlto")
_DEVICE_SECTIONS = (".nv_fatbin", "__nv_relfatbin", "__nv_module_id")
# Chains of device functions: with -dlto all of it is compiled by the link, and inlined across units.
_UNIT = """\
extern __device__ float step_@NEXT@(float value, int index);

template <int Count>
__device__ float mixed(float value, const float *from) {
  float sums[Count] = {};
#pragma unroll
  for (int index = 0; index < Count; ++index)
    sums[index] = from[index] * value + sums[index / 2];
  for (int index = 1; index < Count; ++index)
    sums[0] += sums[index] * __sinf(sums[index - 1]);
  return sums[0];
}

__global__ void kernel_@NUMBER@(float *to, const float *from) {
  float value = mixed<8>(to[0], from) + mixed<16>(to[1], from) + mixed<24>(to[2], from);
  to[threadIdx.x] = step_@NEXT@(value + mixed<32>(to[3], from), threadIdx.x);
}

__device__ float step_@NUMBER@(float value, int index) {
  return index > @NUMBER@ ? value * @NUMBER@.5f : step_@NEXT@(value, index + 1);
}
"""
_LAST = "__device__ float step_@NUMBER@(float value, int) { return value; }\nint main() { return 0; }\n"


@dataclass(frozen=True)
class Case:
    """A product to make repeatedly: nvcc's arguments, and the outcome of a warm call."""

    name: str
    title: str
    argv: tuple[str, ...]
    outcome: str
    is_program: bool = False


def prepared(bench: Bench, options: argparse.Namespace) -> list[Case]:
    """The cases that the toolkit supports, with their objects."""
    source = workbench.write(bench, "a.cu", text_of(units(None)["a"], Version()))
    compiled = [
        Case("compile", "`-c`", (*_ONE, "-c", str(source)), outcomes.DIRECT_HIT),
        Case("debug", "`-c -G`", (*_ONE, "-G", "-c", str(source)), outcomes.DIRECT_HIT),
    ]
    linked = []
    for name, argv in (("", _ONE), ("lto-", _LTO)):
        if not any(f"{name}{kind}" in options.cases for kind in ("dlink", "program")):
            continue
        objects = _objects(bench, options, argv)
        flags = " -dlto" if name else ""
        link = (*argv, *objects)
        linked += [
            Case(f"{name}dlink", f"`-dlink{flags}`", ("-dlink", *link), outcomes.DIRECT_HIT),
            Case(f"{name}program", f"program{flags and ', `-dlto`'}", link, outcomes.STAGE_HIT, True),
        ]
    chosen = [case for case in (*compiled, *linked) if case.name in options.cases]
    return [case for case in chosen if _can_be_made(bench, case)]


def _objects(bench: Bench, options: argparse.Namespace, argv: Sequence[str]) -> list[str]:
    """Relocatable objects made by plain nvcc; the last one ends the chain and holds `main`."""
    folder = bench.work / "objects" / "-".join(argv).replace("=", "-")
    folder.mkdir(parents=True)
    made = []
    for number in range(options.objects):
        template = _UNIT if number < options.objects - 1 else _LAST
        text = template.replace("@NUMBER@", str(number)).replace("@NEXT@", str(number + 1))
        source = workbench.write(bench, f"unit{number}.cu", text)
        made.append(str(folder / f"unit{number}.o"))
        command = [bench.nvcc, "-dc", *argv, str(source), "-o", made[-1]]
        workbench.timed(command, bench.work, bench.environ)
    return made


def _can_be_made(bench: Bench, case: Case) -> bool:
    try:
        workbench.compile_plain(bench, case.argv)
    except workbench.CompileError as error:
        if "-dlto" not in case.argv:
            raise
        print(f"skipped: {case.name}, {str(error).splitlines()[-1]}")
        return False
    return True


def measured(bench: Bench, case: Case, options: argparse.Namespace) -> Row:
    """Warm the cache, then build with plain nvcc and from the cache in turn; raises CompileError."""
    row = Row(case.name, case.title)
    argv = case.argv
    wanted = _wanted(bench, case, argv)
    for _ in range(2):  # the second call writes the record that answers the third
        workbench.settle()
        workbench.compile_ours(bench, argv)
    workbench.settle()
    before = _outcomes(bench)
    lanes = [lambda: row.base.append(workbench.compile_plain(bench, argv)), lambda: _warm(bench, argv, row)]
    for run in range(options.runs):
        for lane in lanes[:: -1 if run % 2 else 1]:
            lane()
        if _content(bench.work / OURS / OBJECT, case) != wanted:
            row.wrong.append("the product differs")
    ended = dict(_outcomes(bench) - before)
    if ended != {case.outcome: options.runs}:
        row.wrong.append(f"calls ended as {ended}")
    row.note = case.outcome
    return row


def _warm(bench: Bench, argv: Sequence[str], row: Row) -> None:
    (bench.work / OURS / OBJECT).unlink()
    compiled = workbench.compile_ours(bench, argv)
    row.ours.append(compiled.cost)
    row.wrong += unexpected(dict.fromkeys(stages.counted(), 0), compiled.ran)


def _wanted(bench: Bench, case: Case, argv: Sequence[str]) -> bytes:
    """The product of `nvcc -keep`, in the directory where nvccache makes it."""
    made, kept = bench.work / "references" / f"{case.name}.o", bench.work / "references" / "kept"
    workbench.keep(bench, [*argv, "-o", str(made)], kept, bench.work / OURS)
    shutil.rmtree(kept)
    return _content(made, case)


def _content(path: Path, case: Case) -> bytes:
    """The bytes of an object, or the device code of a program."""
    if not case.is_program:
        return path.read_bytes()
    found = b""
    for section in _DEVICE_SECTIONS:
        dumped = path.with_name(f"{path.name}{section}")
        command = ["objcopy", "-O", "binary", "--only-section", section, str(path), str(dumped)]
        subprocess.run(command, check=True)
        found += dumped.read_bytes()
    return found


def _outcomes(bench: Bench) -> Counter[str]:
    return Counter(event_totals.read(str(bench.cache))["calls"])


NAMES = ("compile", "debug", "dlink", "lto-dlink", "program", "lto-program")


def _names(text: str) -> list[str]:
    unknown = set(text.split(",")) - set(NAMES)
    if unknown:
        raise argparse.ArgumentTypeError(f"no case `{min(unknown)}`; there are {', '.join(NAMES)}")
    return text.split(",")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often each pair is measured")
    parser.add_argument("--objects", type=int, default=20, help="how many objects are linked")
    parser.add_argument("--cases", type=_names, default=list(NAMES), metavar="NAME,...")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work here, and leave everything")
    return workbench.parsed(parser)


def _set_up(work: Path, options: argparse.Namespace) -> Bench:
    """A bench whose programs find the CUDA runtime, which not every nvcc profile does."""
    bench = workbench.set_up(work, options.nvcc)
    asked = [options.nvcc, "--dryrun", "-c", "x.cu"]
    transcript = dryrun.read(subprocess.run(asked, capture_output=True, check=True, cwd=work).stderr)
    if isinstance(transcript, dryrun.Transcript):
        toolkit = Path(transcript.variables["_HERE_"]).parent
        folders = [folder for folder in (toolkit / "lib64", toolkit / "lib") if folder.is_dir()]
        bench.environ["LIBRARY_PATH"] = ":".join(map(str, folders))
        if not any((folder / "libcudart_static.a").exists() for folder in folders):
            bench.environ["NVCC_APPEND_FLAGS"] = "-cudart=shared"
    return bench


def main() -> int:
    options = parsed()
    made = []
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.keep or Path(temporary)).resolve() / _OWN
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            bench = _set_up(work, options)
            cases = prepared(bench, options)
        except workbench.CompileError as error:
            raise SystemExit(f"nothing can be measured: {error}") from None
        cores, release = len(os.sched_getaffinity(0)), discovery.release_of(options.nvcc)
        print(f"nvcc {release}, {cores} cores, {options.runs} pairs, links of {options.objects} objects\n")
        print(MARKDOWN, flush=True)
        for case in cases:
            try:
                row = measured(bench, case, options)
            except workbench.CompileError as error:
                row = Row(case.name, case.title, note="failed", wrong=[str(error)])
            print(markdown(row), flush=True)
            made.append(row)
    return 1 if any(row.wrong for row in made) else 0


if __name__ == "__main__":
    sys.exit(main())
