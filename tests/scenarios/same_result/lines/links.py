"""Command lines: device links, programs and libraries."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_TWO = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
_PARTS = "$NVCC -dc device_link.cu -o one.o; $NVCC -dc device_part.cu -o two.o"

# The host's link has no record, so that such calls are made of stages at best.
_LINKS = (
    Line("executable", "main.cu -o main", "stage_hit"),
    Line("executable_rdc", "-rdc=true device_link.cu device_part.cu -o x", "stage_hit"),
    Line("executable_and_cpp", "main.cu host.cpp -o x", "stage_hit"),
    Line(
        "executable_of_equal_base_names",
        "main.cu main.cpp -o x",
        "bypass:same_base_name",
        files={"main.cpp": "int other() { return 0; }\n"},
    ),
    Line("shared_library", "-shared -Xcompiler -fPIC a.cu b.cu -o libx.so", "stage_hit"),
    Line("executable_dependencies", "-MD main.cu -o main", "stage_hit"),
    Line(
        "link_objects",
        "one.o two.o -o x",
        "stage_hit",
        prepare="$NVCC -c a.cu -o one.o; $NVCC -c main.cu -o two.o",
    ),
    Line("link_undefined", "device_part.cu -o x -Xlinker --no-demangle -lno_such_library", "failed"),
    Line("device_link", "-dlink one.o two.o -o x.o", prepare=_PARTS),
    Line("md_ptx_to_cubin", "-MMD -cubin -arch=sm_80 kernel.ptx", "stage_hit"),
    Line(
        "device_link_two_architectures",
        f"-dlink {_TWO} one.o two.o -o x.o",
        prepare=_PARTS.replace("-dc", f"-dc {_TWO}"),
    ),
    Line("device_link_archive", "-dlink one.o libtwo.a -o x.o", prepare=f"{_PARTS}; ar cr libtwo.a two.o"),
    Line("device_link_library", "-dlink one.o -L. -ltwo -o x.o", prepare=f"{_PARTS}; ar cr libtwo.a two.o"),
    Line("device_link_verbose", "-dlink -Xnvlink -v one.o two.o -o x.o", prepare=_PARTS),
    Line("device_link_relocatable", "-r one.o two.o -o x.o", "stage_hit", prepare=_PARTS),
    Line("device_link_undefined", "-dlink one.o -o x.o", "failed", prepare=_PARTS),
)

_LTO = (
    "$NVCC -dlto -arch=sm_80 -dc device_link.cu -o one.o; $NVCC -dlto -arch=sm_80 -dc device_part.cu -o two.o"
)
_LIBNVVM = "nvvm/lib64/libnvvm.so"

_LINK_OPTIONS = (
    Line("link_phase", "-link main.cu -o main", "stage_hit"),
    Line("link_time_compile", "-lto -arch=sm_80 -dc device_part.cu -o p.o"),
    # Before CUDA 13 `-ltoir` names a library, so that no record says what is written.
    Line("link_time_ir", "-dlto -ltoir -arch=sm_80 a.cu -o a.ltoir", "stage_hit", since=(13, 0)),
    Line("link_time_optimised", "-dlto -gen-opt-lto -arch=sm_80 -dc a.cu -o a.o", since=(12, 4)),
    Line("link_time", "-dlto -arch=sm_80 -dlink one.o two.o -o x.o", prepare=_LTO, needs=_LIBNVVM),
    Line(
        "link_time_program", "-dlto -arch=sm_80 one.o two.o -o x", "stage_hit", prepare=_LTO, needs=_LIBNVVM
    ),
    Line(
        "link_time_from_sources",
        "-dlto -arch=sm_80 -rdc=true device_link.cu device_part.cu -o x",
        "stage_hit",
        needs=_LIBNVVM,
    ),
    Line(
        "link_time_split",
        "-dlto -split-compile-extended=2 -arch=sm_80 -dlink one.o two.o -o x.o",
        prepare=_LTO,
        needs=_LIBNVVM,
        since=(12, 4),
    ),
    Line("link_time_ptx", "-dlto -dlink -ptx -arch=sm_80 one.o two.o -o x.ptx", prepare=_LTO, needs=_LIBNVVM),
    Line("relocatable_ptx", "-dlink -reloc-ptx one.o two.o -o x.o", prepare=_PARTS, since=(13, 0)),
    Line("no_device_link", "-nodlink main.cu -o x", "stage_hit"),
    Line(
        "no_device_link_objects",
        "--no-device-link one.o -o x",
        "bypass:nothing_to_cache",
        prepare="$NVCC -c main.cu -o one.o",
    ),
    Line("device_runtime", "--cudadevrt=static -dlink one.o two.o -o x.o", prepare=_PARTS),
    Line("linker_script", "-hls=gen-lcs -o x.lcs", "bypass:information"),
    Line("linker_script_shown", "-hls gen-lcs -aug-hls", "bypass:information"),
    Line("linker_script_used", "-hls=use-lcs main.cu -o x", "stage_hit"),
    Line("forward_to_link", "-forward-unknown-to-host-linker --no-undefined main.cu -o x", "stage_hit"),
    Line("forward_all_to_link", "-forward-unknown-opts -s main.cu -o x", "stage_hit"),
    Line("prune", "-prune -arch=sm_80 -c a.cu -o a.o", since=(13, 5)),
    Line("prune_options", "-prune -Xnvprune -v -arch=sm_80 -ptx a.cu", since=(13, 5)),
    Line("library_archiver", "--lib -arbin ar -Xarchive -v a.cu -o libx.a", "bypass:library"),
    Line("library_unnamed", "-lib a.cu", "bypass:library"),
)

LINES = (*_LINKS, *_LINK_OPTIONS)
