"""Command lines: what is printed, what fails, and what is left to nvcc."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_DIAGNOSTICS = (
    Line("ptxas_verbose", "-Xptxas -v -c b.cu"),
    Line("resource_usage_two", "--resource-usage -arch=compute_80 -code=sm_80,sm_86 -fatbin a.cu b.cu"),
    Line("device_warning_is_error", "-diag-error 177 -c device_warning.cu", "failed"),
    Line("all_warnings_are_errors", "-Werror all-warnings -c device_warning.cu", "failed"),
    Line("no_warnings", "-w -c host_warning.cu"),
    Line("host_warning", "-Xcompiler=-Wall -c host_warning.cu -o h.o"),
    Line("host_warning_is_error", "-Xcompiler -Wall,-Werror -c host_warning.cu -o h.o", "failed"),
    Line("warning_of_call_is_error", "-Werror cross-execution-space-call -c calls_host.cu", "failed"),
    Line("ptxas_warning", "-rdc=true -Xptxas --warn-on-local-memory-usage,-v -c ptxas_warning.cu"),
    Line("driver_warning", "-O1 -O2 -arch=sm_80 -arch=sm_86 -fatbin a.cu"),
    Line("error_numbers", "--display-error-number -ptx device_warning.cu"),
)

_FAILURES = (
    Line("host_error", "-c host_error.cu -o h.o", "failed", prepare="echo old >h.o"),
    Line("device_error", "-c device_error.cu", "failed", prepare="echo old >device_error.o"),
    Line("missing_header", "-c no_header.cu -o h.o", "failed", prepare="echo old >h.o"),
    Line("missing_source", "-c nothing.cu -o n.o", "failed", prepare="echo old >n.o"),
    Line("source_is_directory", "-c dir.cu", "failed", prepare="mkdir dir.cu"),
    Line("source_empty", "-c empty.cu", files={"empty.cu": ""}),
    Line("ptxas_error", "-c bad_ptx.cu -o b.o", "failed", prepare="echo old >b.o"),
    # -pipe, since the assembler otherwise names a temporary file of gcc's.
    Line("assembler_error", "-Xcompiler -pipe -c bad_assembler.cu -o b.o", "failed", prepare="echo old >b.o"),
    Line("host_option_error", "-Xcompiler --no-such -c a.cu -o a.o", "failed", prepare="echo old >a.o"),
    Line("ptxas_option_error", "-Xptxas --no-such-option -c a.cu -o a.o", "failed", prepare="echo old >a.o"),
    Line("unknown_option", "--no-such-option -c a.cu", "bypass:unknown_option"),
    Line("forwarded_option", "-forward-unknown-to-host-compiler -fno-rtti -ptx a.cu"),
    Line("cubin_of_two", "-arch=compute_80 -code=sm_80,sm_86 -cubin a.cu", "bypass:dryrun_failed"),
    Line("argument_missing", "-c a.cu -o", "bypass:unknown_option"),
    Line("output_empty", "-c a.cu -o ''", "bypass:unwritable_output"),
    Line("empty_argument", "-c a.cu ''", "bypass:dryrun_failed"),
    Line("no_arguments_shim", "", "bypass:information", is_shim=True),
)

_LEFT_TO_NVCC = (
    Line("version", "--version", "query_miss"),
    Line("help", "--help", "query_miss"),
    Line("list_gpu_code", "--list-gpu-code", "query_miss"),
    Line("dryrun", "--dryrun -c a.cu -o a.o", "bypass:information"),
    Line("verbose", "-v -c a.cu -o a.o", "bypass:verbose"),
    Line("preprocess_to_file", "-E headers.cu -o h.ii", "query_miss"),
    Line("host_dependencies", "-Xcompiler -MD,-MF,host.d -c a.cu -o a.o", "bypass:host_side_output"),
    Line("ptxas_file", "-Xptxas --no-such=1,-o,x.cubin -c a.cu -o a.o", "bypass:device_tool_files"),
)

LINES = (*_DIAGNOSTICS, *_FAILURES, *_LEFT_TO_NVCC)
