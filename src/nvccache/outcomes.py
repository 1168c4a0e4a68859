"""The closed lists of outcomes, of reasons for bypasses, and of faults.

Owns the names that `nvccache stats` counts; does not know how a call gets its outcome. The names are plain
strings, since loading an Enum would slow down every hit.
"""

from __future__ import annotations

DIRECT_HIT = "direct_hit"  # the whole call was answered from a record; no tool ran
STAGE_HIT = "stage_hit"  # every compile stage came from the cache
PARTIAL_HIT = "partial_hit"  # some compile stages came from the cache, the others ran
MISS = "miss"  # no compile stage came from the cache
QUERY_HIT = "query_hit"  # a query (-M, -E, --version) that was answered from a record
QUERY_MISS = "query_miss"  # a query that nvcc answered
BYPASS = "bypass"  # nvccache left the call to nvcc on purpose
FAILED = "failed"  # the compile itself failed
FAULT = "fault"  # nvcc ran because of an error in nvccache

OUTCOMES = (DIRECT_HIT, STAGE_HIT, PARTIAL_HIT, MISS, QUERY_HIT, QUERY_MISS, BYPASS, FAILED, FAULT)

QUERIES = (QUERY_HIT, QUERY_MISS)

# Why a call was bypassed. Each reason is documented in docs/reference/outcomes.md.
REASONS = {
    "disabled": "NVCCACHE_DISABLE is set",
    "no_cache_directory": "there is no home directory, and NVCCACHE_DIR is not set",
    "foreign_directory": "the cache directory holds files but no CACHEDIR.TAG of nvccache",
    "unusable_cache": "the cache directory cannot be read",
    "nested": "the call comes from another nvccache call",
    "not_nvcc": "the launched command is not an nvcc",
    "information": "the call asks nvcc for information that is not recorded (--dryrun, no input, ...)",
    "library": "the call creates an archive",
    "preprocess_only": "the call preprocesses or lists dependencies in a form that is not recorded",
    "preprocessed_product": "the output is preprocessed text that names intermediate files (-cuda)",
    "names_temporary_file": "the output would name a temporary file (device links of .cubin and .ptx)",
    "run": "the call runs or deletes what it built",
    "standard_input": "an input file is standard input, a pipe or a device, or standard input is closed",
    "standard_output": "an output goes to standard output or a device file",
    "query_streams": "a query's output goes to a terminal, a closed stream, or the same file as its messages",
    "unknown_option": "the call has an option that nvccache does not know",
    "unreadable_option_file": "nvccache cannot read an option file as nvcc reads it",
    "unreadable_environment": "versions of nvcc split NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS differently",
    "irremovable_option": "-t or -jobserver is in an option file or NVCC_*_FLAGS, or causes a warning",
    "keeps_intermediates": "with -keep, -keep-dir, -save-temps or -objtemp nvcc keeps intermediate files",
    "verbose": "the call asks nvcc to print its commands (-v)",
    "time_report": "the call asks for a report of times (-time, -fdevice-time-trace)",
    "host_side_output": "the host compiler writes more files (-save-temps, -MD) or runs in another directory",
    "host_hidden_inputs": "a host compiler option reads files that no line marker names (@file, -specs, ...)",
    "host_hides_sources": "a host compiler option removes the line markers (-P)",
    "device_tool_files": "an option of ptxas, cicc or another device tool names a file",
    "environment_side_output": "an environment variable makes a tool write further files",
    "source_in_ptx": "--source-in-ptx copies lines of source files into the PTX",
    "scripted_nvcc": "nvcc is a script whose interpreter cannot preload libraries",
    "not_observable": "tools cannot be observed on this machine (`nvccache doctor` says why)",
    "dryrun_failed": "nvcc rejected the command line",
    "shell_expansion": "a command that nvcc would run needs a shell",
    "same_base_name": "two inputs have the same base name, so their intermediate files would collide",
    "unexplained": "nvccache does not understand the output of nvcc --dryrun",
    "missing_program": "a program that nvcc would run is missing",
    "nothing_to_cache": "the call has no stage that can be cached",
    "unwritable_output": "an output cannot be written where nvcc would write it",
    "odd_failure": "a stage failed, and nvcc ran the whole call again to report the failure",
}

# Why not all results of a call were stored; this does not affect the compile.
STORE_FAULTS = {
    "disk_full": "the cache's file system is full, or a quota is used up",
    "not_writable": "this user may not write to a part of the cache",
    "unreadable": "this user may not read a part of the cache",
    "foreign_directory": "the cache directory holds files but no CACHEDIR.TAG of nvccache",
    "other": "the cache's file system reported an error, which the log shows",
}

# Why a remote cache could not be used; the compile went on without it.
REMOTE_FAULTS = {
    "unreachable": "the remote cannot be reached, or the connection broke",
    "unusable_directory": "the remote's directory is missing or unusable (see `nvccache remote status`)",
    "timeout": "the remote answered too slowly",
    "denied": "the remote denies access",
    "bad_credentials": "the remote rejects the credentials, or requires credentials",
    "throttled": "the remote asks for fewer requests",
    "full": "the remote is full, or refuses an entry of this size",
    "tls": "the remote's certificate or encryption cannot be used",
    "not_installed": "the package for this remote is missing (`nvccache doctor` shows how to install it)",
    "broken": "the remote's answer cannot be used",
    "left_alone": "the remote was skipped, because it had failed in an earlier call",
}

# Why a stage ran here although it was sent to another machine.
EXECUTOR_FAULTS = {
    "unreachable": "the engine cannot be reached or does not answer in time, or the launcher did not start",
    "denied": "the engine denies access, or rejects the credentials",
    "no_workers": "no worker took the stage from the queue in time, or the engine is full",
    "failed": "the tool failed on the other machine, or its output is missing",
    "broken": "the engine or the worker cannot be used (`nvccache doctor` says why)",
}
