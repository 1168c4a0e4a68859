"""nvcc's own options: the union of `nvcc --help` of CUDA 11.2, 11.8, 12.4, 13.0, 13.2 and 13.5.

Owns names and arities only; `tokens` matches argv with them. tests/unit/commandline/test_tokens.py checks
every documented option and its arity with the installed nvcc. The arity is what nvcc does, not what its help
says, which omits some values: as the last token, an option that needs a value gives `argument expected
after`. Long names have two dashes and short names one; nvcc accepts no other combination.
"""

from __future__ import annotations

SWITCH = "switch"  # no value, and `=value` is an error
VALUE = "value"  # one value, after `=` or as the next token; the last occurrence wins
OPTIONAL = "optional"  # like VALUE, but the value may be left out, and must follow `=`
LIST = "list"  # like VALUE, but every occurrence counts, and values are split at commas

# Long names, each with its short name after a colon; without a colon, both names are equal, and `name:` has
# no short name. Not in `nvcc --help`: aggressive-inline, fassociative-math, ffinite-math-only,
# fno-signed-zeros, no-device-inline, restrict-in-struct, cicc-options, cudafe-options and fatbin-options.
# host-relocatable-link was `-r` until CUDA 12; it affects only links.
_SWITCHES = """
    aggressive-inline allow-unsupported-compiler augment-host-linker-script:aug-hls clean-targets:clean
    compile:c compile-as-tools-patch:astoolspatch concat cubin cuda debug:g device-c:dc device-debug:G
    device-link:dlink device-w:dw disable-warnings:w display-error-number:err-no dlink-time-opt:dlto
    dont-use-profile:noprof dryrun enable-tile expt-extended-lambda expt-relaxed-constexpr extended-lambda
    extensible-whole-program:ewp extra-device-vectorization fassociative-math fatbin fdevice-syntax-only
    ffinite-math-only fno-signed-zeros force-cl-env-setup forward-unknown-opts
    forward-unknown-to-host-compiler forward-unknown-to-host-linker gen-opt-lto generate-dependencies:M
    generate-dependencies-with-compile:MD generate-dependency-targets:MP generate-line-info:lineinfo
    generate-nonsystem-dependencies:MM generate-nonsystem-dependencies-with-compile:MMD help:h
    host-relocatable-link:host-r jobserver keep keep-device-functions lib link list-gpu-arch:arch-ls
    list-gpu-code:code-ls lto ltoir m32 m64 no-align-double: no-compress no-device-inline:nodinline
    no-device-link:nodlink no-display-error-number:no-err-no no-exceptions:noeh
    no-host-device-initializer-list:nohdinitlist no-host-device-move-forward:nohdmoveforward
    objdir-as-tempdir:objtemp optix-ir preprocess:E profile:pg prune ptx relocatable-link:r
    relocatable-ptx:reloc-ptx resource-usage:res-usage restrict restrict-in-struct run
    safety-compatibility:safety-compat save-temps shared simt-only skip-ptx-semantics-check
    source-in-ptx:src-in-ptx tile-only tilebc tilecubin tilefatbin use-local-env use_fast_math utf-8
    verbose:v verbose2:v2 version:V Wconversion Wdefault-stream-launch Wext-lambda-captures-this
    Wmissing-launch-bounds Wno-deprecated-declarations Wno-deprecated-gpu-targets Wreorder
"""
_VALUES = """
    apply-controls archiver-binary:arbin brief-diagnostics:brief-diag compiler-bindir:ccbin compress-mode
    cudadevrt cudart default-stream dependency-drive-prefix:ddp dependency-output:MF
    dependency-target-name:MT device-entity-has-hidden-visibility device-stack-protector dopt
    drive-prefix:dp fdevice-sanitize fdevice-time-trace fdevice-time-trace-granularity fmad fmax-errors
    frandom-seed ftemplate-backtrace-limit ftemplate-depth ftz gpu-architecture:arch
    input-drive-prefix:idp jump-table-density:jtd keep-dir libdevice-directory:ldir machine:m maxrregcount
    optimize:O output-directory:odir output-file:o prec-div prec-sqrt qpp-config
    relocatable-device-code:rdc sanitize split-compile split-compile-extended static-global-template-stub
    std stdlib target-directory:target-dir threads:t tile-preview time version-ident:dQ x
"""
_OPTIONALS = """
    host-linker-script:hls Ofast-compile:Ofc
"""
_LISTS = """
    archive-options:Xarchive cicc-options:Xcicc compiler-options:Xcompiler cudafe-options:Xcudafe
    define-macro:D diag-error diag-suppress diag-warn entries:e fatbin-options:Xfatbin
    generate-code:gencode gpu-code:code include-path:I library:l library-path:L linker-options:Xlinker
    nvlink-options:Xnvlink nvprune-options:Xnvprune optimization-info:opt-info options-file:optf
    pre-include:include ptxas-options:Xptxas run-args system-include:isystem tileiras-options:Xtileiras
    undefine-macro:U Werror
"""

# Synonym -> canonical name.
ALIASES = {"expt-extended-lambda": "extended-lambda", "lto": "dlink-time-opt", "save-temps": "keep"}

# Short options whose value, a text or a number, may follow directly, without `=` or a blank. nvcc takes
# `-tdump` for a `-t` with a wrong number and rejects it, even if it forwards unknown options.
GLUED_TEXT = {
    "D": "define-macro",
    "I": "include-path",
    "L": "library-path",
    "U": "undefine-macro",
    "l": "library",
}
GLUED_NUMBER = {"O": "optimize", "t": "threads"}

# Lists of paths, in which nvcc does not treat a backslash as an escape.
PATH_LISTS = frozenset(["include-path", "library-path", "options-file", "pre-include", "system-include"])

# Options that nvcc accepts, but its help omits, so that their effects are unknown: some put a command before
# every tool, some take a value. nvcc never forwards them to the host compiler.
UNSUPPORTED = frozenset(
    """
    all-prefix cicc-prefix cpp-prefix cuda-api-version cudafe-prefix dD device-compilation dump-builtins
    export-dir extern-mode global_var intern-mode legacy-launch-seq limit-fold-fp no-libdevice
    no-lineinfo-ia no-shadow-functions no-strong-global-assumptions nvasm-loopback nvasm-options
    nvdisasm-options nvlink-prefix nvvm-version ok okey ptxas-prefix tdump tool-name use-cubin uumn
    Xnvasm Xnvdisasm
    """.split()
)

ARITIES: dict[str, str] = {}  # long name -> arity
SPELLINGS_OF: dict[str, tuple[str, ...]] = {}  # long name -> tokens as typed, with dashes
for _arity, _names in ((SWITCH, _SWITCHES), (VALUE, _VALUES), (OPTIONAL, _OPTIONALS), (LIST, _LISTS)):
    for _name in _names.split():
        _long, _colon, _short = _name.partition(":")
        ARITIES[_long] = _arity
        _short = _short if _colon else _long
        SPELLINGS_OF[_long] = ("--" + _long, "-" + _short) if _short else ("--" + _long,)
SPELLINGS = {token: name for name, tokens in SPELLINGS_OF.items() for token in tokens}
