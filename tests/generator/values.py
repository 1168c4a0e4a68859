"""What options are given on random command lines: values that nvcc takes, and values that it does not.

Nothing here names a file outside the working directory, since nvcc may write to files that options name.
"""

from __future__ import annotations

SOURCES = ("a.cu", "b.cu", "internal.cu", "macros.cu", "headers.cu", "device_warning.cu")
OTHER_INPUTS = ("host.cpp", "plain.c", "kernel.ptx", "one.o", "two.o", "libtwo.a", "sub dir/c.cu")
ODD_INPUTS = (
    'a"b.cu',
    "a\\b.cu",
    "",
    " ",
    *"""
    missing.cu missing.o dir.cu no_suffix x.cubin x.fatbin x.cu.cpp.ii x.so ./a.cu a,b.cu a'b.cu
    a$b.cu a;b.cu a#b.cu a=b.cu smørrebrød.cu a\udcffb.cu -
    """.split(),
)
# The source of which an input is a copy, if it is not itself in scenarios/support/sources.py.
COPIES = {
    "sub dir/c.cu": "b.cu",
    "no_suffix": "b.cu",
    **{name: "b.cu" for name in ODD_INPUTS if len(name) > 4 and name.endswith("b.cu")},
    "smørrebrød.cu": "b.cu",
}

MODES = {  # with weights
    "compile": 30,
    "ptx": 14,
    "cubin": 10,
    "fatbin": 8,
    "device-c": 12,
    "device-w": 3,
    "device-link": 6,
    "": 9,
    "shared": 3,
    "optix-ir": 2,
    "ltoir": 1,
    "cuda": 1,
    "lib": 1,
    "relocatable-link": 1,
    "preprocess": 1,
    "generate-dependencies": 1,
    "generate-nonsystem-dependencies": 1,
}
OUTPUTS = ("x", "x.o", "x.ptx", "x.y.z", "out/x.o", "a.o", "./x.o", "x,y.o", "x y.o", "lib.so", "x'.o", "x.d")
ODD_OUTPUTS = ("", "-", "no/x.o", "out", "x$y.o", 'x"y.o', "x\udcfe.o", "-x", "a.cu", "x\ny")
OUTPUT_EXTENSIONS = {
    "ptx": ".ptx",
    "cubin": ".cubin",
    "fatbin": ".fatbin",
    "optix-ir": ".optixir",
    "ltoir": ".ltoir",
    "cuda": ".cu.cpp.ii",
    "": "",
    "shared": ".so",
    "lib": ".a",
}

ARCHITECTURES = ("sm_80", "sm_80", "sm_80", "sm_86", "compute_80", "sm_90", "sm_90a", "lto_80")
MANY_ARCHITECTURES = ("native", "all-major", "all")
ODD_ARCHITECTURES = ("sm_1", "sm_52", "compute_35", "80", "sm_80,sm_86", "[sm_80]", "", "sm_100f", "SM_80")
CODES = ("sm_80", "compute_80", "sm_80,compute_80", "sm_80,sm_86", "lto_80", '"sm_80,sm_86"', "sm_90")
GENERATED = (
    'arch=compute_80,code="sm_80,sm_86"',
    *"""
    arch=compute_80,code=sm_80 arch=compute_80,code=compute_80 arch=compute_90,code=sm_90
    arch=compute_80,code=[sm_80,compute_80] arch=compute_80,code=[sm_80,sm_86]
    arch=compute_80,code=lto_80 code=sm_80,arch=compute_80
    """.split(),
)
ODD_GENERATED = ("arch=compute_80", "code=sm_80", "arch=sm_80,code=sm_80", "compute_80", "", "arch=,code=")

_MACROS = ("X", "X=1", "X=2", "Q", "X=a,Q=3", 'X="a b"', "X=(1)", "X=", "X=f(1,2)", "X='c'", "X=a=b", "X=é")
_ODD_MACROS = (
    "",
    "X=`echo 1`",
    'X="',
    'X=\\"s\\"',
    "X=a\\b\\\\c",
    "X=1\n2",
    "X=\t",
    "X=\\",
    *"""
    , X=$HOME X=\udcff X=;true X=* X=[1] X=# = 1X -c X=a,,b,
    """.split(),
)
_HOST = (
    "-fPIC -O1",
    '"-DQ=1,2"',
    "-DQ=\\,",
    "-isystem include",
    *"""
    -fPIC -O2 -Wall -Wall,-Wextra -DQ=1,-fno-exceptions -Wl,-z,now -g -g0 -march=native
    -include,one.h -fvisibility=hidden -pipe
    """.split(),
)
_ODD_HOST = (
    "",
    '"-DQ=1',
    "-DQ='a b'",
    "-DQ=\\",
    *"""
    , -P -MD -MD,-MF,host.d -Wp,-MD,h.d -save-temps --coverage -gsplit-dwarf -Wa,-a=list -o,y.o
    @host.txt -specs=none -no-such-option -DQ=$HOME -DQ=[1] -fdiagnostics-color=always
    -frecord-gcc-switches -E -x,c -DQ=\udcff -c >f -ftime-report -std=c++20 -m32
    """.split(),
)
_PTXAS = ("-v", "-O1", "-O2,-dlcm=cg", "--warn-on-spills", "-v -O1", "--maxrregcount=32", "-O3,-v", "-g")
_ODD_PTXAS = (
    "",
    '"-v',
    *"""
    , -o,y --no-such -v,-c -optf,o.txt -O9 --verbose=1 -arch=sm_90
    """.split(),
)

# Characters too many in the text of a variable or an option file.
SPOILING = (
    '"',
    '""',
    "\\",
    '\\"',
    "\t",
    "\n",
    "  ",
    "\r",
    "\x0b",
    "\\\\",
    '" "',
    *"""
    ' , = - $HOME \udcff #
    """.split(),
)

# Words that nvcc gives to the host compiler where it is asked to: such that it takes, and others.
FORWARDED_WORDS = (
    tuple(
        """
        -Wall -fPIC -pthread -fno-rtti -Wno-unused -ffast-math -fvisibility=hidden -Wextra
        """.split()
    ),
    tuple(
        """
        -P -fdump-tree-all --coverage -march=native -MQ -fplugin=none -f\udcff --param=a,b -f'
        """.split()
    ),
)

# Option -> (values that nvcc takes, values that it may not take).
VALUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "define-macro": (_MACROS, _ODD_MACROS),
    "undefine-macro": (("X", "Q", "X,Q"), ("", "X=1", ",")),
    "include-path": (
        (".", "include", "sub dir", "include,.", "no"),
        ("", ",", '"inc,lude"', "in\\c", "i\udcff"),
    ),
    "system-include": (("include", ".", "include,."), ("", "in$c", "i;c")),
    "pre-include": (("one.h", "one.h,one.h", "./one.h"), ("", "no.h", "one h")),
    "library-path": ((".", "include", ".,include"), ("", "l$x")),
    "library": (("m", "two", "m,two"), ("", "no", ":libtwo.a", "l;l")),
    "compiler-options": (_HOST, _ODD_HOST),
    "ptxas-options": (_PTXAS, _ODD_PTXAS),
    "cicc-options": (("-O1", "-O3"), ("", "--no-such", "-o,y", "--keep=k")),
    "cudafe-options": (("--diag_suppress=177", "--display_error_number"), ("", "--no-such", "--pch")),
    "fatbin-options": (("-compress-all", "--compress=true"), ("", "--no-such", "--create=y")),
    "nvlink-options": (("-v", "--suppress-stack-size-warning"), ("", "--no-such", "-o,y")),
    "linker-options": (("-z,now", "--no-demangle", "-rpath,."), ("", "--no-such", '-rpath,"a b"')),
    "archive-options": (("-D",), ("",)),
    "run-args": (("1,2",), ("",)),
    "diag-suppress": (("177", "177,128"), ("", "x", "-1")),
    "diag-warn": (("177",), ("",)),
    "diag-error": (("20", "128"), ("", "177")),
    "Werror": (
        ("all-warnings", "cross-execution-space-call", "reorder,deprecated-declarations"),
        ("", "nonsense", "default-stream-launch"),
    ),
    "optimization-info": (("inline",), ("", "x")),
    "entries": (("kernel", "scale,fill"), ("",)),
    "nvprune-options": (("-v",), ("",)),
    "tileiras-options": (("-v",), ("",)),
    "optimize": (("0", "1", "2", "3"), ("9", "x", "", "03", "-1", "s")),
    "threads": (("1", "2", "4", "0", "02"), ("x", "", "-1", "100000", "1.5", "٣")),
    "std": (("c++17", "c++14", "c++20", "c++11"), ("c++99", "", "gnu++17", "c++2")),
    "maxrregcount": (("32", "64"), ("x", "", "-1", "0")),
    "default-stream": (("legacy", "per-thread", "null"), ("x", "")),
    "cudart": (("static", "shared", "none"), ("x", "")),
    "cudadevrt": (("static", "none"), ("x", "")),
    "machine": (("64",), ("32", "x", "")),
    "x": (("cu", "c++", "c"), ("ptx", "x", "", "CU")),
    "relocatable-device-code": (("true", "false"), ("x", "", "1")),
    "ftz": (("true", "false"), ("x", "")),
    "prec-div": (("true", "false"), ("1",)),
    "prec-sqrt": (("true", "false"), ("1",)),
    "fmad": (("true", "false"), ("",)),
    "split-compile": (("2", "1"), ("x", "0")),
    "split-compile-extended": (("2",), ("x",)),
    "frandom-seed": (("seed", "s2"), ("", "a b", "$x", "-c")),
    "ftemplate-depth": (("500",), ("x",)),
    "ftemplate-backtrace-limit": (("5",), ("x",)),
    "fmax-errors": (("5",), ("x",)),
    "static-global-template-stub": (("true", "false"), ("x",)),
    "device-entity-has-hidden-visibility": (("true", "false"), ("x",)),
    "compress-mode": (("size", "speed", "none"), ("x",)),
    "jump-table-density": (("50",), ("200",)),
    "dopt": (("on",), ("off", "x")),
    "brief-diagnostics": (("true", "false"), ("x",)),
    "device-stack-protector": (("false",), ("true", "x")),
    "output-directory": (("out", ".", "./out"), ("", "no", "o$t", "out/", "ou\udcfft")),
    "dependency-output": (("x.d", "out/y.d", "y d"), ("", "-", "no/x.d", "x$.d")),
    "dependency-target-name": (("t", "my target", "x.o"), ("", "a$b", "t\udcff")),
    "compiler-bindir": (("g++", "gcc"), ("", "no", "./g++", "out")),
    "gpu-code": (CODES, ODD_ARCHITECTURES),
    "generate-code": (GENERATED, ODD_GENERATED),
    "gpu-architecture": (ARCHITECTURES, ODD_ARCHITECTURES),
    "time": (("t.csv",), ("", "-")),
    "fdevice-time-trace": (("t.json",), ("", "-")),
    "keep-dir": (("out",), ("", "no")),
    "Ofast-compile": (("0", "min", "mid", "max"), ("x", "")),
    "host-linker-script": (("use-lcs",), ("gen-lcs", "x")),
    "target-directory": (("x86_64-linux",), ("no",)),
    "stdlib": (("libstdc++",), ("x", "libc++")),
    "libdevice-directory": ((".",), ("",)),
    "archiver-binary": (("ar",), ("no",)),
}
ANY = (("1", "true", "false", "x"), ("", " ", "a b", "-c", "x\udcff", "a,b"))

# Words that are no option of nvcc's, or the beginning of one.
STRAY_WORDS = tuple(
    """
    -Wall -fPIC -pthread -O -o - -- --- -=x =x --= -o= -o=x=y --o=x --output-file -MD=1 -c=true
    -c=false -g=false -rdc -arch -Dx -Xcompiler -Xptxas= -t -tdump -t4x -Os -O3x @host.txt -optf
    -optf=no.txt --cicc-prefix -ok -noth -\udcff \udcfe\udcff -D\udcff -I -l -Wno-unused
    -march=native --std -ccbin -gencode= -MP -MF -MT= -E -v -keep -dryrun --version -h
    """.split()
)
