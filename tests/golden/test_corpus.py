"""Every call of the corpus, for six toolkits: a plan of the right shape, or the right reason for none.

`corpus_outcomes.txt` says which; NVCCACHE_TEST_REGENERATE=1 regenerates it, to be reviewed as a diff.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest
import recordings

from nvccache import outcomes
from nvccache.commandline.invocation import LINKS, Bypass, Invocation
from nvccache.plan.model import OPAQUE, Plan, Stage
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Command, Transcript

VERSIONS = ("11.2", "11.8", "12.4", "13.0", "13.2", "13.5")
TABLE = Path(__file__).with_name("corpus_outcomes.txt")
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
# What becomes of each case of the corpus ../shared/dryruns, where versions differ for each of them.
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


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def decided(version, corpus, tmp_path, monkeypatch) -> Outcomes:
    """Case -> what becomes of it with this toolkit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opts.txt").write_text(OPTION_FILE)
    return _decide(corpus / version)


@pytest.fixture
def plans(decided) -> dict[str, Plan]:
    return {name: outcome for name, (_, outcome) in decided.items() if isinstance(outcome, Plan)}


@functools.cache
def _decide(directory: Path) -> Outcomes:
    cases = [recordings.read_case(path) for path in sorted(directory.glob("*.txt"))]
    return {case.name: recordings.outcome(case) for case in cases}


def _shown(outcome: Plan | Bypass) -> str:
    if isinstance(outcome, Bypass):
        return outcome.reason
    kinds = [stage.kind for stage in outcome.stages]
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
            versions, _, outcome = part.rpartition("=")
            for version in versions.split(",") if versions else VERSIONS:
                expected[name, version] = outcome
    return expected


def _write_table(corpus: Path) -> None:
    lines = []
    for name in sorted(_decide(corpus / VERSIONS[0])):
        ends: dict[str, list[str]] = {}
        for version in VERSIONS:
            ends.setdefault(_shown(_decide(corpus / version)[name][1]), []).append(version)
        parts = [end if len(ends) == 1 else f"{','.join(ends[end])}={end}" for end in ends]
        lines.append(f"{name} {' '.join(parts)}\n")
    TABLE.write_text(LEGEND + "".join(lines))


@pytest.mark.skipif("NVCCACHE_TEST_REGENERATE" not in os.environ, reason="only to regenerate the table")
def test_regenerate_the_table(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opts.txt").write_text(OPTION_FILE)
    _decide.cache_clear()
    _write_table(corpus)


def test_every_case_ends_as_the_table_says(version, decided):
    expected = {name: end for (name, of), end in _read_table().items() if of == version}
    assert {name: _shown(outcome) for name, (_, outcome) in decided.items()} == expected


def test_every_reason_is_a_known_one_and_none_is_unexplained():
    reasons = {end for end in _read_table().values() if not end.startswith("plan:")}
    assert reasons <= outcomes.REASONS.keys() - {"unexplained"}


def test_every_command_is_understood(plans):
    for name, plan in plans.items():
        assert not [stage.argv for stage in plan.stages if stage.kind == OPAQUE], name


def test_what_a_stage_reads_is_written_before(plans):
    for name, plan in plans.items():
        written: set[str] = set()
        for stage in plan.stages:
            assert written.issuperset(stage.inputs), name
            written.update(output.path for output in stage.outputs)


def test_no_two_stages_write_one_file(plans):
    for name, plan in plans.items():
        written = [output.path for stage in plan.stages for output in stage.outputs]
        assert len(written) == len(set(written)), name


def test_products_are_those_that_the_command_line_asks_for(decided):
    for name, (invocation, plan) in decided.items():
        if isinstance(plan, Plan) and name != "ltoir":  # before 13 `-ltoir` is the library `toir`
            # Sorted, since what was recorded with `-t` comes in any order.
            assert sorted(plan.products) == sorted(_products(invocation)), name


def _products(invocation: Invocation) -> list[str]:
    if invocation.output:
        return [invocation.output]
    if invocation.mode in LINKS:
        return ["a.out" if invocation.mode == "link" else "a_dlink.o"]
    in_directory = f"{invocation.output_directory}/" if invocation.output_directory else ""
    bases = map(os.path.basename, invocation.inputs)
    extension = EXTENSIONS.get(invocation.mode, ".o")
    return [in_directory + os.path.splitext(base)[0] + extension for base in bases]


def test_products_are_not_written_where_the_user_wants_them(plans):
    for name, plan in plans.items():
        for stage in plan.stages:
            assert all(output.path.startswith(recordings.SCRATCH + "/") for output in stage.outputs), name


def test_key_words_name_no_place_of_this_one_call(plans):
    for name, plan in plans.items():
        for stage in plan.stages:
            for word in stage.key_argv:
                assert recordings.SCRATCH not in word, name
                assert "tmpxft_" not in word, name
                assert stage.kind in MAY_NAME_OBJECTS or not word.endswith(".o"), name


def test_dependency_files_are_planned_where_they_are_asked_for(decided):
    for name, (invocation, plan) in decided.items():
        if isinstance(plan, Plan):
            paths = [step.path for step in plan.steps if not isinstance(step, Stage)]
            assert bool(paths) == (invocation.dependencies is not None), name
            assert all(paths), name


def test_there_is_one_cicc_for_each_virtual_architecture(decided, corpus, version):
    for name, (invocation, plan) in decided.items():
        listed = _architecture_list(corpus / version / f"{name}.txt")
        if isinstance(plan, Plan) and listed and any(stage.kind == "cicc" for stage in plan.stages):
            sources = sum(stage.kind == "cudafe" for stage in plan.stages) or len(invocation.inputs)
            kinds = [stage.kind for stage in plan.stages]
            assert kinds.count("cicc") == kinds.count("device_preprocess") == listed * sources, name


def _architecture_list(path: Path) -> int:
    """How many virtual architectures nvcc tells the preprocessor of; 0 before CUDA 11.5."""
    match = re.search(r"-D__CUDA_ARCH_LIST__=([\d,]+) ", path.read_text())
    return match[1].count(",") + 1 if match else 0


def test_there_is_one_ptxas_for_each_real_architecture(plans, corpus, version):
    for name, plan in plans.items():
        arguments = recordings.read_case(corpus / version / f"{name}.txt").arguments
        real = set(re.findall(r"\b(sm_\w+)", " ".join(arguments)))
        compiles = any(stage.kind == "cicc" for stage in plan.stages)
        if any("gencode" in word for word in arguments) and real and compiles and "-dlto" not in arguments:
            made = {
                word.removeprefix("-arch=")
                for stage in plan.stages
                if stage.kind == "ptxas" and stage.outputs
                for word in stage.argv
                if word.startswith("-arch=")
            }
            assert made == real, name


# An architecture's stages must not miss because there is another one beside it: nvcc then names their
# files differently (`a.ptx`, `a.compute_80.ptx`).
@pytest.mark.parametrize(("one", "two"), [("c_gencode1", "c_gencode2"), ("dw", "c_gencode2")])
def test_a_second_architecture_does_not_change_the_words_of_the_first(plans, version, one, two):
    if two not in plans:
        pytest.skip("11.2 has no sm_90")
    assert _key_words(plans[one], "ptxas", "-arch=sm_80") == _key_words(plans[two], "ptxas", "-arch=sm_80")
    assert _key_words(plans[one], "cicc", "compute_80") == _key_words(plans[two], "cicc", "compute_80")
    if not version.startswith("11."):
        assert _key_words(plans[one], "cudafe") == _key_words(plans[two], "cudafe")


def test_the_name_of_the_object_is_no_part_of_any_key(plans):
    first, second = plans["c_noarch"], plans["c_noarch_o"]
    assert [stage.key_argv for stage in first.stages] == [stage.key_argv for stage in second.stages]


def test_an_optimisation_for_the_host_changes_only_the_host_compilers_words(plans):
    plain, optimised = plans["c_noarch"], plans["O3"]
    changed = {
        stage.kind
        for stage, other in zip(plain.stages, optimised.stages, strict=True)
        if stage.key_argv != other.key_argv
    }
    assert changed == {"host_preprocess", "device_preprocess", "host_compile"}


def test_an_option_of_ptxas_changes_only_words_of_ptxas_and_fatbinary(plans):
    changed = {
        stage.kind
        for stage, other in zip(plans["c_arch_sm80"].stages, plans["xptxas"].stages, strict=True)
        if stage.key_argv != other.key_argv
    }
    assert changed == {"ptxas", "fatbinary"}


def _key_words(plan: Plan, kind: str, word: str = "") -> list[str]:
    (found,) = [
        stage.key_argv for stage in plan.stages if stage.kind == kind and (not word or word in stage.key_argv)
    ]
    return list(found)


@pytest.mark.parametrize(
    "argv",
    [
        ["-c", "a.cu"],
        ["-c", "a.cu", "-arch=sm_80", "-o", "out/x y.o"],
        ["-c", "-gencode", "arch=compute_80,code=[sm_80,sm_86]", "a.cu"],
        ["-c", "-gencode=arch=compute_90,code=[compute_90,sm_90]", "a.cu"],
        ["-dc", "-G", "-lineinfo", "a.cu"],
        ["-dc", "-dlto", "-arch=sm_80", "a.cu"],
        ["-ptx", "-arch=sm_90", "a.cu"],
        ["-cubin", "a.cu", "-odir", "out"],
        ["-fatbin", "-arch=all-major", "a.cu"],
        ["-optix-ir", "a.cu"],
        ["-MD", "-MF", "x.d", "-c", "a.cu", "b.cu", "c.cpp"],
        ["-c", "sp ace/a b.cu"],
        ["-c", "ünï.cu"],
        ["-cubin", "e.ptx"],
        ["-fatbin", "f.cubin"],
    ],
    ids=" ".join,
)
def test_recordings_without_keep_are_read_as_nvcc_writes_them_with_keep(nvcc, tmp_path, argv):
    def ask(*more):
        done = subprocess.run(
            [nvcc, "--dryrun", *argv, *more], cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True, check=True,
        )  # fmt: skip
        return done.stderr

    adapted = dryrun.read(recordings.kept(ask(), str(tmp_path)))
    asked = dryrun.read(ask("-keep", "-keep-dir", recordings.SCRATCH))
    assert isinstance(adapted, Transcript)
    assert isinstance(asked, Transcript)
    assert [_parts_of(step) for step in adapted.steps] == [_parts_of(step) for step in asked.steps]
    for name in ("variables", "messages", "removed"):
        assert getattr(adapted, name) == getattr(asked, name)
    assert any(isinstance(step, Command) for step in asked.steps)


def _parts_of(step):
    return step.argv if isinstance(step, Command) else step.path
