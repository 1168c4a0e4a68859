"""Whether line numbers can affect a stage's result: an allowlist of options with which they cannot.

To find results after comments were edited, keys leave out line markers (passes.py). This would give wrong
results with debug and line information, PTX with source, LTO-IR and OptiX-IR (bit code contains positions),
`cicc -O0` and `-Ofc` (code depends on line breaks), and with `-fsanitize` and `-flto` of the host compiler.
A list of these options would be wrong as soon as a toolkit adds one. The options listed here instead were
tried: when lines were moved, the output kept the same bytes (CUDA 11.8 to 13.5, g++ 11 and 12).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_CUDA_OPTIONS = frozenset(
    """
    --allow_managed --brief_diagnostics --c++11 --c++14 --c++17 --c++20 --colors --context_limit
    --device-c --device-hidden-visibility --diag_error --diag_suppress --diag_warn --display_error_number
    --extended-lambda --frandom-seed --gen_c_file_name --gen_device_file_name --gen_div_approx_ftz
    --gen_module_id_file --gnu_version --host-stub-linkage-explicit --include_file_name
    --keep-device-functions --m32 --m64 --module_id_file_name --no-device-int128 --no-version-ident
    --no_warnings --no_host_device_initializer_list --orig_src_file_name --orig_src_path_name
    --parse_templates --partial-link --pending_instantiations --promote_warnings --relaxed_constexpr
    --simt-only --static-host-stub --stub_file_name --unicode_source_kind -arch
    -extra-device-vectorization -fast-math -fmad -ftz -kernel-params-are-restrict -m32 -m64 -maxreg -o
    -prec_div -prec_sqrt -tused -w
    """.split()
)
_HOST_OPTIONS = frozenset(
    """
    -isystem -iquote -idirafter -pthread -pipe -w -c -x -o -ansi -pedantic -pedantic-errors
    -O -O0 -O1 -O2 -O3 -Os -Ofast
    -m32 -m64 -mssse3 -mfma -mf16c -mbmi -mbmi2 -mpopcnt -mlzcnt -maes -mpclmul -mcx16 -mrecip
    -fopenmp -falign-functions -fno-lto
    """.split()
)
_HOST_STARTS = tuple(
    """
    -D -U -I -std= -march= -mtune= -mavx -msse -mno- -mcmodel= -mprefer-vector-width= -mfpmath=
    -ftemplate-backtrace-limit= -ftemplate-depth- -ftemplate-depth= -fconstexpr-depth= -fconstexpr-loop-limit=
    -fconstexpr-ops-limit= -fmax-errors= -fexcess-precision= -finline-limit= -falign-functions= -fvisibility=
    -ffp-contract= -fabi-version= -fdiagnostics- -fmessage-length= -fno-diagnostics-
    -ffile-prefix-map= -fmacro-prefix-map= -fdebug-prefix-map=
    """.split()
)
# Names that can follow `-f` or `-fno-`.
_HOST_FEATURES = frozenset(
    """
    PIC pic PIE pie plt exceptions rtti strict-aliasing omit-frame-pointer fast-math math-errno
    trapping-math signed-zeros associative-math reciprocal-math finite-math-only unsafe-math-optimizations
    wrapv common function-sections data-sections unroll-loops tree-vectorize inline permissive signed-char
    unsigned-char stack-protector stack-protector-strong semantic-interposition visibility-inlines-hidden
    delete-null-pointer-checks asynchronous-unwind-tables threadsafe-statics sized-deallocation
    aligned-new gnu-unique stack-clash-protection unwind-tables operator-names char8_t gnu-keywords builtin
    rounding-math cx-limited-range lax-vector-conversions tree-slp-vectorize inline-functions
    strict-overflow strict-enums merge-all-constants elide-constructors use-cxa-atexit show-column
    """.split()
)
_FOR_OTHER_PROGRAMS = ("-Wa,", "-Wl,", "-Wp,")
# Options that wrappers add and with which line numbers do not matter: paths of programs, headers and
# libraries, link options, and hardening options of distributions.
_ADDED = (
    r"-[BLl].*|-Wl,.*|--sysroot=.*|-isysroot|-nostdinc(?:\+\+)?|-frandom-seed=.*|-fzero-call-used-regs=.*"
    r"|--param=ssp-buffer-size=\d+"
)
_SEPARATE_VALUE = "--param\n"


def matter_to_cuda_tool(argv: Sequence[str]) -> bool:
    """Whether line numbers may affect the outputs of cudafe++ or cicc, apart from diagnostics."""
    return not _CUDA_OPTIONS.issuperset(option.partition("=")[0] for option in _options(argv))


def matter_to_host_compiler(argv: Sequence[str]) -> bool:
    return not all(map(_is_listed, _options(argv)))


def matter_if_added(added: Sequence[str]) -> bool:
    """Whether line numbers may matter with the options that a wrapper adds (`@FILE` may contain any)."""
    whole = "\n".join(added).replace(_SEPARATE_VALUE, _SEPARATE_VALUE.replace("\n", "=")).split("\n")
    unknown = [token for token in whole if token and not re.fullmatch(_ADDED, token)]
    may_hold_more = any(token[:1] == "@" for token in unknown) or any("\n" in token for token in added)
    return may_hold_more or matter_to_host_compiler(["", *unknown])


def _is_listed(option: str) -> bool:
    if "\n" in option or option.startswith(_FOR_OTHER_PROGRAMS):
        return False
    if option in _HOST_OPTIONS or option.startswith(("-W", *_HOST_STARTS)):
        return True
    return option.startswith("-f") and option[2:].removeprefix("no-") in _HOST_FEATURES


def _options(argv: Sequence[str]) -> list[str]:
    return [token for token in argv[1:] if token.startswith("-")]
