"""The command lines that nvccache must carry out as nvcc does, as data, one module for each theme.

Every option of `nvcc --help` is in one of them at least: see test_command_line_options.py.
"""

from __future__ import annotations

from scenarios.same_result.lines import (
    code,
    driver,
    files,
    keeping,
    languages,
    links,
    messages,
    options,
    phases,
)
from scenarios.same_result.lines.line import Line

LINES: tuple[Line, ...] = (
    *phases.LINES,
    *files.LINES,
    *options.LINES,
    *messages.LINES,
    *links.LINES,
    *languages.LINES,
    *code.LINES,
    *driver.LINES,
    *keeping.LINES,
)
# What runs by default: each outcome, each mode, and each way to give a file or an option, once.
_NAMES = """
phases: compile ptx cubin fatbin cuda_to_cpp native same_base_name cpp ptx_to_cubin no_text
    standard_input dollar_path backslash_output
files: output_standard output_nowhere output_is_dangling_link mmd_mp
options: line_info threads_wrong source_in_ptx both_flags ccbin_variable option_file_missing
messages: host_warning device_error missing_header cubin_of_two assembler_error unknown_option
    no_arguments_shim version dryrun verbose host_dependencies
links: executable link_objects device_link_archive device_link_undefined library_unnamed
    no_device_link_objects
code: controls_file
driver: no_profile clean time_trace
keeping: keep keep_directory_alone
"""
# Which of these have the real headers also by default, when all others have a toolkit with next to none.
WITH_CUDA_HEADERS = frozenset(("compile",))
BY_DEFAULT = frozenset(name for name in _NAMES.split() if not name.endswith(":"))
# Of these, what is compiled again after an edit: of a source, of PTX and of a header.
EDITED_BY_DEFAULT = frozenset(("ptx", "ptx_to_cubin", "mmd_mp"))
