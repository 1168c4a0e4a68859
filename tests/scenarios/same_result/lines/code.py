"""Command lines: how device code is made."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_SWITCH = """
__global__ void kernel(int *x) {
    switch (x[1]) { case 0: x[0] = 7; break; case 1: x[0] = 9; break; case 5: x[0] = 1; }
}
"""
_PATCH = 'extern "C" __device__ __noinline__ int patch(int i) { return i + 5; }\n'

_GENERATION = (
    Line("keep_device_functions", "-keep-device-functions -ptx device_part.cu"),
    Line("tools_patch", "-astoolspatch -cubin patch.cu", files={"patch.cu": _PATCH}),
    Line("tools_patch_with_entry", "-astoolspatch -cubin a.cu", "failed"),
    Line("extensible_whole_program", "-ewp -c a.cu -o a.o"),
    Line("entries_long", "--entries=_Z4fillPi -arch=sm_80 -fatbin b.cu"),
    Line("square_root", "--prec-sqrt false -fmad true -ptx a.cu"),
    Line("vectorization", "-extra-device-vectorization -c a.cu -o a.o"),
    Line("device_optimise", "-dopt=on -c a.cu -o a.o"),
    Line("optimization_report_ptx", "--optimization-info=inline -ptx b.cu"),
    Line("fast_compile_equals", "--Ofast-compile=mid -ptx b.cu", since=(12, 9)),
    Line(
        "jump_tables_long", "--jump-table-density=0 -c switch.cu", files={"switch.cu": _SWITCH}, since=(12, 4)
    ),
    Line("compress_size", "-compress-mode=size -c a.cu -o a.o", since=(12, 8)),
    Line("stack_protector", "-device-stack-protector=true -c b.cu", since=(12, 8)),
    Line("sanitize", "-sanitize memcheck -arch=sm_80 -c a.cu -o a.o", since=(13, 0), until=(13, 2)),
    Line("device_sanitize", "-fdevice-sanitize=memcheck -arch=sm_80 -c a.cu -o a.o", since=(13, 2)),
    Line("no_ptx_check", "-skip-ptx-semantics-check -c a.cu -o a.o", since=(13, 2)),
    Line("syntax_only", "-fdevice-syntax-only -c a.cu -o a.o", since=(12, 4)),
    Line("version_ident", "-dQ=true -cubin a.cu", until=(12, 0)),
    Line("safety_compatibility", "-safety-compat -c a.cu -o a.o", since=(13, 5)),
    Line("concat", "-concat -gencode arch=compute_80,code=[sm_80,sm_86] -c a.cu -o a.o", since=(13, 5)),
    Line("controls_file", "-apply-controls c.txt -c a.cu", "bypass:device_tool_files", since=(13, 5)),
    Line("many_options", "-maxrregcount 40 -use_fast_math -restrict -O2 -lineinfo -dc b.cu"),
)

# Tile code is made by `tileiras`, which the toolkits that these lines ran on do not have.
_TILES = (
    Line("simt_only", "-simt-only -arch=sm_80 -c a.cu -o a.o", since=(13, 5)),
    Line("tile_preview", "-tile-preview=simt -c a.cu -o a.o", since=(13, 5)),
    Line("tile_options", "-Xtileiras -O3 -c a.cu -o a.o", since=(13, 5)),
    Line("tile_only", "-tile-only -arch=sm_100 -c a.cu -o a.o", "bypass:missing_program", since=(13, 5)),
    Line("tile_bitcode", "-enable-tile -tilebc -arch=sm_100 a.cu", since=(13, 5)),
    Line("tile_cubin", "-enable-tile -tilecubin -arch=sm_100 a.cu", "bypass:missing_program", since=(13, 5)),
    Line(
        "tile_fatbin", "-enable-tile -tilefatbin -arch=sm_100 a.cu", "bypass:missing_program", since=(13, 5)
    ),
)

LINES = (*_GENERATION, *_TILES)
