"""Lines that keep intermediate files."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

TWO = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"

# Intermediate files are not in a record, so that such calls are made of stages at best.
LINES = (
    Line("keep", "-keep -c a.cu -o a.o", "stage_hit"),
    Line("keep_directory", "-keep -keep-dir k -c a.cu", "stage_hit", prepare="mkdir k"),
    Line("keep_directory_missing", "-keep --keep-dir=kept -c a.cu", "bypass:unwritable_output"),
    Line("keep_directory_alone", "--keep-dir=kept -c a.cu"),
    Line("keep_directory_twice", "-keep -keep-dir k -keep-dir l -c a.cu", "bypass:irremovable_option"),
    Line("keep_variable", "-c a.cu", "stage_hit", environ={"NVCC_APPEND_FLAGS": "-keep"}),
    Line("keep_two", f"-keep -c a.cu {TWO}", "stage_hit", prepare="echo old >a.ptx; ln a.ptx b.ptx"),
    Line("keep_without_external_definition", "-keep -arch=sm_80 -cubin internal.cu", "stage_hit"),
    Line("keep_dependencies", "-keep -MD -c headers.cu -o h.o", "stage_hit"),
    Line("keep_debug", "-keep -g -c a.cu", "bypass:keeps_intermediates", names_keep_directory=True),
    Line("keep_link", "-keep -rdc=true device_link.cu device_part.cu -o x", "stage_hit"),
    Line("keep_and_cpp", "-keep -c a.cu host.cpp", "bypass:keeps_intermediates"),
    Line("keep_warning", "-keep -c device_warning.cu -Xcompiler -Wall", "stage_hit"),
    Line("keep_device_error", "-keep -c device_error.cu", "failed"),
    Line("save_temps", "-save-temps -ptx a.cu", "stage_hit"),
    Line("objtemp", "-objtemp -c a.cu -o a.o", "bypass:keeps_intermediates", since=(11, 3)),
)
