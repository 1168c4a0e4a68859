"""Lines that keep intermediate files."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

LINES = (
    Line("keep", "-keep -c a.cu -o a.o", "bypass:keeps_intermediates"),
    Line(
        "keep_directory", "-save-temps -keep-dir k -c a.cu", "bypass:keeps_intermediates", prepare="mkdir k"
    ),
    Line("debug_host", "-g -c a.cu -o a.o", names_keep_directory=True),
    Line("keep_directory_alone", "--keep-dir=kept -ptx a.cu", "bypass:keeps_intermediates"),
    Line("keep_variable", "-c a.cu", "bypass:keeps_intermediates", environ={"NVCC_APPEND_FLAGS": "-keep"}),
    Line("objtemp", "-objtemp -c a.cu -o a.o", "bypass:keeps_intermediates", since=(11, 3)),
)
