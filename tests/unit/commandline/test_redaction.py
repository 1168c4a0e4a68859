"""Command lines as they are shown and stored: without values of macros."""

from __future__ import annotations

import pytest

from nvccache.commandline import redaction


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["-gencode=arch=compute_80,code=sm_80", "-o", "a.o"], "-gencode=arch=compute_80,code=sm_80 -o a.o"),
        (["-DNDEBUG", "-Iinclude", "-I/opt/a=b", "a-DX=1.cu"], "-DNDEBUG -Iinclude -I/opt/a=b a-DX=1.cu"),
        (["-DKEY=s3cret", "-D", "KEY=s3cret"], "-DKEY=… -D KEY=…"),
        (["--define-macro=KEY=s3cret"], "--define-macro=KEY=…"),
        (["--define-macro", "A=1,KEY=s3cret"], "--define-macro A=…"),
        (["-Xcompiler=-fPIC,-DKEY=s3cret,-Wall"], "-Xcompiler=-fPIC,-DKEY=…"),
        (["-Xcompiler", '-DKEY="s3cret, and more" -O2', '-DKEY="a,s3cret"'], "-Xcompiler -DKEY=… -DKEY=…"),
        (["-c", "a.cu", "--no-such=x", "-gencode=", "-DKEY=s3cret"], "-c a.cu --no-such=x -DKEY=…"),
        (["-D", "K s3cret"], "-D K…"),
        (["-DK  s3cret"], "-DK…"),
        (["--define-macro=K\ts3cret"], "--define-macro=K…"),
        (["-DF(a, b)=s3cret"], "-DF(a, b)=…"),
        (["-DF('s3cret') s3cret"], "-DF…"),
    ],
)  # fmt: skip
def test_values_of_macros_are_hidden(argv, shown):
    found = [redaction.shown(argument) for argument in redaction.arguments_of(argv)]
    assert " ".join(found) == shown


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("--token=s3cret", "--token=…"),
        ("-x s3cret", "-x…"),
        ("-pthread", "-pthread"),
        ("no command writes the product", "no command writes the product"),
        ('gcc -D"KEY=s3 \\"cret" -E', 'gcc -D"KEY=…'),
        ("gcc -D 'K s3 cret' -c", "gcc -D 'K…"),
    ],
)
def test_bypass_details_show_no_option_values(detail, shown):
    """It may come from an option file."""
    assert redaction.hide_detail(detail) == shown


def test_values_of_macros_are_hidden_in_messages():
    argv = ["-DKEY=s3cret", '-DTOKEN="top s3cret2"', "-DX=1", "-DNDEBUG", "--no-such", "-c", "a.cu"]
    text = "KeyError: 's3cret' in a.cu, line 1\n-DTOKEN=\"top s3cret2\" NDEBUG"
    assert redaction.hide_values(text, argv) == "KeyError: '…' in a.cu, line 1\n-DTOKEN=… NDEBUG"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["-arch", "compute_80", "-O3", "-maxreg", "32"], ["-arch compute_80", "-O3", "-maxreg 32"]),
        (["-D__CUDA_ARCH__=800", "-DN=s3cret", "-DN"], ["-D__CUDA_ARCH__=800", "-DN=…", "-DN"]),
        (["-D", "KEY=s3cret", "-D", "F(a,b)=s3cret"], ["-DKEY=…", "-DF(a,b)=…"]),
        (["-x", "c++", "-E", "a.cu", "-fopenmp", "<ptx>"], ["-x c++", "-E", "a.cu", "-fopenmp", "<ptx>"]),
        (["-I/x", "-I", "/y", "out"], ["-I/x", "-I /y", "out"]),
        (["-o"], ["-o"]),
        ([""], [""]),
    ],
)  # fmt: skip
def test_a_tools_options_are_shown_with_their_values(argv, shown):
    found = redaction.redacted_command(argv)
    assert [text for text, _ in found] == shown
    assert " ".join(whole for _, whole in found) == " ".join(argv)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--define-macro", "KEY=s3cret", "-D", "N s3cret"], ["-DKEY=…", "-DN…"]),
        (["-Xcompiler=-O2,-DKEY=s3cret", "--optimize=2"], ["-Xcompiler -O2,-DKEY=…", "-O2"]),
        (["--gpu-architecture", "sm_80", "-x", "cu", "-G"], ["-arch=sm_80", "-x=cu", "-G"]),
        (["a.cu", "-fmade-up"], ["a.cu", "-fmade-up"]),
    ],
)
def test_arguments_of_a_key_are_shown_in_their_usual_spelling(argv, shown):
    parts = [
        each.tokens if each.value is None else (each.name, each.value)
        for each in redaction.arguments_of(argv)
    ]
    assert [redaction.redacted_argument(each)[0] for each in parts] == shown


def test_inputs_are_known_by_their_endings_in_lines_that_nvcc_would_not_understand():
    argv = ["-E", "a.cu", "-DKEY=b.cu", "-Xcompiler", "c.cu", "secret", "--no-such-option", "sub/d.o"]
    assert redaction.files_in(argv) == ["a.cu", "sub/d.o"]
