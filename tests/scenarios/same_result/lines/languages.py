"""Command lines: dialects, warnings of the front end, and what is for the host compiler."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_LAMBDA = """
struct Holder {
    int value;
    void run() { auto f = [=] __device__ () { return value; }; (void)f; }
};
"""
_DEEP = """
template <int N> struct Deep { static constexpr int value = Deep<N - 1>::value; };
template <> struct Deep<0> { static constexpr int value = 3; };
__global__ void kernel(int *x) { x[0] = Deep<40>::value; }
"""
_MOVES = """
#include <utility>
struct Owner { int *p; __host__ __device__ Owner(Owner &&o) : p(std::move(o.p)) {} };
__global__ void kernel(int *x) { *x = 2; }
"""
_THREE_ERRORS = "__global__ void kernel(int *x) { one(); two(); three(); }\n"

_DIALECT = (
    Line(
        "extended_lambda_old_name",
        "-expt-extended-lambda -expt-relaxed-constexpr -ptx features.cu",
        needs_cuda_headers=True,
    ),
    Line("no_exceptions", "--no-exceptions -c a.cu -o a.o"),
    Line("no_initializer_list", "-nohdinitlist -c a.cu -o a.o"),
    Line("no_move_forward", "-nohdmoveforward -ptx moves.cu", files={"moves.cu": _MOVES}),
    Line(
        "template_backtrace",
        "-ftemplate-depth=20 -ftemplate-backtrace-limit 3 -ptx deep.cu",
        "failed",
        files={"deep.cu": _DEEP},
    ),
    Line("standard_library", "-stdlib=libc++ -c a.cu -o a.o", since=(13, 5)),
    Line("utf_8", "-utf-8 -c smørrebrød.cu -o s.o", files={"smørrebrød.cu": "b.cu"}, since=(13, 5)),
    Line("static_stub_false", "-static-global-template-stub=false -c internal.cu -o i.o", since=(12, 8)),
    Line("hidden_entities", "-device-entity-has-hidden-visibility=false -dc a.cu -o a.o", since=(13, 0)),
    Line("machine_long", "--machine=64 -ptx a.cu"),
    Line("machine_32", "-m32 -ptx a.cu", "failed", until=(12, 0)),
    Line("profile", "-pg -c a.cu -o a.o"),
    Line("host_threads", "-Xcompiler -fopenmp,-pthread -c a.cu -o a.o"),
    Line("host_native", "-Xcompiler -march=native -c a.cu -o a.o"),
    Line("host_colours", "-Xcompiler -fdiagnostics-color=always,-Wall -c host_warning.cu"),
    Line("no_align_double", "--no-align-double -c a.cu -o a.o"),
)

_WARNINGS = (
    Line("warn_reorder", "-Wreorder -c warnings.cu -o w.o"),
    Line("warn_stream", "-Wdefault-stream-launch -c warnings.cu -o w.o"),
    Line("warn_launch_bounds", "-Wmissing-launch-bounds -ptx warnings.cu"),
    Line(
        "warn_captures_this",
        "-extended-lambda -Wext-lambda-captures-this -c lambda.cu",
        files={"lambda.cu": _LAMBDA},
        needs_cuda_headers=True,
    ),
    Line("no_warn_deprecated", "-Wno-deprecated-declarations -c warnings.cu -o w.o"),
    Line("no_warn_targets", "-Wno-deprecated-gpu-targets -arch=sm_75 -c a.cu -o a.o"),
    Line("warn_conversion", "-Wconversion -c warnings.cu -o w.o", since=(13, 5)),
    Line("no_error_numbers", "-no-err-no -c device_warning.cu"),
    Line("diagnostic_list", "--diag-warn=177,128 --diag-suppress=550 -dc device_warning.cu"),
    Line("brief", "-brief-diag=true -c device_warning.cu", since=(12, 4)),
    Line(
        "maximum_errors",
        "-fmax-errors 1 -c errors.cu",
        "failed",
        files={"errors.cu": _THREE_ERRORS},
        since=(13, 5),
    ),
)

LINES = (*_DIALECT, *_WARNINGS)
