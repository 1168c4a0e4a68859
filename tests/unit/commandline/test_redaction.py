"""Command lines as they are shown and stored: without possible secrets."""

from __future__ import annotations

import pytest

from nvccache.commandline import redaction


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("-c a.cu -o dir/a.o", "-c a.cu -o dir/a.o"),
        ("-gencode=arch=compute_80,code=sm_80 -std=c++17", "-gencode=arch=compute_80,code=sm_80 -std=c++17"),
        ("-DNDEBUG -Iinclude -I/opt/a=b", "-DNDEBUG -Iinclude -I/opt/a=b"),
        ("-DKEY=s3cret -D KEY=s3cret", "-DKEY=… -D KEY=…"),
        (
            "--define-macro=KEY=s3cret --define-macro A=1,KEY=s3cret",
            "--define-macro=KEY=… --define-macro A=…",
        ),
        ("-Xcompiler -fPIC,-Wall -Xptxas -O2", "-Xcompiler -fPIC,-Wall -Xptxas -O2"),
        ("-Xcompiler=-fPIC,-DKEY=s3cret,-Wall", "-Xcompiler=-fPIC,-DKEY=…"),
        ("-Xcompiler --token,s3cret", "-Xcompiler --token,…"),
        ("-Xlinker s3cret", "-Xlinker …"),
        ("--token=s3cret -c a.cu", "--token=… -c a.cu"),
        ("-c a.cu --no-such=s3cret -DKEY=s3cret -o", "-c a.cu --no-such=… -DKEY=… -o"),
        ("--token s3cret -c a.cu", "--token … -c a.cu"),
        ("-pthread a.cu -c", "-pthread a.cu -c"),
        ("-D", "-D"),
        ("-gencode= a.cu", "-gencode=… a.cu"),
    ],
)
def test_values_of_macros_and_of_words_for_other_programs_are_hidden(line, shown):
    assert " ".join(redaction.line(line.split())) == shown


def test_words_with_blanks_and_quotes(
    line=("-Xcompiler", '-DKEY="s3cret, and more" -O2', '-DKEY="a,s3cret"'),
):
    assert redaction.line(line) == ["-Xcompiler -DKEY=…", "-DKEY=…"]


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["-D", "K s3cret"], "-D K…"),
        (["-DK  s3cret"], "-DK…"),
        (["--define-macro=K\ts3cret"], "--define-macro=K…"),
        (["-DF(a, b)=s3cret"], "-DF(a, b)=…"),
        (["-DF(a, ...) s3cret"], "-DF(a, ...)…"),
        (["-DF('s3cret') s3cret"], "-DF…"),
    ],
)
def test_a_blank_separates_a_macro_from_its_value(argv, shown):
    assert redaction.line(argv) == [shown]
    assert "s3cret" not in redaction.hide("gcc: s3cret", argv, {})


def test_a_text_is_shown_without_what_the_line_hides():
    argv = ["-DKEY=s3cret", "-Xcompiler", '-DTOKEN="top s3cret2"', "-DX=1", "-DNDEBUG", "-c", "a.cu"]
    environ = {"NVCC_APPEND_FLAGS": "-DOTHER=s3cret3 -O1", "HOME": "/x"}
    text = "KeyError: 's3cret' in a.cu, line 1\n-DOTHER=s3cret3 top s3cret2 'top' NDEBUG"
    assert redaction.hide(text, argv, environ) == "KeyError: '…' in a.cu, line 1\n-DOTHER=… … 'top' NDEBUG"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cicc -DKEY=s3cret -o x", "cicc -DKEY=… -o x"),
        ('gcc -D"KEY=s3 \\"cret" -D KEY="s3 cret"x -E', 'gcc -D"KEY=…" -D KEY=… -E'),
        ("gcc -D 'K s3 cret' -DK\\ s3\\ cret -c -DF\\(a\\)=s3", "gcc -D 'K …' -DK\\ … -c -DF\\(a\\)=…"),
        ("gcc -DA -DB 'a b' -D \"C\" d", "gcc -DA -DB 'a b' -D \"C\" d"),
        ("gcc -D'KEY=s3 cret' -DA -DF(x)=s3", "gcc -D'KEY=…' -DA -DF(x)=…"),
    ],
)
def test_macros_in_the_text_of_a_command_are_hidden(text, shown):
    """Those of an option file are not among the call's arguments."""
    assert redaction.hide(text, ["-optf", "flags"], {}) == shown


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["-arch", "compute_80", "-arch=sm_80"], ["-arch compute_80", "-arch=sm_80"]),
        (["-maxreg", "32", "-maxrregcount=32", "-ftz=0"], ["-maxreg 32", "-maxrregcount=32", "-ftz=0"]),
        (["-D__CUDA_ARCH__=800", "-DN=s3cret", "-DN"], ["-D__CUDA_ARCH__=800", "-DN=…", "-DN"]),
        (["-D", "KEY=s3cret", "-D", "F(a,b)=s3cret"], ["-DKEY=…", "-DF(a,b)=…"]),
        (["--token=s3cret", "-Wl,--token", "-fopenmp"], ["--token=…", "-Wl…", "-fopenmp"]),
        (["--token", "s3cret", "a.cu", "<ptx>"], ["--token", "…", "a.cu", "<ptx>"]),
        (["-I/x", "-I", "/y", "-isystem", "/z"], ["-I/x", "-I /y", "-isystem /z"]),
        (["--image3=kind=elf,sm=80,file=<input>"], ["--image3=kind=elf,sm=80,file=<input>"]),
        (["-o"], ["-o "]),
        ([""], [""]),
    ],
)
def test_of_tool_words_as_much_is_shown_as_far_as_they_are_known(argv, shown):
    found = redaction.of_tool(argv)
    assert [known for known, _ in found] == shown
    assert all(part in " ".join(whole for _, whole in found) for part in argv)


def test_inputs_are_known_by_their_endings_in_lines_that_nvcc_would_not_understand():
    argv = ["-E", "a.cu", "-DKEY=b.cu", "-Xcompiler", "c.cu", "secret", "--no-such-option", "sub/d.o"]
    assert redaction.files_in(argv) == ["a.cu", "sub/d.o"]
