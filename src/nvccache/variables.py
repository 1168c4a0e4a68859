"""Lists of environment variables: those that are asked for unseen, and those that nvccache heeds itself."""

from __future__ import annotations

# They reach diagnostics only where an option asks for colours, since no tool that is run has a terminal.
COLOUR_OPTIONS = (
    "-fdiagnostics-color",
    "-fcolor-diagnostics",
    "-fdiagnostics-urls",
    "-fansi-escape-codes",
)
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
# What the C library of every program heeds without asking by the functions that are observed.
OF_LIBC = (
    "CHARSET",
    "GCONV_PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "LOCPATH",
    "NLSPATH",
    "OUTPUT_CHARSET",
    "POSIXLY_CORRECT",
)
OF_DATES = ("TZ", "TZDIR")  # where a date is written, such as by `ls -l`
