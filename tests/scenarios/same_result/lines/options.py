"""Command lines: options of the compile, macros, and options from elsewhere."""

from __future__ import annotations

from scenarios.same_result.lines.line import Line

_OPTIONS = (
    Line("ccbin_name", "--compiler-bindir=g++ -ptx a.cu -o a.ptx"),
    Line("ccbin_missing", "-ccbin /no/such/compiler -c a.cu -o a.o", "bypass:dryrun_failed"),
    Line("device_debug", "-G -c a.cu -o a.o"),
    Line("line_info", "-lineinfo -c a.cu -o a.o"),
    Line("debug_host_compiler_level", "-Xcompiler=-g1,-O1 -c a.cu -o a.o", names_keep_directory=True),
    Line("ptxas_list", "-Xptxas=-O2,--warn-on-spills -Xptxas -dlcm=cg -c a.cu -o a.o"),
    Line("cicc_option", "-Xcicc -O1 -ptx a.cu"),
    Line("cudafe_option", "-Xcudafe --display_error_number,--diag_suppress=177 -c device_warning.cu"),
    Line(
        "ftz",
        "-ftz=true -prec-div=false -ptx features.cu -extended-lambda -expt-relaxed-constexpr",
        needs_cuda_headers=True,
    ),
    Line("cpp_20", "-std=c++20 -cubin a.cu", since=(12, 0)),
    Line("split_compile", "-split-compile=2 -arch=sm_80 -c a.cu -o a.o", since=(12, 1)),
    Line(
        "threads_variable",
        "-c a.cu",
        "bypass:irremovable_option",
        environ={"NVCC_APPEND_FLAGS": "--threads 4"},
    ),
    Line(
        "quotes_variable",
        "-t 2 -ptx macros.cu",
        environ={"NVCC_PREPEND_FLAGS": '-DX="a b"', "NVCC_APPEND_FLAGS": "-o x.ptx"},
    ),
    Line("threads_differ", "-t 2 -t4 -ptx a.cu", "bypass:irremovable_option"),
    Line(
        "threads_option_file", "-optf t.txt -ptx a.cu", "bypass:irremovable_option", files={"t.txt": "-t 2"}
    ),
    Line("threads_wrong", "-t two -c a.cu -o a.o", "bypass:irremovable_option"),
    Line("jobserver", "-jobserver -c a.cu -o a.o", "bypass:irremovable_option", since=(12, 0)),
    Line("host_options_quoted", "-Xcompiler '-fPIC -O2' --compiler-options=-fno-exceptions -c a.cu"),
    Line("host_options_apostrophes", "--compiler-options \"'-fPIC'\" -Xcompiler \"'-DX=a b'\" -c macros.cu"),
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
    Line("define_long", "--define-macro X=1,Z --undefine-macro=Z -ptx macros.cu"),
    Line("define_string_object", "'-DX=\"a b\"' -c macros.cu -o m.o"),
    Line("define_utf8", "-DX=smørrebrød -ptx macros.cu"),
    Line("define_number_sign", "'-DX=#1 # 2' -ptx macros.cu"),
    Line("define_backslash", "'-DX=a\\b\\\\c' -ptx macros.cu"),
    Line("define_dollar", "'-DX=$HOME' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_backtick", "'-DX=`echo 4`' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_newline", "'-DX=1\n2' -ptx macros.cu", "bypass:shell_expansion"),
    Line("define_semicolons", "'-DX=a;b&c|d<e>f' -ptx macros.cu"),
)

_ENVIRONMENT = (
    Line("append_flags", "-c a.cu", environ={"NVCC_APPEND_FLAGS": "-O2 -o x.o"}, is_shim=True),
    Line("both_flags", "a.cu", environ={"NVCC_PREPEND_FLAGS": "-ptx", "NVCC_APPEND_FLAGS": "-arch=sm_80"}),
    Line("flags_unknown", "-c a.cu", "bypass:unknown_option", environ={"NVCC_APPEND_FLAGS": "--nonsense"}),
    Line("ccbin_variable", "-ptx a.cu", environ={"NVCC_CCBIN": "{ccbin}"}),
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
        "bypass:unreadable_option_file",
        sources=("a.cu", "b.cu"),
        files={"one.txt": "-optf three.txt", "two.txt": "a.cu b.cu", "three.txt": "-fatbin -arch=sm_80"},
    ),
    Line("option_file_missing", "-optf none.txt -c a.cu", "bypass:unreadable_option_file"),
    Line("option_file_empty", "-ptx a.cu -optf empty.txt", files={"empty.txt": ""}),
)

LINES = (*_OPTIONS, *_DEFINES, *_ENVIRONMENT)
