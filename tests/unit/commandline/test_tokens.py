"""The table of nvcc's options, and the splitting of arguments, against a real nvcc."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from nvccache.commandline import options, tokens
from nvccache.commandline.tokens import FORWARDED, UnknownOption

DOCUMENTED = re.compile(r"^--(\S+)\s*(.*?)\s+\(?(--?[^()\s]+)\)?\s*$", re.MULTILINE)


def split(argv):
    found = tokens.scan(argv)
    return found if isinstance(found, UnknownOption) else tokens.resolve(found)


@pytest.fixture(scope="module")
def nvcc(real_nvcc):
    return real_nvcc


def _dryrun(nvcc, argv, cwd, **variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NVCC_")}
    environ.update(variables)
    return subprocess.run(
        [nvcc, "--dryrun", *argv],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _many(nvcc, calls, cwd):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda argv: _dryrun(nvcc, argv, cwd), calls))


def _documented(nvcc):
    text = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
    return [(long, meta, short) for long, meta, short in DOCUMENTED.findall(text)]


def _defines(stderr):
    return re.findall(r'-D ?"(X[^_]*?)"(?= -|$)', stderr, re.MULTILINE)


def test_every_option_that_nvcc_documents_is_known(nvcc):
    documented = _documented(nvcc)
    assert len(documented) > 100
    for long, _, short in documented:
        assert options.SPELLINGS.get("--" + long) == long
        if (long, short) == ("host-relocatable-link", "-r"):
            continue  # until CUDA 12, when the short name moved to another option; both only affect a link
        assert options.SPELLINGS.get(short) == long


@pytest.mark.full
def test_each_option_takes_a_value_or_a_list_where_nvcc_takes_one(nvcc, tmp_path):
    documented = _documented(nvcc)
    results = _many(nvcc, [["-c", "a.cu", "--" + long] for long, _, _ in documented], tmp_path)
    for (long, meta, _), result in zip(documented, results, strict=True):
        takes_value = f"argument expected after '--{long}'" in result.stderr
        expected = (options.VALUE, options.LIST) if takes_value else (options.SWITCH, options.OPTIONAL)
        assert options.ARITIES[long] in expected, long
        assert (options.ARITIES[long] == options.LIST) == (",..." in meta), long


def test_aliases_and_lists_of_options_name_only_options_of_the_table():
    spelled = set(options.ARITIES)
    assert set(options.ALIASES) | set(options.ALIASES.values()) <= spelled
    assert (
        set(options.GLUED_TEXT.values()) | set(options.GLUED_NUMBER.values()) | options.PATH_LISTS <= spelled
    )
    assert not {word.lstrip("-") for word in options.SPELLINGS} & options.UNSUPPORTED


# Added to `-c a.cu`: our names of the options -> words that are split into them, as nvcc does.
SPLIT = {
    "optimize": "-O3; -O 3; -O=3; --optimize=3; --optimize 3",
    "std": "-std=c++17; -std c++17; --std c++17",
    "m64": "-m64",
    "machine": "-m 64",
    "define-macro undefine-macro include-path library-path library": "-DX -UX -Iinc -Llib -lm",
    "define-macro undefine-macro include-path": "-D X -U X -I i",
    "define-macro include-path": "-D=X -I=i",
    "include-path": "-I -E",
    "system-include": "-isystem i",
    "compiler-options": "-Xcompiler=-g,-O2; -Xcompiler -g; --compiler-options -g",
    "Werror": "-Werror all-warnings; -Werror=reorder",
    "x": "-x cu; -x=cu",
    "output-file": "-o k.o; -o -E",
    "relocatable-device-code": "-rdc=true; -rdc false",
    "generate-line-info": "-lineinfo",
    "library": "-lineinfox",
    "generate-code": "-gencode=arch=compute_80,code=sm_80",
    "no-align-double": "--no-align-double",
    "cudafe-options": "-Xcudafe --diag_suppress=177",
    "generate-dependencies-with-compile dependency-target-name dependency-output "
    "generate-dependency-targets": "-MD -MT t -MF f.d -MP",
    f"{FORWARDED} forward-unknown-to-host-compiler": "-Wall -forward-unknown-to-host-compiler",
    f"forward-unknown-opts {FORWARDED} {FORWARDED}": """
        -forward-unknown-opts -march=native -g3; -forward-unknown-opts -- --coverage
    """,
}
REFUSED = """
    -Os; -O3x; --O3; -tdump1; -stdc++17; -m63; -isystemi; -Xcompiler-g; -Wall; -xcu; -ok.o; -lineinfo=1; -G=1;
    -dlto=; --c; -compile; --gencode arch=compute_80,code=sm_80; -generate-code arch=compute_80,code=sm_80;
    -output-file k.o; --; --=; -no-align-double; -MQ t; -forward-unknown-opts -Os; -forward-unknown-opts -G=1
"""
SPELLINGS = [(line.split(), names.split()) for names, lines in SPLIT.items() for line in lines.split(";")]
SPELLINGS += [(line.split(), None) for line in REFUSED.split(";")] + [(["-g "], None)]


@pytest.mark.parametrize(("argv", "names"), SPELLINGS, ids=[" ".join(argv) for argv, _ in SPELLINGS])
def test_each_spelling_of_an_option_is_recognized_or_refused(argv, names):
    found = split([*argv, "-c", "a.cu"])
    if names is None:
        assert isinstance(found, UnknownOption)
    else:
        assert not isinstance(found, UnknownOption)
        assert [argument.name for argument in found] == [*names, "compile", ""]
        assert [token for argument in found for token in argument.tokens] == [*argv, "-c", "a.cu"]


def test_nvcc_itself_accepts_and_refuses_the_same_spellings(nvcc, tmp_path):
    results = _many(nvcc, [[*argv, "-c", "a.cu"] for argv, _ in SPELLINGS], tmp_path)
    for (argv, names), result in zip(SPELLINGS, results, strict=True):
        assert (result.returncode == 0) == (names is not None), (argv, result.stderr[-300:])


@pytest.mark.parametrize("word", ["-o", "-D", "-std", "--gpu-architecture", "-MF", "-Xcompiler", "-t"])
def test_an_option_whose_value_is_missing_at_the_end_is_refused(word):
    assert isinstance(split(["-c", "a.cu", word]), UnknownOption)


def test_an_empty_value_behind_an_equals_sign_is_refused():
    assert isinstance(split(["-o=", "k", "-c", "a.cu"]), UnknownOption)
    assert isinstance(split(["-D=", "X", "-c", "a.cu"]), UnknownOption)


@pytest.mark.parametrize("name", ["-hls", "-Ofc"])
def test_an_option_with_an_optional_value_is_refused_without_an_equals_sign(name):
    assert [a.value for a in split([f"{name}=v", "a.cu"])] == ["v", "a.cu"]
    for words in ([name, "v", "a.cu"], [name, "-c", "a.cu"], ["a.cu", name]):
        assert isinstance(split(words), UnknownOption)


@pytest.mark.parametrize("name", sorted(options.UNSUPPORTED))
def test_options_of_unknown_effect_are_refused_even_where_unknown_ones_are_forwarded(name):
    for word in (f"-{name}", f"--{name}", f"--{name}=1"):
        assert isinstance(split(["-forward-unknown-opts", word, "-c", "a.cu"]), UnknownOption)


@pytest.mark.parametrize("word", ["a.cu", "a.o", "-", "", "@x", "=", "'-g'", " -g"])
def test_words_that_do_not_begin_with_a_dash_are_inputs(word):
    (found,) = split([word])
    assert (found.name, found.value, found.tokens) == ("", word, (word,))


LISTS = [
    ("-a,-b", ["-a", "-b"]),
    (r"-a\,-b", ["-a,-b"]),
    ('"-a,-b"', ['"-a,-b"']),
    ("'-a,-b'", ["'-a", "-b'"]),
    ('-a,"-b,-c",-d', ["-a", '"-b,-c"', "-d"]),
    (r"-a\\,-b", ["-a\\", "-b"]),
    (r"-a\-b", ["-a-b"]),
    ("-a,,-b,", ["-a", "-b"]),
    ("-a -b", ["-a -b"]),
    (r"-DX=\"q\"", ['-DX="q"']),
    ('-a"x,-b', None),
    ("-a\\", None),
    ("-a=[x,y]", None),  # CUDA 11.2: `-a=x,y`
]


@pytest.mark.parametrize(("text", "elements"), LISTS)
def test_a_list_of_host_compiler_options_is_split_at_commas_outside_quotes(text, elements):
    for words in (["-Xcompiler", text], [f"-Xcompiler={text}"]):
        found = tokens.values(split(words), "compiler-options")
        if elements is None:
            assert isinstance(found, UnknownOption) and found.token == words[0]
        else:
            assert found == elements


def test_nvcc_itself_splits_lists_of_host_compiler_options_the_same_way(nvcc, tmp_path):
    cases = [(text, elements) for text, elements in LISTS if "[" not in text]
    results = _many(nvcc, [["-Xcompiler", text, "-c", "a.cu"] for text, _ in cases], tmp_path)
    for (text, elements), result in zip(cases, results, strict=True):
        assert (result.returncode == 0) == (elements is not None), text
        if elements is not None:
            assert f"-D__NVCC__ {' '.join(elements)} " in re.sub(" +", " ", result.stderr), text


def test_a_backslash_in_a_list_of_include_paths_escapes_nothing(nvcc, tmp_path):
    found = split(["-Ia\\,b", "-I", '"c,d"'])
    assert tokens.values(found, "include-path") == ["a\\", "b", "c,d"]
    stderr = _dryrun(nvcc, ["-Ia\\,b", "-I", '"c,d"', "-c", "a.cu"], tmp_path).stderr
    assert '-I"a\\" -I"b" -I"c,d"' in stderr


VARIABLES = [
    ("-DX1 -DX2", ["-DX1", "-DX2"]),
    ("  -DX1\t-DX2 ", ["-DX1", "-DX2"]),
    ("-DX='a", ["-DX='a"]),
    ("-DX='a b'", ["-DX='a", "b'"]),
    ('-DX="a b"', ['-DX="a b"']),
    ('"-DX=1 2"', ['"-DX=1 2"']),
    ("", []),
    ('""', ['""']),
]


@pytest.mark.parametrize(("text", "argv"), VARIABLES)
def test_nvcc_flags_variables_are_split_at_blanks_as_by_nvcc(text, argv, nvcc, tmp_path):
    assert tokens.split_variable(text) == argv
    (tmp_path / "a.cu").touch()
    read = _dryrun(nvcc, ["-E", "a.cu"], tmp_path, NVCC_APPEND_FLAGS=text)
    typed = _dryrun(nvcc, ["-E", "a.cu", *argv], tmp_path)
    assert read.returncode == typed.returncode
    assert _defines(read.stderr) == _defines(typed.stderr)


@pytest.mark.parametrize("text", ["-DX=a\\ b", '-DX=\\"a\\"', '-DX="a'])
def test_nvcc_flags_variables_with_ambiguous_quotes_are_refused(text):
    assert tokens.split_variable(text) is None


FILES = [
    ("-DX1 -DX2", ["-DX1", "-DX2"]),
    ("-DX1\r\n\n\t-DX2\n", ["-DX1", "-DX2"]),
    ('-DX="a b"', ["-DX=a b"]),
    ('"-DX=1 2" -DX3', ["-DX=1 2", "-DX3"]),
    ("-DX='a b'", ["-DX='a", "b'"]),
    ('-DX"1"2', ["-DX12"]),
    ('"-D" X', ["-D", "X"]),
    ("# -DX", ["#", "-DX"]),
    ('""', [""]),
    ("", []),
]


@pytest.mark.parametrize(("text", "argv"), FILES)
def test_option_files_are_split_at_white_space_and_lose_quotes(text, argv, nvcc, tmp_path):
    assert tokens.split_file(text) == argv
    (tmp_path / "opts").write_bytes(text.encode())
    read = _dryrun(nvcc, ["-optf", "opts", "-E", "a.cu"], tmp_path)
    typed = _dryrun(nvcc, [*argv, "-E", "a.cu"], tmp_path)
    assert read.returncode == typed.returncode
    assert _defines(read.stderr) == _defines(typed.stderr)


@pytest.mark.parametrize("text", ["-DX\\ b", '-DX="a', "-DX\0"])
def test_option_files_with_ambiguous_quotes_are_refused(text):
    assert tokens.split_file(text) is None
