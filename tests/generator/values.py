"""What options are given on random command lines: values that nvcc takes, and values that it does not.

Nothing here names a file outside the working directory, since nvcc may write to files that options name.
"""

from __future__ import annotations

Words = tuple[str, ...]


def _both(good: str, odd: str, more: Words = (), odder: Words = ()) -> tuple[Words, Words]:
    """Values that nvcc takes, and values that it may not take; those with blanks apart."""
    return (*good.split(), *more), (*odd.split(), *odder)


SOURCES = ("a.cu", "b.cu", "internal.cu", "macros.cu", "headers.cu", "device_warning.cu")
OTHER_INPUTS = ("host.cpp", "plain.c", "kernel.ptx", "one.o", "two.o", "libtwo.a", "sub dir/c.cu")
_ODD_NAMES = ('a"b.cu', "a\\b.cu", *"a,b.cu a'b.cu a$b.cu a;b.cu a#b.cu a=b.cu a\udcffb.cu".split())
ODD_INPUTS = (
    *_ODD_NAMES,
    *("", " ", "-"),
    *"missing.cu missing.o dir.cu no_suffix x.cubin x.fatbin x.cu.cpp.ii x.so ./a.cu smørrebrød.cu".split(),
)
# The source of which an input is a copy, if it is not itself in scenarios/support/sources.py.
COPIES = dict.fromkeys(("sub dir/c.cu", "no_suffix", "smørrebrød.cu", *_ODD_NAMES), "b.cu")

# With weights.
MODES = {"compile": 30, "ptx": 14, "cubin": 10, "fatbin": 8, "device-c": 12, "device-w": 3, "device-link": 6}
MODES |= {"": 9, "shared": 3, "optix-ir": 2, "ltoir": 1, "cuda": 1, "lib": 1, "relocatable-link": 1}
MODES |= {"preprocess": 1, "generate-dependencies": 1, "generate-nonsystem-dependencies": 1}
OUTPUTS = ("x", "x.o", "x.ptx", "x.y.z", "out/x.o", "a.o", "./x.o", "x,y.o", "x y.o", "lib.so", "x'.o", "x.d")
OUTPUT_EXTENSIONS = {"ptx": ".ptx", "cubin": ".cubin", "fatbin": ".fatbin", "optix-ir": ".optixir"}
OUTPUT_EXTENSIONS |= {"ltoir": ".ltoir", "cuda": ".cu.cpp.ii", "": "", "shared": ".so", "lib": ".a"}

# They ask for something else than a compile, and would leave few lines that compile.
RARE = frozenset(
    "clean-targets dryrun help list-gpu-arch list-gpu-code version run lib m32 options-file".split()
)
COMMON = (
    *("define-macro", "include-path", "compiler-options", "ptxas-options") * 4,
    *("undefine-macro", "pre-include", "system-include", "std", "optimize", "threads", "library") * 3,
    *"""
    debug device-debug generate-line-info use_fast_math expt-relaxed-constexpr extended-lambda
    disable-warnings resource-usage restrict m64 no-exceptions keep-device-functions
    Wno-deprecated-gpu-targets extra-device-vectorization dlink-time-opt source-in-ptx
    library-path relocatable-device-code default-stream maxrregcount frandom-seed diag-suppress Werror fmad
    cudart linker-options nvlink-options cicc-options cudafe-options x compiler-bindir Ofast-compile
    """.split(),
)

# Characters too many in the text of a variable or an option file.
SPOILING = ('" "', "  ", "\t", "\n", "\r", "\x0b", *'" "" \\ \\" \\\\ \' , = - $HOME \udcff #'.split())
# Words that nvcc gives to the host compiler where it is asked to: such that it takes, and others.
FORWARDED_WORDS = _both(
    "-Wall -fPIC -pthread -fno-rtti -Wno-unused -ffast-math -fvisibility=hidden -Wextra",
    "-P -fdump-tree-all --coverage -march=native -MQ -fplugin=none -f\udcff --param=a,b -f'",
)
# Words that are no option of nvcc's, or the beginning of one.
STRAY_WORDS = tuple(
    """
    -Wall -fPIC -pthread -O -o - -- --- -=x =x --= -o= -o=x=y --o=x --output-file -MD=1 -c=true
    -c=false -g=false -rdc -arch -Dx -Xcompiler -Xptxas= -t -tdump -t4x -Os -O3x @host.txt -optf
    -optf=no.txt --cicc-prefix -ok -noth -\udcff \udcfe\udcff -D\udcff -I -l -Wno-unused
    -march=native --std -ccbin -gencode= -MP -MF -MT= -E -v -keep -dryrun --version -h
    """.split()
)

_ARCHITECTURES, _ODD_ARCHITECTURES = _both(
    "sm_80 sm_80 sm_80 sm_86 compute_80 sm_90 sm_90a lto_80",
    "sm_1 sm_52 compute_35 80 sm_80,sm_86 [sm_80] sm_100f SM_80",
    odder=("",),
)
_SWITCHED = ("true", "false"), ("x", "", "1")
ANY = ("1", "true", "false", "x"), ("", " ", "a b", "-c", "x\udcff", "a,b")
VALUES: dict[str, tuple[Words, Words]] = {
    "define-macro": _both(
        "X X=1 X=2 Q X=a,Q=3 X=(1) X= X=f(1,2) X='c' X=a=b X=é",
        ', X=$HOME X=\udcff X=;true X=* X=[1] X=# = 1X -c X=a,,b, X=" X=\\ X=\\"s\\" X=a\\b\\\\c',
        ('X="a b"',),
        ("", "X=`echo 1`", "X=1\n2", "X=\t"),
    ),
    "undefine-macro": _both("X Q X,Q", "X=1 ,", odder=("",)),
    "include-path": _both(". include include,. no", ', "inc,lude" in\\c i\udcff', ("sub dir",), ("",)),
    "system-include": _both("include . include,.", "in$c i;c", odder=("",)),
    "pre-include": _both("one.h one.h,one.h ./one.h", "no.h", odder=("", "one h")),
    "library-path": _both(". include .,include", "l$x", odder=("",)),
    "library": _both("m two m,two", "no :libtwo.a l;l", odder=("",)),
    "compiler-options": _both(
        """
        -fPIC -O2 -Wall -Wall,-Wextra -DQ=1,-fno-exceptions -Wl,-z,now -g -g0 -march=native
        -include,one.h -fvisibility=hidden -pipe "-DQ=1,2" -DQ=\\,
        """,
        """
        , -P -MD -MD,-MF,host.d -Wp,-MD,h.d -save-temps --coverage -gsplit-dwarf -Wa,-a=list -o,y.o
        @host.txt -specs=none -no-such-option -DQ=$HOME -DQ=[1] -fdiagnostics-color=always "-DQ=1 -DQ=\\
        -frecord-gcc-switches -E -x,c -DQ=\udcff -c >f -ftime-report -std=c++20 -m32
        """,
        ("-fPIC -O1", "-isystem include"),
        ("", "-DQ='a b'"),
    ),
    "ptxas-options": _both(
        "-v -O1 -O2,-dlcm=cg --warn-on-spills --maxrregcount=32 -O3,-v -g",
        ', -o,y --no-such -v,-c -optf,o.txt -O9 --verbose=1 -arch=sm_90 "-v',
        ("-v -O1",),
        ("",),
    ),
    "cicc-options": _both("-O1 -O3", "--no-such -o,y --keep=k", odder=("",)),
    "cudafe-options": _both("--diag_suppress=177 --display_error_number", "--no-such --pch", odder=("",)),
    "fatbin-options": _both("-compress-all --compress=true", "--no-such --create=y", odder=("",)),
    "nvlink-options": _both("-v --suppress-stack-size-warning", "--no-such -o,y", odder=("",)),
    "linker-options": _both("-z,now --no-demangle -rpath,.", "--no-such", odder=("", '-rpath,"a b"')),
    "diag-suppress": _both("177 177,128", "x -1", odder=("",)),
    "diag-error": _both("20 128", "177", odder=("",)),
    "Werror": _both(
        "all-warnings cross-execution-space-call reorder,deprecated-declarations",
        "nonsense default-stream-launch",
        odder=("",),
    ),
    "entries": _both("kernel scale,fill", "", odder=("",)),
    "optimize": _both("0 1 2 3", "9 x 03 -1 s", odder=("",)),
    "threads": _both("1 2 4 0 02", "x -1 100000 1.5 ٣", odder=("",)),
    "std": _both("c++17 c++14 c++20 c++11", "c++99 gnu++17 c++2", odder=("",)),
    "maxrregcount": _both("32 64", "x -1 0", odder=("",)),
    "default-stream": _both("legacy per-thread null", "x", odder=("",)),
    "cudart": _both("static shared none", "x", odder=("",)),
    "machine": _both("64", "32 x", odder=("",)),
    "x": _both("cu c++ c", "ptx x CU", odder=("",)),
    "relocatable-device-code": _SWITCHED,
    "ftz": _SWITCHED,
    "fmad": _SWITCHED,
    "frandom-seed": _both("seed s2", "$x -c", odder=("", "a b")),
    "compress-mode": _both("size speed none", "x"),
    "output-file": (OUTPUTS, ("", "-", "no/x.o", "out", "x$y.o", 'x"y.o', "x\udcfe.o", "-x", "a.cu", "x\ny")),
    "output-directory": _both("out . ./out", "no o$t out/ ou\udcfft", odder=("",)),
    "dependency-output": _both("x.d out/y.d", "- no/x.d x$.d", ("y d",), ("",)),
    "dependency-target-name": _both("t x.o", "a$b t\udcff", ("my target",), ("",)),
    "compiler-bindir": _both("g++ gcc", "no ./g++ out", odder=("",)),
    "gpu-architecture": (_ARCHITECTURES, _ODD_ARCHITECTURES),
    "gpu-code": (
        ("sm_80", "compute_80", "sm_80,compute_80", "sm_80,sm_86", "lto_80", '"sm_80,sm_86"', "sm_90"),
        _ODD_ARCHITECTURES,
    ),
    "generate-code": _both(
        """
        arch=compute_80,code=sm_80 arch=compute_80,code=compute_80 arch=compute_90,code=sm_90
        arch=compute_80,code=[sm_80,compute_80] arch=compute_80,code=[sm_80,sm_86]
        arch=compute_80,code=lto_80 code=sm_80,arch=compute_80 arch=compute_80,code="sm_80,sm_86"
        """,
        "arch=compute_80 code=sm_80 arch=sm_80,code=sm_80 compute_80 arch=,code=",
        odder=("",),
    ),
    "options-file": _both("empty.txt", "no.txt empty.txt,empty.txt dir.cu", odder=("",)),
    "time": _both("t.csv", "-", odder=("",)),
    "fdevice-time-trace": _both("t.json", "-", odder=("",)),
    "keep-dir": _both("out", "no", odder=("",)),
    "Ofast-compile": _both("0 min mid max", "x", odder=("",)),
    "host-linker-script": _both("use-lcs", "gen-lcs x"),
    "target-directory": _both("x86_64-linux", "no"),
    "libdevice-directory": _both(".", "", odder=("",)),
    "archiver-binary": _both("ar", "no"),
}
