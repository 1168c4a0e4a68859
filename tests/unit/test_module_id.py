"""Module ids: the formula, checked with a real nvcc, and replacements for time and process id."""

from __future__ import annotations

import re
import subprocess
import zlib

import pytest

from nvccache import module_id as ids
from nvccache.module_id import Seed
from nvccache.toolkit.discovery import release_of

SEED = Seed("0123456789abcdef0123456789abcdef")
WITH_PROCESS = b"_d0b51fe3_8_noext_cu_52b7d33d_26168"
WITH_FUNCTION = b"_6925ab81_4_a_cu__Z1kPi"
KERNEL = "__global__ void k(int *p) { *p = 1; }\n"
INTERNAL = "static __device__ int v;\nstatic __global__ void k(int *p) { *p = v; }\n"


@pytest.fixture
def identify(nvcc, tmp_path):
    """The id that the real nvcc gives a unit, and the path of its source."""

    def compile_unit(text: str, name: str = "unit.cu", *options: str) -> tuple[bytes, str]:
        source = tmp_path / name
        source.write_text(text)
        argv = [nvcc, "-cubin", str(source), "-keep", "-keep-dir", str(tmp_path), *options]
        subprocess.run([*argv, "-o", str(tmp_path / "out")], cwd=tmp_path, check=True)
        (found,) = tmp_path.glob("*.module_id")
        return found.read_bytes(), str(source)

    return compile_unit


def _head(path: str) -> bytes:
    base = path.rpartition("/")[2]
    return f"_{zlib.crc32(path.encode()):08x}_{len(base)}_{re.sub('[^A-Za-z0-9]', '_', base)}_".encode()


def test_a_unit_with_an_external_definition_is_named_after_path_and_definition(identify):
    identifier, path = identify(KERNEL)
    assert identifier == _head(path) + b"_Z1kPi"


def test_a_long_name_stands_there_as_its_checksum(identify):
    identifier, path = identify("void a_long_name() {}\n", "two-part name.cu")
    assert identifier == _head(path) + b"%08x" % zlib.crc32(b"_Z11a_long_namev")


def test_a_unit_without_an_external_definition_is_named_after_its_process(identify):
    identifier, path = identify(INTERNAL)
    assert ids.replace_process_id(identifier, SEED) == _head(path) + SEED.rest


@pytest.mark.parametrize(
    ("text", "rest", "depends"),
    [(INTERNAL, b"%08x" % zlib.crc32(SEED.text.encode()), True), (KERNEL, b"_Z1kPi", False)],
    ids=["internal", "external"],
)
def test_a_seed_takes_the_place_of_time_and_process_and_of_no_definition(identify, nvcc, text, rest, depends):
    if not ids.takes_seed(int(release_of(nvcc).partition(".")[0])):
        pytest.skip("this toolkit takes no seed")
    identifier, path = identify(text, "unit.cu", f"-frandom-seed={SEED.text}")
    assert identifier == _head(path) + rest
    assert ids.depends_on_seed(identifier, SEED) is depends


def test_only_time_and_process_are_replaced():
    assert ids.replace_process_id(WITH_PROCESS, SEED) == b"_d0b51fe3_8_noext_cu_" + SEED.rest
    looks_alike = b"_6925ab81_20_x_12345678_99_aaa_cu__Z1kPi"  # its base name does
    for other in (WITH_FUNCTION, b"_2d45478c_5_h1_cu_f0cc2416", looks_alike):
        assert ids.replace_process_id(other, SEED) is None


@pytest.mark.parametrize("identifier", [b"", b"_6925ab81_4_a_cu", b"something else", b"_6925ab81_4_a_cu_"])
def test_an_id_of_another_form_is_not_understood(identifier):
    assert ids.is_understood(WITH_PROCESS) and ids.is_understood(WITH_FUNCTION)
    assert not ids.is_understood(identifier)
    assert ids.replace_process_id(identifier, SEED) is None


def test_names_made_of_an_id_with_a_process_are_seen_in_a_text():
    text = b".func _ZN43_INTERNAL_089df867_7_anon_cu_2e7bb2d0_2882445_GLOBAL__N__089df867_7_anon_cu_2gEi("
    assert ids.contains_process_id(text)
    assert not ids.contains_process_id(b".entry _Z1kPi( .param .u64 _Z1kPi_param_0 ) // 12345678_1")
    assert not ids.contains_process_id(b"_ZN33_INTERNAL_2d45478c_5_h1_cu_f0cc24166helperEi")
    nested = b"_ZN37_INTERNAL_1d37e57a_5_dv_cu__Z4lastv37_GLOBAL__N__1d37e57a_5_dv_cu__Z4lastv1vE"
    assert not ids.contains_process_id(nested)


def test_the_seed_is_made_of_source_products_options_and_text():
    seeds = {
        ids.seed_of(source, products, options, texts).text
        for source in ("/p/a.cu", "/p/b.cu")
        for products in (["/p/a.o"], ["/p/b.o"], ["/p/a.o", "/p/b.o"])
        for options in ([], ["-DA=1"], ["-DA=2"], ["-D", "A=1"])
        for texts in ([], ["one"], ["two"], ["one", "two"])
    }
    assert len(seeds) == 2 * 3 * 4 * 4
    assert all(re.fullmatch("[0-9a-f]{32}", seed) for seed in seeds)


def test_the_toolkit_tells_its_version_to_the_preprocessor():
    assert ids.toolkit_version(["gcc", "-D__CUDACC_VER_MAJOR__=13"]) == 13
    assert ids.toolkit_version(["gcc", "-D__CUDACC_VER_MAJOR__=x"]) == 0
    assert ids.toolkit_version(["gcc"]) == 0


def test_a_seed_is_given_to_cuda_13_and_later():
    assert [ids.takes_seed(version) for version in (0, 11, 12, 13, 14)] == [False] * 3 + [True] * 2


def test_the_words_with_a_seed_name_it_first():
    assert ids.with_seed(["cudafe++", "-x"], SEED) == ["cudafe++", "--frandom-seed", SEED.text, "-x"]


def test_the_words_that_read_the_id_are_those_that_write_it_without_one():
    argv = ["cudafe++", "--gen_module_id_file", "--module_id_file_name", "f"]
    assert ids.without_generating(argv) == ["cudafe++", "--module_id_file_name", "f"]
