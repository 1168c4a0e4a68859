"""Command lines as they are shown and stored: without values of macros."""

from __future__ import annotations

import pytest

from nvccache.commandline import redaction


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_80,code=sm_80"),
        ("-DNDEBUG", "-DNDEBUG"),
        ("-I/opt/a=b", "-I/opt/a=b"),
        ("a-DX=1.cu", "a-DX=1.cu"),
        ("-DKEY=s3cret", "-DKEY=…"),
        ("-D KEY=s3cret", "-D KEY=…"),
        ("--define-macro=KEY=s3cret", "--define-macro=KEY=…"),
        ("-DA=1,KEY=s3cret", "-DA=…"),
        ("-Xcompiler -fPIC,-DKEY=s3cret,-Wall", "-Xcompiler -fPIC,-DKEY=…"),
        ('-Xcompiler -DKEY="s3cret, and more" -O2', "-Xcompiler -DKEY=…"),
        ("-DK  s3cret", "-DK…"),
        ("--define-macro=K\ts3cret", "--define-macro=K…"),
        ("-DF(a, b)=s3cret", "-DF(a, b)=…"),
        ("-DF('s3cret') s3cret", "-DF…"),
        ("RuntimeError: ['-c', '-DKEY=s3cret', 's3cret']", "RuntimeError: ['-c', '-DKEY=…"),
    ],
)
def test_macro_values_are_hidden_in_shown_arguments(text, shown):
    assert redaction.hide(text) == shown


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("--token=s3cret", "--token=…"),
        ("-x s3cret", "-x…"),
        ("-pthread", "-pthread"),
        ("no command writes the product", "no command writes the product"),
        ('gcc -D"KEY=s3 \\"cret" -E', 'gcc -D"KEY=…'),
    ],
)
def test_bypass_details_show_no_option_values(detail, shown):
    """It may come from an option file."""
    assert redaction.hide_detail(detail) == shown
