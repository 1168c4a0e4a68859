"""Every call of the corpus, for six toolkits: a plan of the right shape, or the right reason for none.

`corpus_outcomes.txt` says which; NVCCACHE_TEST_REGENERATE=1 regenerates it, to be reviewed as a diff.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from recordings import HERE, SCRATCH, VERSIONS, Case, corpus, outcome

from nvccache import outcomes
from nvccache.commandline import options, tokens
from nvccache.commandline.invocation import LINKS, Bypass, Invocation
from nvccache.commandline.tokens import UnknownOption
from nvccache.plan.model import OPAQUE, Plan, Stage

TABLE = HERE / "corpus_outcomes.txt"
LETTERS = {
    "host_preprocess": "h",
    "cudafe": "u",
    "device_preprocess": "d",
    "cicc": "c",
    "ptxas": "p",
    "fatbinary": "f",
    "host_compile": "o",
    "nvlink": "n",
    "host_link": "l",
    OPAQUE: "x",
}
LEGEND = """\
# What becomes of each case of the corpus, where versions differ for each of them.
# It is what nvcc said of the call as it was recorded: with -t before CUDA 13 that is an error.
# A plan is shown by how many stages of each kind it has: h host_preprocess, u cudafe, d device_preprocess,
# c cicc, p ptxas, f fatbinary, o host_compile, n nvlink, l the host's link, x a command that is not
# understood.
"""
# What the option file of the recording must have held, since nvcc took these from it.
OPTION_FILE = '-O3\n-arch=sm_80 "-DFOO=a b"\n'
EXTENSIONS = {"ptx": ".ptx", "cubin": ".cubin", "fatbin": ".fatbin", "optix-ir": ".optixir"}

MAY_NAME_OBJECTS = ("host_compile", "nvlink", "host_link", OPAQUE)

Outcomes = dict[str, tuple[Invocation | None, Plan | Bypass]]


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def decided(version, tmp_path_factory) -> Outcomes:
    """Case -> what becomes of it with this toolkit."""
    return _decide(version, tmp_path_factory.mktemp("project"))


def _decide(version: str, folder: Path) -> Outcomes:
    (folder / "opts.txt").write_text(OPTION_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {name: outcome(case) for name, case in corpus(version).items()}


@pytest.fixture(scope="module")
def plans(decided) -> dict[str, Plan]:
    return {name: plan for name, (_, plan) in decided.items() if isinstance(plan, Plan)}


def _shown(found: Plan | Bypass) -> str:
    if isinstance(found, Bypass):
        return found.reason
    kinds = [stage.kind for stage in found.stages]
    counts = {letter: kinds.count(kind) for kind, letter in LETTERS.items() if kind in kinds}
    return "plan:" + "".join(f"{count if count > 1 else ''}{letter}" for letter, count in counts.items())


def _read_table() -> dict[tuple[str, str], str]:
    """(case, version) -> what the table says."""
    expected = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, *parts = line.split()
        for part in parts:
            versions, _, end = part.rpartition("=")
            for version in versions.split(",") if versions else VERSIONS:
                expected[name, version] = end
    return expected


@pytest.mark.skipif("NVCCACHE_TEST_REGENERATE" not in os.environ, reason="only to regenerate the table")
def test_regenerate_the_table(tmp_path):
    decided = {version: _decide(version, tmp_path) for version in VERSIONS}
    lines = []
    for name in sorted(corpus(VERSIONS[0])):
        ends: dict[str, list[str]] = {}
        for version in VERSIONS:
            ends.setdefault(_shown(decided[version][name][1]), []).append(version)
        parts = [end if len(ends) == 1 else f"{','.join(ends[end])}={end}" for end in ends]
        lines.append(f"{name} {' '.join(parts)}\n")
    TABLE.write_text(LEGEND + "".join(lines))


def test_each_recorded_dry_run_is_planned_or_bypassed_as_listed(version, decided):
    table = _read_table()
    assert {name: _shown(found) for name, (_, found) in decided.items()} == {
        name: end for (name, of), end in table.items() if of == version
    }
    reasons = {end for end in table.values() if not end.startswith("plan:")}
    assert reasons <= outcomes.REASONS.keys() - {"unexplained"}


def test_every_plan_makes_all_that_the_command_asks_for_and_nothing_twice(version, decided):
    faults = [
        (name, fault)
        for name, (invocation, plan) in decided.items()
        if isinstance(plan, Plan)
        for fault in _faults(name, corpus(version)[name], invocation, plan)
    ]
    assert faults == []


def _faults(name: str, case: Case, invocation: Invocation, plan: Plan) -> Iterator[str]:
    """What is wrong with a plan, whatever its shape."""
    written: list[str] = []
    for stage in plan.stages:
        if stage.kind == OPAQUE:
            yield f"a command is not understood: {stage.argv}"
        if not set(stage.inputs) <= set(written):
            yield f"{stage.kind} reads what is not written before"
        written += [output.path for output in stage.outputs]
        for word in stage.key_argv:
            is_place = SCRATCH in word or "tmpxft_" in word
            if is_place or (word.endswith(".o") and stage.kind not in MAY_NAME_OBJECTS):
                yield f"a key of {stage.kind} names a place of this one call: {word}"
    if len(written) != len(set(written)):
        yield "two stages write one file"
    if not all(path.startswith(f"{SCRATCH}/") for path in written):
        yield "a product is written where the user wants it"
    # Sorted, since what was recorded with `-t` comes in any order. Before 13 `-ltoir` is the library `toir`.
    if name != "ltoir" and sorted(plan.products) != sorted(_products(invocation)):
        yield f"products that the command line does not ask for: {plan.products}"
    paths = [step.path for step in plan.steps if not isinstance(step, Stage)]
    if bool(paths) != (invocation.dependencies is not None) or not all(paths):
        yield "dependency files are not planned as they are asked for"
    kinds = [stage.kind for stage in plan.stages]
    if "cicc" not in kinds:
        return
    listed = re.search(rb"-D__CUDA_ARCH_LIST__=([\d,]+) ", case.transcript)  # since CUDA 11.5
    units = kinds.count("cudafe") or len(invocation.inputs)
    wanted = units * (listed[1].count(b",") + 1) if listed else kinds.count("cicc")
    if not kinds.count("cicc") == kinds.count("device_preprocess") == wanted:
        yield "not one cicc for each virtual architecture"
    real = set(re.findall(r"\b(sm_\w+)", " ".join(case.argv)))
    if any("gencode" in word for word in case.argv) and real and "-dlto" not in case.argv:
        assembled = [stage.argv for stage in plan.stages if stage.kind == "ptxas" and stage.outputs]
        words = {word for argv in assembled for word in argv if word.startswith("-arch=")}
        if words != {f"-arch={architecture}" for architecture in real}:
            yield "not one ptxas for each real architecture"


def _products(invocation: Invocation) -> list[str]:
    if invocation.output:
        return [invocation.output]
    if invocation.mode in LINKS:
        return ["a.out" if invocation.mode == "link" else "a_dlink.o"]
    in_directory = f"{invocation.output_directory}/" if invocation.output_directory else ""
    bases = map(os.path.basename, invocation.inputs)
    extension = EXTENSIONS.get(invocation.mode, ".o")
    return [in_directory + os.path.splitext(base)[0] + extension for base in bases]


# An architecture's stages must not miss because there is another one beside it: nvcc then names their
# files differently (`a.ptx`, `a.compute_80.ptx`).
@pytest.mark.parametrize(("one", "two"), [("c_gencode1", "c_gencode2"), ("dw", "c_gencode2")])
def test_adding_an_architecture_leaves_the_stage_keys_of_the_first_unchanged(plans, version, one, two):
    if version == "11.2":
        assert two not in plans, "it has no sm_90"
        return
    assert _key_words(plans[one], "ptxas", "-arch=sm_80") == _key_words(plans[two], "ptxas", "-arch=sm_80")
    assert _key_words(plans[one], "cicc", "compute_80") == _key_words(plans[two], "cicc", "compute_80")
    if not version.startswith("11."):
        assert _key_words(plans[one], "cudafe") == _key_words(plans[two], "cudafe")


def _key_words(plan: Plan, kind: str, word: str = "") -> list[str]:
    (found,) = [
        stage.key_argv for stage in plan.stages if stage.kind == kind and (not word or word in stage.key_argv)
    ]
    return list(found)


def test_options_that_no_nvcc_release_knows_are_refused_and_known_ones_accepted(version):
    for name, case in corpus(version).items():
        words = tokens.scan(case.argv)
        is_refused = isinstance(words, UnknownOption) or isinstance(tokens.resolve(words), UnknownOption)
        unknown = re.search(rb"^nvcc fatal +: Unknown option '([^'=]*)", case.transcript, re.MULTILINE)
        # What only other versions know is split, and fails in nvcc's dry run.
        is_known_elsewhere = unknown and unknown[1].decode() in options.SPELLINGS
        is_rare = name == "Ofc"  # whose value does not follow `=`
        assert is_refused == bool(unknown) or is_known_elsewhere or is_rare, name
