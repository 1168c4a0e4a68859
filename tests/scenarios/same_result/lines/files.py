"""Command lines: where the products go, and dependency files."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_OUTPUTS = (
    Line("no_output", "-c a.cu"),
    Line("output_directory", "-odir out -c a.cu b.cu", prepare="mkdir out"),
    Line("output_directory_missing", "-odir out -c a.cu", "bypass:unwritable_output"),
    Line("output_null", "-c a.cu -o /dev/null"),
    Line("depfile_null", "-c a.cu -o a.o -MMD -MF /dev/null"),
    Line("output_standard", "-ptx a.cu -o -", "bypass:standard_output"),
    Line("output_nowhere", "-ptx a.cu -o no/such/directory/a.ptx", "bypass:unwritable_output"),
    Line("output_unwritable", "-c a.cu -o /sys/a.o", "bypass:unwritable_output"),
    Line("output_is_directory", "-c a.cu -o a.o", "bypass:unwritable_output", prepare="mkdir a.o"),
    Line("output_is_link", "-c a.cu -o a.o", prepare="echo other >b.o; ln -s b.o a.o"),
    Line("output_is_dangling_link", "-ptx a.cu -o a.o", "bypass:unwritable_output", prepare="ln -s b.o a.o"),
    Line("output_is_empty", "-c a.cu -o a.o", prepare="touch b.o; ln b.o a.o; chmod 600 a.o"),
    Line("output_is_hard_link_ptx", "-ptx a.cu", prepare="echo other >b; ln b a.ptx"),
    Line("output_is_read_only", "-c a.cu -o a.o", prepare="echo old >a.o; chmod 444 a.o"),
    Line("output_is_source", "-c a.cu -o a.cu", "stage_hit"),  # no record of it: its product is what it read
)

_DEPENDENCIES = (
    Line("mmd_mp", "-MMD -MP -MF dep.d -cubin headers.cu -o h.cubin"),
    Line("md_mp_mt", "-MD -MP -MT 'my target' -MF 'my dep.d' -c headers.cu -o h.o"),
    Line("md_long", "--generate-dependencies-with-compile --dependency-output dep.d -fatbin headers.cu"),
    Line("md_device_c", "-MD -MT h.o -MF h.o.d -dc headers.cu -o h.o", is_shim=True),
    Line("mmd_cpp_and_cu", "-MMD -c host.cpp a.cu", "stage_hit"),
    Line("mf_alone", "-MF dep.d -c headers.cu -o h.o", "bypass:dryrun_failed"),
    Line("md_nowhere", "-MD -MF no/dep.d -c headers.cu -o h.o", "bypass:unwritable_output"),
    Line("md_compile_fails", "-MD -MF dep.d -c device_error.cu -o h.o", "failed"),
    Line("m", "-M headers.cu", "query_miss"),
    Line("mm", "-MM headers.cu -o h.d", "query_miss"),
    Line("include_relative", "-I include -I. -cubin included.cu -o h.cubin"),
    Line("include_equals", "-I=include --include-path . -MMD -c included.cu"),
    Line("include_system", "-isystem include -I'sub dir' -MMD -ptx included.cu"),
    Line("include_file", "-include one.h -include=./main.cu -MMD -c a.cu", sources=("main.cu",)),
)

LINES = (*_OUTPUTS, *_DEPENDENCIES)
