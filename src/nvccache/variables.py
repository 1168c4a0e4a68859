"""The environment variables that can reach an output, by who reads them.

Seen with a getenv interposer on CUDA 11.8 to 13.5 and gcc 12; the names of temporary directories reach
nothing. Part of the hot path: one list serves the keys of stages and those of whole calls.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_EDG = ("EDG_BASE", "EDG_MODULES_PATH", "USR_INCLUDE")
_LOCALE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
_HOST = (
    *_LOCALE,
    "BINUTILS_ROOT",
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "GCC_COMPARE_DEBUG",
    "GCC_EXEC_PREFIX",
    "GCC_EXTRA_DIAGNOSTIC_OUTPUT",
    "GCC_ROOT",
    "G++_ROOT",
    "SOURCE_DATE_EPOCH",
)
OF_STAGE = {
    "host_preprocess": _HOST,
    "device_preprocess": _HOST,
    "cudafe": (*_EDG, *_LOCALE),
    "cicc": (
        *_EDG,
        *_LOCALE,
        "LIBNVVM_DISABLE_CONCURRENT_API",
        "LLVM_OVERRIDE_PRODUCER",
        "NVVMCCWIZ",
        "NVVM_IR_VER_CHK",
        "NV_NVVM_VERSION",
    ),
    "ptxas": (),
    "fatbinary": (),
    "host_compile": _HOST,
    "nvlink": (
        "AS_SECURE_LOG_FILE",
        "CAN_FINALIZE_DEBUG",
        "LIBNVVM_DISABLE_CONCURRENT_API",
        "LIBNVVM_NVVM_VERSION",
        "LIBRARY_PATH",
        "LLVM_OVERRIDE_PRODUCER",
        "NVVM_IR_VER_CHK",
        "NV_NVVM_VERSION",
    ),
}
# They reach diagnostics only where an option asks for colours, since no tool that is run has a terminal.
COLOUR_OPTIONS = (
    "-fdiagnostics-color",
    "-fcolor-diagnostics",
    "-fdiagnostics-urls",
    "-fansi-escape-codes",
)
OF_COLOURS = ("GCC_COLORS", "GCC_URLS", "TERM", "TERM_URLS")
# Their words are arguments; see invocation.py.
OF_ARGUMENTS = ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
# What the dynamic loader of every tool heeds: which libraries it loads, and what they see of the processor.
OF_LOADER = (
    "GLIBC_TUNABLES",
    "LD_ASSUME_KERNEL",
    "LD_AUDIT",
    "LD_DYNAMIC_WEAK",
    "LD_HWCAP_MASK",
    "LD_LIBRARY_PATH",
    "LD_ORIGIN_PATH",
    "LD_PRELOAD",
)
# Each makes a tool write further files, which bypasses the cache.
OF_SIDE_OUTPUTS = (
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "GCC_COMPARE_DEBUG",
    "CC_LOG_DIAGNOSTICS",
    "CC_PRINT_HEADERS",
    "CC_PRINT_INTERNAL_STAT",
    "CC_PRINT_OPTIONS",
    "CC_PRINT_PROC_STAT",
    "CCC_OVERRIDE_OPTIONS",
    "DUMP_KNOBS_TO_FILE",
)
# The driver: where it finds tools, and the variables that nvcc.profile adds to or that name options.
_OF_DRIVER = (
    "CICC_PATH",
    "CUDAFE_FLAGS",
    "CUDA_ROOT",
    "INCLUDES",
    "LIBRARIES",
    "LLVMC_FLAGS",
    "NVCC_CCBIN",
    "NVLINK_FLAGS",
    "NVVMIR_LIBRARY_DIR",
    "NVVM_FLAGS",
    "OCG_FLAGS",
    "PATH",
    "POSIXLY_CORRECT",
    "PTXAS_FLAGS",
    "SYSTEM_INCLUDES",
    "TOP",
    "_CUDART_",
    "_HERE_",
    "_NVVM_BRANCH_",
    "_NVVM_BRANCH_SUFFIX_",
    "_SPACE_",
    "_TARGET_DIR_",
    "_TARGET_SIZE_",
    "_THERE_",
    # clang as host compiler
    "CLANG_CONFIG_FILE_SYSTEM_DIR",
    "CLANG_CONFIG_FILE_USER_DIR",
    "CLANG_NO_DEFAULT_CONFIG",
    "SDKROOT",
)
# What transcripts set: where the toolkit is, and what has gone into the words of commands.
_OF_TRANSCRIPTS = frozenset(
    (
        "CICC_PATH",
        "CUDAFE_FLAGS",
        "CUDA_ROOT",
        "INCLUDES",
        "LD_LIBRARY_PATH",
        "LIBRARIES",
        "NVVMIR_LIBRARY_DIR",
        "PATH",
        "PTXAS_FLAGS",
        "SYSTEM_INCLUDES",
        "TOP",
        "_CUDART_",
        "_HERE_",
        "_NVVM_BRANCH_",
        "_NVVM_BRANCH_SUFFIX_",
        "_SPACE_",
        "_TARGET_DIR_",
        "_TARGET_SIZE_",
        "_THERE_",
        *OF_ARGUMENTS,
    )
)
# Everything that can make a difference to a call whose arguments are the same; OF_COLOURS for some.
OF_CALL = tuple(
    sorted(
        {
            *(name for names in OF_STAGE.values() for name in names),
            *OF_SIDE_OUTPUTS,
            *OF_LOADER,
            *_OF_DRIVER,
        }
    )
)


def not_known(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the variables set by a transcript that may be meant for any tool."""
    return tuple(sorted(set(names) - _OF_TRANSCRIPTS))
