"""Command lines: how nvcc itself goes about it, and options that matter elsewhere alone."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_DRIVER = (
    Line("no_profile", "-noprof -c a.cu -o a.o", "bypass:missing_program"),
    Line(
        "libdevice_directory",
        "-noprof -ldir {toolkit}/nvvm/libdevice -I {toolkit}/include -ptx a.cu",
        "bypass:missing_program",
    ),
    Line("target_directory", "-target-dir x86_64-linux -c a.cu -o a.o"),
    Line("qnx_configuration", "-qpp-config=x -c a.cu -o a.o", "bypass:dryrun_failed"),
    Line("local_environment", "-use-local-env -c a.cu -o a.o"),
    Line("force_environment", "-force-cl-env-setup -c a.cu -o a.o", since=(13, 0)),
    Line("input_prefix", "-idp / -c a.cu -o a.o"),
    Line("dependency_prefix", "-ddp /cygwin/ -MD -c headers.cu -o h.o"),
    Line("drive_prefix", "--drive-prefix=/ -MMD -ptx headers.cu"),
    Line("list_gpu_arch", "--list-gpu-arch", "query_miss"),
    Line("clean", "-clean -c a.cu -o a.o", "bypass:run", prepare="touch a.o"),
    Line("run_arguments", "-run main.cu -o main -run-args one,two", "bypass:run"),
    Line(
        "time_appended",
        "--time=t.csv -ptx a.cu b.cu",
        "bypass:time_report",
        prepare="echo old >t.csv",
        timings=("t.csv",),
    ),
    Line(
        "time_trace",
        "-fdevice-time-trace t.json -c a.cu -o a.o",
        "bypass:time_report",
        since=(12, 8),
        timings=("t.json", "t.json.json"),
    ),
    Line(
        "time_trace_granularity",
        "-fdevice-time-trace=t.json -fdevice-time-trace-granularity 100000 -c a.cu -o a.o",
        "bypass:time_report",
        since=(13, 5),
        timings=("t.json", "t.json.json"),
    ),
    Line("forward_to_linker", "-forward-unknown-to-host-linker -no-pie -c a.cu -o a.o"),
)

LINES = _DRIVER
