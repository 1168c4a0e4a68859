"""Command lines: what is made, and of what."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_MODES = (
    Line("compile", "-c a.cu -o a.o"),
    Line("compile_without_external_definition", "-c internal.cu -o i.o"),
    Line("device_w", "-dw a.cu -o a.o"),
    Line("rdc_true", "-rdc=true -c b.cu -o b.o"),
    Line("ptx", "-ptx a.cu -o a.ptx"),
    Line("ptx_without_external_definition", "-ptx internal.cu", warm_before={(13, 0): "miss"}),
    Line("cubin", "-cubin -arch=sm_80 a.cu -o a.cubin"),
    Line("fatbin", "-fatbin a.cu -o a.fatbin"),
    Line("optix_ir", "-optix-ir a.cu -o a.optixir"),
    Line("dlto", "-dlto -arch=sm_80 -dc a.cu -o a.o"),
    Line("lto_gencode", "-gencode arch=compute_80,code=lto_80 -dc b.cu -o b.o"),
    Line("two_codes", "-gencode arch=compute_80,code=[sm_80,sm_86] -c a.cu -o a.o"),
    Line("ptx_only", "-gencode arch=compute_80,code=compute_80 -c a.cu -o a.o"),
    Line("two_ptx", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=compute_90 -dc b.cu"),
    Line("all_major", "-arch=all-major -c a.cu -o a.o", since=(11, 5)),
    Line("native", "-arch=native -ptx a.cu", "stage_hit", since=(11, 5)),
    Line("sm_90a", "-arch=sm_90a -c a.cu -o a.o", since=(12, 0)),
    Line("cuda_to_cpp", "-cuda a.cu -o a.cu.cpp.ii", "bypass:preprocessed_product"),
)

_INPUTS = (
    Line("several_inputs_device_c", "-dc b.cu a.cu"),
    Line(
        "same_base_name",
        "-ptx one/a.cu two/a.cu",
        "bypass:same_base_name",
        files={"one/a.cu": "a.cu", "two/a.cu": "b.cu"},
    ),
    Line("cu_and_cpp", "-c a.cu host.cpp plain.c"),
    Line("cpp", "-c host.cpp -o host.o"),
    Line("c", "-c plain.c"),
    Line("cpp_language", "-x c++ -c plain.c -Xcompiler -fPIC,-Wall"),
    Line("cpp_as_cuda", "-x cu -c host.cpp -o host.o"),
    Line("language_long", "--x=cu -ptx kernel.inc -o k.ptx", files={"kernel.inc": "a.cu"}),
    Line("ptx_to_cubin", "-cubin -arch=sm_80 kernel.ptx"),
    Line("subdirectory", "-ptx ../src/a.cu -o a.ptx", files={"src/a.cu": "a.cu"}, cwd="build"),
    Line("absolute_path", "-c {work}/a.cu -o {work}/out.o"),
    Line("standard_input", "-x cu - -ptx -o a.ptx", "bypass:standard_input", stdin=b"__global__ void k() {}"),
    Line("blank", "-c 'my kernel.cu' -o 'my object.o'", files={"my kernel.cu": "b.cu"}),
    Line("utf8", "-c smørrebrød.cu -o 出力.o", files={"smørrebrød.cu": "b.cu"}),
    Line("no_text", "-c a\udcff.cu -o a\udc80.o", files={"a\udcff.cu": "b.cu"}),
    Line("comma", "-ptx a,b.cu -o a,b.ptx", files={"a,b.cu": "b.cu"}),
    Line("backslash", "-c 'a\\b.cu' -o 'a\\b.o'", files={"a\\b.cu": "b.cu"}),
    Line("apostrophe", '-c "a\'b.cu" -o "it\'s.o"', files={"a'b.cu": "b.cu"}),
    Line("dollar_path", "-c 'dol$lar.cu' -o d.o", "bypass:shell_expansion", files={"dol$lar.cu": "b.cu"}),
    Line("backslash_output", "-ptx b.cu -o 'x\\\\y.ptx'", "bypass:shell_expansion"),
    Line("dollar_program", "b.cu -o 'x$y'", "bypass:shell_expansion"),
    Line("dash_name", "-cubin ./-a.cu -o ./-a.cubin", files={"-a.cu": "b.cu"}),
    Line("no_suffix", "-c kernel -o k.o", "bypass:dryrun_failed", files={"kernel": "b.cu"}),
)

LINES = (*_MODES, *_INPUTS)
