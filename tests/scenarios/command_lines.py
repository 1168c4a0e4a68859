"""The command lines that nvccache must carry out as nvcc does, as data.

A command is written as one would type it, without the compiler. `{work}` is the directory it runs in,
`{ccbin}` a host compiler and `{ccbin_directory}` its directory.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping

from scenarios.sources import HEADERS, SOURCES


@dataclasses.dataclass(frozen=True)
class Line:
    """One command line, in a directory with the sources that it names.

    `warm` is what becomes of it when the cache is warm: `direct_hit`, `stage_hit` where the call cannot be
    recorded, `failed`, or `bypass:` and the reason. It is `miss` where older toolkits name the process in
    a product and there is no telling of which units. `files` are further files with their text, or with the
    name of a source that they copy; `prepare` is run once by a shell, with the real compiler in $NVCC,
    before anything else.
    """

    name: str
    command: str
    warm: str = "direct_hit"
    _: dataclasses.KW_ONLY
    warm_before_13: str = ""
    since: tuple[int, int] = (11, 0)
    sources: tuple[str, ...] = ()  # beyond those that the command names
    files: Mapping[str, str | bytes] = dataclasses.field(default_factory=dict)
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prepare: str = ""
    stdin: bytes = b""
    cwd: str = "."
    is_shim: bool = False  # called as `nvcc` through a symbolic link
    names_keep_directory: bool = False  # its objects hold debug information

    @property
    def all_files(self) -> dict[str, str | bytes]:
        """The files there are before anything runs, with their text."""
        words = shlex.split(f"{self.command} {self.prepare}".replace("{work}/", "").replace(";", " "))
        named = [*self.sources, *(word for word in words if word in SOURCES)]
        headers = [header for name in named for header in HEADERS.get(name, ())]
        texts = {
            name: SOURCES.get(text, text) if isinstance(text, str) else text
            for name, text in self.files.items()
        }
        return {name: SOURCES[name] for name in (*named, *headers)} | texts


_TWO = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
_PARTS = "$NVCC -dc device_link.cu -o one.o; $NVCC -dc device_part.cu -o two.o"

_MODES = (
    Line("compile", "-c a.cu -o a.o"),
    Line("compile_shim", "-c a.cu -o a.o", is_shim=True),
    Line("compile_without_external_definition", "-c internal.cu -o i.o"),
    Line("device_c_without_external_definition", "-dc internal.cu -o i.o"),
    Line("device_c", "-dc a.cu -o a.o"),
    Line("device_w", "-dw a.cu -o a.o"),
    Line("rdc_true", "-rdc=true -c b.cu -o b.o"),
    Line("ptx", "-ptx a.cu -o a.ptx"),
    Line("ptx_shim", "-ptx a.cu", is_shim=True),
    Line("ptx_without_external_definition", "-ptx internal.cu", warm_before_13="miss"),
    Line("cubin", "-cubin -arch=sm_80 a.cu -o a.cubin"),
    Line("fatbin", "-fatbin a.cu -o a.fatbin"),
    Line("fatbins", "-fatbin -gencode arch=compute_80,code=sm_80 -gencode=arch=compute_80,code=sm_86 a.cu"),
    Line("optix_ir", "-optix-ir a.cu -o a.optixir", warm_before_13="miss"),
    Line("dlto", "-dlto -arch=sm_80 -dc a.cu -o a.o"),
    Line("lto_gencode", "-gencode arch=compute_80,code=lto_80 -dc b.cu -o b.o"),
    Line("two_codes", "-gencode arch=compute_80,code=[sm_80,sm_86] -c a.cu -o a.o"),
    Line(
        "two_codes_in_brackets", "-arch=compute_80 -code=[sm_80,sm_86] -fatbin a.cu", "bypass:dryrun_failed"
    ),
    Line("ptx_only", "-gencode arch=compute_80,code=compute_80 -c a.cu -o a.o"),
    Line("code_and_ptx", "-arch=compute_80 -code=sm_80,compute_80 -c a.cu -o a.o"),
    Line("two_ptx", "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=compute_90 -dc b.cu"),
    Line("all_major", "-arch=all-major -c a.cu -o a.o", since=(11, 5)),
    Line("native", "-arch=native -c a.cu -o a.o", "stage_hit", since=(11, 5)),
    Line("sm_90a", "-arch=sm_90a -c a.cu -o a.o", since=(12, 0)),
    Line("cuda_to_cpp", "-cuda a.cu -o a.cu.cpp.ii", "bypass:preprocessed_product"),
)

_INPUTS = (
    Line("several_inputs", "-c a.cu b.cu"),
    Line("several_inputs_device_c", "-dc b.cu a.cu"),
    Line("several_inputs_one_output", "-c a.cu b.cu -o x.o", "bypass:dryrun_failed"),
    Line(
        "same_base_name",
        "-ptx one/a.cu two/a.cu",
        "bypass:same_base_name",
        files={"one/a.cu": "a.cu", "two/a.cu": "b.cu"},
    ),
    Line("cu_and_cpp", "-c a.cu host.cpp plain.c", "stage_hit"),
    Line("cpp", "-c host.cpp -o host.o", "bypass:nothing_to_cache"),
    Line("c", "-c plain.c", "bypass:nothing_to_cache"),
    Line("cpp_as_cuda", "-x cu -c host.cpp -o host.o"),
    Line("language_long", "--x=cu -ptx kernel.inc -o k.ptx", files={"kernel.inc": "a.cu"}),
    Line("ptx_to_cubin", "-cubin -arch=sm_80 kernel.ptx"),
    Line("ptx_to_fatbin", "-fatbin -arch=sm_80 kernel.ptx -o k.fatbin"),
    Line("subdirectory", "-ptx ../src/a.cu -o a.ptx", files={"src/a.cu": "a.cu"}, cwd="build"),
    Line("absolute_path", "-c {work}/a.cu -o {work}/out.o"),
    Line("standard_input", "-x cu - -ptx -o a.ptx", "bypass:standard_input", stdin=b"__global__ void k() {}"),
    Line(
        "input_device", "-x cu /dev/stdin -c -o a.o", "bypass:standard_input", stdin=b"__global__ void k() {}"
    ),
    Line("blank", "-c 'my kernel.cu' -o 'my object.o'", files={"my kernel.cu": "b.cu"}),
    Line("utf8", "-c smørrebrød.cu -o 出力.o", files={"smørrebrød.cu": "b.cu"}),
    Line("comma", "-ptx a,b.cu -o a,b.ptx", files={"a,b.cu": "b.cu"}),
    Line("comma_fatbinary", "-c a,b.cu -o a,b.o", "failed", files={"a,b.cu": "b.cu"}),
    Line("parentheses", "-dc 'a(1).cu' -o '(a).o'", files={"a(1).cu": "b.cu"}),
    Line("number_sign", "-c 'a#1.cu' -o '#a.o'", files={"a#1.cu": "b.cu"}),
    Line("backslash", "-c 'a\\b.cu' -o 'a\\b.o'", files={"a\\b.cu": "b.cu"}),
    Line("apostrophe", '-c "a\'b.cu" -o "it\'s.o"', files={"a'b.cu": "b.cu"}),
    Line("percent_star", "-c 'a%*.cu' -o 'a&;.o'", files={"a%*.cu": "b.cu"}),
    Line("dollar_path", "-c 'dol$lar.cu' -o d.o", "bypass:shell_expansion", files={"dol$lar.cu": "b.cu"}),
    Line("equals_sign", "-ptx a=b.cu -o a=b.ptx", files={"a=b.cu": "b.cu"}),
    Line("dash_name", "-cubin ./-a.cu -o ./-a.cubin", files={"-a.cu": "b.cu"}),
    Line("no_suffix", "-c kernel -o k.o", "bypass:dryrun_failed", files={"kernel": "b.cu"}),
)

_OUTPUTS = (
    Line("output_blank", "-ptx a.cu -o x.ptx"),
    Line("output_equals", "-ptx a.cu -o=x.ptx"),
    Line("output_long_blank", "-c a.cu --output-file x.o"),
    Line("output_long_equals", "-c a.cu --output-file=x.o"),
    Line("output_deep", "-c a.cu -o ./out/../out/x.o", prepare="mkdir out"),
    Line("no_output", "-c a.cu"),
    Line("no_output_elsewhere", "-c ../src/a.cu", files={"src/a.cu": "a.cu"}, cwd="build"),
    Line("no_output_cubin", "-cubin a.cu"),
    Line("output_directory", "-odir out -c a.cu b.cu", prepare="mkdir out"),
    Line("output_directory_ptx", "--output-directory=out -ptx a.cu", prepare="mkdir out"),
    Line("output_directory_and_file", "-odir out -c a.cu -o x.o", prepare="mkdir out"),
    Line("output_directory_missing", "-odir out -c a.cu", "bypass:unwritable_output"),
    Line("output_null", "-c a.cu -o /dev/null", "bypass:standard_output"),
    Line("output_standard", "-ptx a.cu -o -", "bypass:standard_output"),
    Line("output_standard_device", "-ptx a.cu -o /dev/stdout", "bypass:standard_output"),
    Line("output_nowhere", "-c a.cu -o no/such/directory/a.o", "bypass:unwritable_output"),
    Line("output_nowhere_ptx", "-ptx a.cu -o no/such/directory/a.ptx", "bypass:unwritable_output"),
    Line("output_unwritable", "-c a.cu -o /sys/a.o", "bypass:unwritable_output"),
    Line("output_is_directory", "-c a.cu -o a.o", "bypass:unwritable_output", prepare="mkdir a.o"),
    Line("output_is_directory_ptx", "-ptx a.cu", "bypass:unwritable_output", prepare="mkdir a.ptx"),
    Line("output_is_link", "-c a.cu -o a.o", prepare="echo other >b.o; ln -s b.o a.o"),
    Line("output_is_link_ptx", "-ptx a.cu", prepare="echo other >b; ln -s b a.ptx"),
    Line("output_is_dangling_link", "-c a.cu -o a.o", prepare="ln -s b.o a.o"),
    Line("output_is_empty", "-c a.cu -o a.o", prepare="touch b.o; ln b.o a.o; chmod 600 a.o"),
    Line("output_is_link_to_empty", "-c a.cu -o a.o", prepare="touch b.o; ln -s b.o a.o"),
    Line("output_is_dangling_link_cubin", "-cubin a.cu", prepare="ln -s b a.cubin"),
    Line("output_is_hard_link", "-c a.cu -o a.o", prepare="echo other >b.o; ln b.o a.o"),
    Line("output_is_hard_link_ptx", "-ptx a.cu", prepare="echo other >b; ln b a.ptx"),
    Line("output_is_hard_link_cubin", "-cubin a.cu", prepare="echo other >b; ln b a.cubin"),
    Line("output_is_read_only", "-c a.cu -o a.o", prepare="echo old >a.o; chmod 444 a.o"),
    Line("output_is_read_only_ptx", "-ptx a.cu", prepare="echo old >a.ptx; chmod 444 a.ptx"),
    Line("output_is_executable", "-c a.cu -o a.o", prepare="echo old >a.o; chmod 755 a.o"),
    Line("output_is_executable_ptx", "-ptx a.cu", prepare="echo old >a.ptx; chmod 755 a.ptx"),
    Line("output_is_longer", "-fatbin a.cu", prepare="head -c 9999 /dev/zero >a.fatbin; chmod 600 a.fatbin"),
    Line("output_is_source", "-c a.cu -o a.cu"),
)

_DEPENDENCIES = (
    Line("md", "-MD -c headers.cu -o h.o"),
    Line("md_no_output", "-MD -c headers.cu"),
    Line("mmd", "-MMD -c headers.cu -o h.o"),
    Line("mmd_mf", "-MMD -MF dep.d -c headers.cu -o h.o"),
    Line("md_mf_mt", "-MD -MF dep.d -MT target -ptx headers.cu -o h.ptx"),
    Line("mmd_mp", "-MMD -MP -MF dep.d -cubin headers.cu -o h.cubin"),
    Line("md_mp_mt", "-MD -MP -MT 'my target' -MF 'my dep.d' -c headers.cu -o h.o"),
    Line("mmd_two_targets", "-MMD -MT one -MT two -ptx headers.cu"),
    Line("md_long", "--generate-dependencies-with-compile --dependency-output dep.d -fatbin headers.cu"),
    Line("mmd_long", "--generate-nonsystem-dependencies-with-compile -MT=t -ptx headers.cu"),
    Line("md_device_c", "-MD -MT h.o -MF h.o.d -dc headers.cu -o h.o", is_shim=True),
    Line("md_ptx", "-MD -ptx headers.cu -o h.ptx"),
    Line("mmd_cubin", "-MMD -MF dep.d -cubin headers.cu -o h.cubin"),
    Line("mmd_blanks", "-MMD -c 'my kernel.cu' -o 'my object.o'", files={"my kernel.cu": "b.cu"}),
    Line(
        "md_two",
        "-MD -fatbin headers.cu -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90",
    ),
    Line("mmd_output_directory", "-odir out -MMD -c headers.cu", prepare="mkdir out"),
    Line("mmd_mt_output_directory", "-odir out -MMD -MT t -c headers.cu", prepare="mkdir out"),
    Line("mmd_several_inputs", "-MMD -c a.cu b.cu", "stage_hit"),
    Line("mmd_cpp_and_cu", "-MMD -c host.cpp a.cu", "stage_hit"),
    Line("mf_alone", "-MF dep.d -c headers.cu -o h.o", "bypass:dryrun_failed"),
    Line("md_nowhere", "-MD -MF no/dep.d -c headers.cu -o h.o", "bypass:unwritable_output"),
    Line("md_compile_fails", "-MD -MF dep.d -c device_error.cu -o h.o", "failed"),
    Line("md_preprocessing_fails", "-MD -MF dep.d -c no_header.cu -o h.o", "failed"),
    Line("m", "-M headers.cu", "bypass:preprocess_only"),
    Line("mm", "-MM headers.cu -o h.d", "bypass:preprocess_only"),
    Line("include_relative", "-I include -I. -cubin included.cu -o h.cubin"),
    Line("include_equals", "-I=include --include-path . -MMD -c included.cu"),
    Line("include_system", "-isystem include -I'sub dir' -MMD -ptx included.cu"),
    Line("include_file", "-include one.h -include=./main.cu -MMD -c a.cu", sources=("main.cu",)),
)

_OPTIONS = (
    Line("ccbin_file", "-ccbin {ccbin} -c a.cu -o a.o"),
    Line("ccbin_equals", "-ccbin={ccbin} -cubin a.cu"),
    Line("ccbin_directory", "--compiler-bindir {ccbin_directory} -ptx a.cu"),
    Line("ccbin_name", "--compiler-bindir=g++ -ptx a.cu -o a.ptx"),
    Line("ccbin_missing", "-ccbin /no/such/compiler -c a.cu -o a.o", "bypass:dryrun_failed"),
    Line("device_debug", "-G -c a.cu -o a.o"),
    Line("device_debug_cubin", "-G -arch=sm_80 -cubin a.cu"),
    Line("line_info", "-lineinfo -c a.cu -o a.o"),
    Line("line_info_long", "--generate-line-info -ptx a.cu"),
    Line("debug", "-g -c a.cu -o a.o", names_keep_directory=True),
    Line("debug_both", "-g -G -dc a.cu -o a.o", names_keep_directory=True),
    Line("debug_host_compiler", "-Xcompiler -g -c a.cu -o a.o", names_keep_directory=True),
    Line("debug_host_compiler_level", "-Xcompiler=-g1,-O1 -c a.cu -o a.o", names_keep_directory=True),
    Line("optimise_0", "-O0 -w -c a.cu -o a.o"),
    Line("optimise_3", "-O3 -c a.cu -o a.o"),
    Line("ptxas_optimise", "-Xptxas -O1 -cubin a.cu"),
    Line("ptxas_list", "-Xptxas=-O2,--warn-on-spills -Xptxas -dlcm=cg -c a.cu -o a.o"),
    Line("cicc_option", "-Xcicc -O1 -ptx a.cu"),
    Line("cudafe_option", "-Xcudafe --display_error_number,--diag_suppress=177 -c device_warning.cu"),
    Line("fast_math", "-use_fast_math -c features.cu --extended-lambda --expt-relaxed-constexpr"),
    Line("extended_lambda", "-extended-lambda -expt-relaxed-constexpr -ptx features.cu"),
    Line("maximum_registers", "-maxrregcount=32 -cubin a.cu"),
    Line("ftz", "-ftz=true -prec-div=false -ptx features.cu -extended-lambda -expt-relaxed-constexpr"),
    Line("cpp_14", "-std=c++14 -ptx a.cu"),
    Line("cpp_17", "--std c++17 -cubin a.cu"),
    Line("cpp_20", "-std=c++20 -cubin a.cu", since=(12, 0)),
    Line("split_compile", "-split-compile=2 -arch=sm_80 -c a.cu -o a.o", since=(12, 1)),
    Line("threads", "-t 2 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -c b.cu"),
    Line("threads_glued", "-t2 -gencode arch=compute_80,code=[sm_80,sm_86] -fatbin b.cu"),
    Line("threads_equals", "--threads=4 -MMD -ptx a.cu b.cu", "stage_hit"),
    Line("threads_all", "--threads 0 -ptx a.cu"),
    Line("threads_wrong", "-t two -c a.cu -o a.o", "bypass:irremovable_option"),
    Line("threads_missing", "-c a.cu -t", "bypass:unknown_option"),
    Line("jobserver", "-jobserver -c a.cu -o a.o", "bypass:irremovable_option", since=(12, 0)),
    Line("host_options", "-Xcompiler -fPIC -Xcompiler -fvisibility=hidden,-ffunction-sections -c a.cu"),
    Line("host_options_quoted", "-Xcompiler '-fPIC -O2' --compiler-options=-fno-exceptions -c a.cu"),
    Line("host_define", "-Xcompiler -DX=3 -c macros.cu"),
    Line("default_stream", "-default-stream per-thread -fatbin a.cu"),
    Line("no_host_version_check", "-allow-unsupported-compiler -ptx a.cu"),
    Line("cudart", "-cudart=shared -m64 -cubin a.cu"),
    Line("no_compress", "-no-compress -fatbin a.cu", since=(11, 6)),
    Line("source_in_ptx", "-src-in-ptx -lineinfo -ptx a.cu", "bypass:source_in_ptx"),
    Line("random_seed", "-frandom-seed=seed -c internal.cu", since=(13, 0)),
    Line("library_options", "-ptx a.cu -L. -lm -Xlinker -rpath,/x"),
)

_DEFINES = (
    Line("define", "-DX=1 -D X=2 -UY -c macros.cu"),
    Line("define_long", "--define-macro X=1,Z --undefine-macro=Z -ptx macros.cu"),
    Line("define_string", "-D 'X=\"a b\"' -ptx macros.cu"),
    Line("define_string_object", "'-DX=\"a b\"' -c macros.cu -o m.o"),
    Line("define_utf8", "-DX=smørrebrød -ptx macros.cu"),
    Line("define_comma", "'-DX=a,Q' -ptx macros.cu"),
    Line("define_parentheses", "'-DX=f(1)' -c macros.cu"),
    Line("define_number_sign", "'-DX=#1 # 2' -ptx macros.cu"),
    Line("define_backslash", "'-DX=a\\b\\\\c' -ptx macros.cu"),
    Line("define_apostrophe", "\"-DX='c'\" -ptx macros.cu"),
    Line("define_dollar", "'-DX=$HOME' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_backtick", "'-DX=`echo 4`' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_newline", "'-DX=1\n2' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_empty", "-DX= -ptx macros.cu"),
    Line("define_semicolons", "'-DX=a;b&c|d<e>f' -ptx macros.cu"),
)

_ENVIRONMENT = (
    Line("prepend_flags", "-cubin a.cu", environ={"NVCC_PREPEND_FLAGS": "-lineinfo -DX=1"}),
    Line("append_flags", "-c a.cu", environ={"NVCC_APPEND_FLAGS": "-O2 -o x.o"}, is_shim=True),
    Line("both_flags", "a.cu", environ={"NVCC_PREPEND_FLAGS": "-ptx", "NVCC_APPEND_FLAGS": "-arch=sm_80"}),
    Line("flags_quoted", "-ptx macros.cu", environ={"NVCC_APPEND_FLAGS": '-DX="a b"'}),
    Line("flags_unknown", "-c a.cu", "bypass:unknown_option", environ={"NVCC_APPEND_FLAGS": "--nonsense"}),
    Line("ccbin_variable", "-c a.cu -o a.o", environ={"NVCC_CCBIN": "{ccbin}"}),
    Line("cpath", "-MMD -c included.cu", environ={"CPATH": "include:."}),
    Line("option_file", "--options-file flags.txt -c a.cu", files={"flags.txt": "-O2\n-lineinfo -o\nx.o"}),
    Line(
        "option_file_short",
        "-optf=flags.txt",
        sources=("a.cu",),
        files={"flags.txt": '-ptx "a.cu" -o "x y.ptx"\n'},
        is_shim=True,
    ),
    Line(
        "option_files_nested",
        "-optf one.txt,two.txt",
        sources=("a.cu", "b.cu"),
        files={"one.txt": "-optf three.txt", "two.txt": "a.cu b.cu", "three.txt": "-fatbin -arch=sm_80"},
    ),
    Line("option_file_missing", "-optf none.txt -c a.cu", "bypass:unreadable_option_file"),
    Line("option_file_empty", "-ptx a.cu -optf empty.txt", files={"empty.txt": ""}),
)

_DIAGNOSTICS = (
    Line("ptxas_verbose", "-Xptxas -v -c b.cu"),
    Line("resource_usage", "-res-usage -cubin a.cu"),
    Line("resource_usage_two", "--resource-usage -arch=compute_80 -code=sm_80,sm_86 -fatbin a.cu b.cu"),
    Line("device_warning", "-c device_warning.cu"),
    Line(
        "device_warning_two",
        "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -c device_warning.cu",
        is_shim=True,
    ),
    Line("device_warning_ptx", "-ptx device_warning.cu"),
    Line("device_warning_suppressed", "-diag-suppress 177,128 -ptx device_warning.cu"),
    Line("device_warning_is_error", "-diag-error 177 -c device_warning.cu", "failed"),
    Line("all_warnings_are_errors", "-Werror all-warnings -c device_warning.cu", "failed"),
    Line("no_warnings", "-w -c host_warning.cu"),
    Line("host_warning", "-Xcompiler=-Wall -c host_warning.cu -o h.o"),
    Line("host_warning_extra", "-Xcompiler -Wall,-Wextra,-Wconversion -dc a.cu"),
    Line("host_warning_is_error", "-Xcompiler -Wall,-Werror -c host_warning.cu -o h.o", "failed"),
    Line("warning_of_call_is_error", "-Werror cross-execution-space-call -c calls_host.cu", "failed"),
    Line("two_warnings", "-Xcompiler -Wall -dc device_warning.cu host_warning.cu"),
    Line("ptxas_warning", "-rdc=true -Xptxas --warn-on-local-memory-usage,-v -c ptxas_warning.cu"),
    Line("driver_warning", "-O1 -O2 -arch=sm_80 -arch=sm_86 -fatbin a.cu"),
    Line("error_numbers", "--display-error-number -ptx device_warning.cu"),
)

_FAILURES = (
    Line("host_error", "-c host_error.cu -o h.o", "failed", prepare="echo old >h.o"),
    Line("device_error", "-c device_error.cu", "failed", prepare="echo old >device_error.o"),
    Line("device_error_ptx", "-ptx device_error.cu", "failed", is_shim=True),
    Line("call_of_host", "-ptx calls_host.cu", "failed", prepare="echo old >calls_host.ptx"),
    Line("hash_error", "-c hash_error.cu -o h.o", "failed", prepare="echo old >h.o"),
    Line("host_hash_error", "-dc host_hash_error.cu", "failed"),
    Line("missing_header", "-c no_header.cu -o h.o", "failed", prepare="echo old >h.o"),
    Line("missing_source", "-c nothing.cu -o n.o", "failed", prepare="echo old >n.o"),
    Line("missing_second_source", "-c a.cu nothing.cu", "failed"),
    Line("second_source_fails", "-dc a.cu device_error.cu b.cu", "failed"),
    Line("source_is_directory", "-c dir.cu", "failed", prepare="mkdir dir.cu"),
    Line("source_unreadable", "-c loop.cu", "failed", prepare="ln -s loop.cu loop.cu"),
    Line("source_empty", "-c empty.cu", files={"empty.cu": ""}),
    Line("ptxas_error", "-c bad_ptx.cu -o b.o", "failed", prepare="echo old >b.o"),
    Line("ptxas_error_cubin", "-cubin bad_ptx.cu", "failed", prepare="echo old >bad_ptx.cubin"),
    # -pipe, since the assembler otherwise names a temporary file of gcc's.
    Line("assembler_error", "-Xcompiler -pipe -c bad_assembler.cu -o b.o", "failed", prepare="echo old >b.o"),
    Line("assembler_error_link", "-Xcompiler=-pipe -dc bad_assembler.cu -o b", "failed", prepare="ln -s x b"),
    Line("host_option_error", "-Xcompiler --no-such -c a.cu -o a.o", "failed", prepare="echo old >a.o"),
    Line("ptxas_option_error", "-Xptxas --no-such-option -c a.cu -o a.o", "failed", prepare="echo old >a.o"),
    Line("unknown_option", "--no-such-option -c a.cu", "bypass:unknown_option"),
    Line("unknown_option_short", "-qq -c a.cu", "bypass:unknown_option", is_shim=True),
    Line("forwarded_option", "-forward-unknown-to-host-compiler -fno-rtti -ptx a.cu"),
    Line("wrong_architecture", "-arch=sm_1 -c a.cu", "bypass:dryrun_failed"),
    Line("wrong_standard", "-std=c++99 -c a.cu", "bypass:dryrun_failed"),
    Line("cubin_of_two", "-arch=compute_80 -code=sm_80,sm_86 -cubin a.cu", "bypass:dryrun_failed"),
    Line("argument_missing", "-c a.cu -o", "bypass:unknown_option"),
    Line("output_empty", "-c a.cu -o ''", "bypass:unwritable_output"),
    Line("empty_argument", "-c a.cu ''", "bypass:dryrun_failed"),
    Line("empty_first_argument", "'' -c a.cu", "bypass:dryrun_failed"),
    Line("no_arguments", "", "bypass:information"),
    Line("no_arguments_shim", "", "bypass:information", is_shim=True),
    Line("no_input", "-c", "bypass:information"),
)

_LEFT_TO_NVCC = (
    Line("version", "--version", "bypass:information"),
    Line("version_shim", "-V", "bypass:information", is_shim=True),
    Line("help", "--help", "bypass:information"),
    Line("list_gpu_code", "--list-gpu-code", "bypass:information"),
    Line("dryrun", "--dryrun -c a.cu -o a.o", "bypass:information"),
    Line("verbose", "-v -c a.cu -o a.o", "bypass:verbose"),
    Line("preprocess", "-E a.cu", "bypass:preprocess_only"),
    Line("preprocess_to_file", "-E headers.cu -o h.ii", "bypass:preprocess_only"),
    Line("keep", "-keep -c a.cu -o a.o", "bypass:keeps_intermediates"),
    Line("keep_directory", "-keep -keep-dir k -c a.cu", "bypass:keeps_intermediates", prepare="mkdir k"),
    Line("keep_directory_missing", "-keep --keep-dir=kept -c a.cu", "bypass:keeps_intermediates"),
    Line("save_temps", "-save-temps -ptx a.cu", "bypass:keeps_intermediates"),
    Line("objtemp", "-objtemp -c a.cu -o a.o", "bypass:keeps_intermediates", since=(11, 3)),
    Line("library", "-lib a.cu b.cu -o libx.a", "bypass:library"),
    Line("run", "-run main.cu -o main", "bypass:run"),
    Line("side_output", "-Xcompiler -fstack-usage -c a.cu -o a.o", "bypass:host_side_output"),
    Line("host_dependencies", "-Xcompiler -MD,-MF,host.d -c a.cu -o a.o", "bypass:host_side_output"),
    Line("ptxas_file", "-Xptxas --no-such=1,-o,x.cubin -c a.cu -o a.o", "bypass:device_tool_files"),
)

# The host's link has no record, so that such calls are made of stages at best.
_LINKS = (
    Line("executable", "main.cu -o main", "stage_hit"),
    Line("executable_shim", "main.cu", "stage_hit", is_shim=True),
    Line("executable_rdc", "-rdc=true device_link.cu device_part.cu -o x", "stage_hit"),
    Line("executable_two_architectures", f"-rdc=true {_TWO} device_link.cu device_part.cu", "stage_hit"),
    Line("executable_and_cpp", "main.cu host.cpp -o x", "stage_hit"),
    Line(
        "executable_of_equal_base_names",
        "main.cu main.cpp -o x",
        "bypass:same_base_name",
        files={"main.cpp": "int other() { return 0; }\n"},
    ),
    Line("executable_shared_runtime", "-cudart=shared main.cu -o x", "stage_hit"),
    Line("shared_library", "-shared -Xcompiler -fPIC a.cu b.cu -o libx.so", "stage_hit"),
    Line("executable_dependencies", "-MD main.cu -o main", "stage_hit"),
    Line(
        "link_objects",
        "one.o two.o -o x",
        "stage_hit",
        prepare="$NVCC -c a.cu -o one.o; $NVCC -c main.cu -o two.o",
    ),
    Line(
        "link_host_objects",
        "one.o -o x",
        "stage_hit",
        prepare="$NVCC -c main.cpp -o one.o",
        files={"main.cpp": "int main() { return 0; }\n"},
    ),
    Line("link_undefined", "device_part.cu -o x -Xlinker --no-demangle -lno_such_library", "failed"),
    Line("device_link", "-dlink one.o two.o -o x.o", prepare=_PARTS),
    Line("device_link_dependencies", "-MD -MF dep.d -dlink one.o two.o -o x.o", "stage_hit", prepare=_PARTS),
    Line("md_ptx_to_cubin", "-MMD -cubin -arch=sm_80 kernel.ptx", "stage_hit"),
    Line("device_link_unnamed", "-dlink one.o two.o", prepare=_PARTS),
    Line(
        "device_link_two_architectures",
        f"-dlink {_TWO} one.o two.o -o x.o",
        prepare=_PARTS.replace("-dc", f"-dc {_TWO}"),
    ),
    Line("device_link_cubin", "-dlink -cubin one.o two.o -o x.cubin", prepare=_PARTS),
    Line("device_link_fatbin", "-dlink -fatbin one.o two.o -o x.fatbin", prepare=_PARTS),
    Line("device_link_archive", "-dlink one.o libtwo.a -o x.o", prepare=f"{_PARTS}; ar cr libtwo.a two.o"),
    Line("device_link_library", "-dlink one.o -L. -ltwo -o x.o", prepare=f"{_PARTS}; ar cr libtwo.a two.o"),
    Line("device_link_verbose", "-dlink -Xnvlink -v one.o two.o -o x.o", prepare=_PARTS),
    Line("device_link_relocatable", "-r one.o two.o -o x.o", "stage_hit", prepare=_PARTS),
    Line("device_link_missing", "-dlink one.o missing.o -o x.o", "failed", prepare=_PARTS),
    Line("device_link_undefined", "-dlink one.o -o x.o", "failed", prepare=_PARTS),
)


LINES = (
    *_MODES,
    *_INPUTS,
    *_OUTPUTS,
    *_DEPENDENCIES,
    *_OPTIONS,
    *_DEFINES,
    *_ENVIRONMENT,
    *_DIAGNOSTICS,
    *_FAILURES,
    *_LEFT_TO_NVCC,
    *_LINKS,
)
