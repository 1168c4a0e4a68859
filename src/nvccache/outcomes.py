"""The closed lists of what can become of a call, why nvcc was left to run by itself, and what went wrong.

Owns the words that `nvccache stats` counts; knows nothing of how a call gets there.
Plain strings, since an Enum would cost start-up time on every hit.
"""

from __future__ import annotations

DIRECT_HIT = "direct_hit"  # replayed from a record, no tool ran
STAGE_HIT = "stage_hit"  # every compile stage came from the cache
PARTIAL_HIT = "partial_hit"  # some stage came from the cache, some ran
MISS = "miss"  # no stage came from the cache
QUERY_HIT = "query_hit"  # a query (-M, -E, --version) replayed from a record
QUERY_MISS = "query_miss"  # a query that nvcc answered itself
BYPASS = "bypass"  # handed to nvcc by decision
FAILED = "failed"  # the compile itself failed
FAULT = "fault"  # handed to nvcc because of a fault of nvccache

OUTCOMES = (DIRECT_HIT, STAGE_HIT, PARTIAL_HIT, MISS, QUERY_HIT, QUERY_MISS, BYPASS, FAILED, FAULT)

QUERIES = (QUERY_HIT, QUERY_MISS)

# The reason in the journal of a stage hit of which only the host's link had to run.
LINKED = "linked"

# Why a call was handed to nvcc. Each word is documented in docs/reference/outcomes.md.
REASONS = {
    "disabled": "NVCCACHE_DISABLE is set",
    "no_cache_directory": "there is no home directory for the cache, and NVCCACHE_DIR is not set",
    "foreign_directory": "the cache directory holds files, and nothing says that it is a cache of nvccache",
    "unusable_cache": "the cache directory cannot be read",
    "nested": "nvccache was started by a call of its own",
    "not_nvcc": "the launched command is not an nvcc",
    "information": "the call asks nvcc about itself in a form that is not recorded (--dryrun, no input, ...)",
    "library": "the call makes an archive",
    "preprocess_only": "the call preprocesses or lists dependencies in a form that is not recorded",
    "preprocessed_product": "the product is preprocessed text that names intermediate files (-cuda)",
    "names_temporary_file": "the product would name a temporary file (device links of .cubin and .ptx)",
    "run": "the call runs or cleans what it built",
    "standard_input": "a file is read from standard input or from another open descriptor",
    "standard_output": "a product is written to standard output or to a device file",
    "query_streams": "the answer to a query goes to a terminal, nowhere, or to one file with the messages",
    "unknown_option": "an option is not in the table of nvcc's options",
    "unreadable_option_file": "an option file could not be read the way nvcc reads it",
    "unreadable_environment": "nvcc's versions split NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS differently",
    "irremovable_option": "-t or -jobserver cannot be left out of the dryrun, or nvcc would warn of it",
    "keeps_intermediates": "-objtemp, or -keep with commands or debug information that may name what is kept",
    "verbose": "the call asks nvcc to print its commands (-v)",
    "time_report": "the call asks for the time of each stage (-time, -fdevice-time-trace)",
    "host_side_output": "a host compiler option writes files (-save-temps, -MD; of a link also --coverage)",
    "host_hidden_inputs": "a host compiler option reads files that no line marker names (@file, -specs, ...)",
    "host_hides_sources": "a host compiler option removes the line markers (-P)",
    "device_tool_files": "an option of ptxas, cicc or another device tool names a file",
    "environment_side_output": "an environment variable makes a tool write further files",
    "source_in_ptx": "the PTX quotes source files that are read again",
    "scripted_nvcc": "nvcc is a script that does more than become an nvcc, or of which that cannot be told",
    "dryrun_failed": "nvcc rejected the command line",
    "shell_expansion": "a command needs a shell to be understood",
    "same_base_name": "two inputs have one base name, so that their intermediate files would have one name",
    "unexplained": "a part of nvcc's plan was not understood",
    "little_memory": "`ulimit -d` or `-v` leaves less than 128 MiB, with which nvcc fails",
    "no_temporary_files": "the directory that TMPDIR names, or /tmp, is not there or cannot be written to",
    "missing_program": "a program that the compile runs is not there, or a line of nvcc's plan is no command",
    "nothing_to_cache": "no stage of the call is one that is cached",
    "unwritable_output": "a product could not be written where nvcc would write it",
    "odd_failure": "a stage failed in a way that nvcc is left to report",
}

# Why a call could not use the cache as it should: the compile is right, but not all of it was stored.
STORE_FAULTS = {
    "lock_timeout": "another process held a lock of the cache for too long",
    "disk_full": "the file system of the cache, or a quota on it, is full",
    "not_writable": "this user may not write to a part of the cache",
    "unreadable": "this user may not read a part of the cache",
    "foreign_directory": "the cache directory holds files, and nothing says that it is a cache of nvccache",
    "other": "the file system of the cache reported another error",
}

# Why a remote cache could not be used: the compile went on without it.
REMOTE_FAULTS = {
    "unreachable": "there is no connection to the remote, or it broke",
    "timeout": "the remote did not answer in time, or too slowly",
    "denied": "the remote permits no such access",
    "bad_credentials": "the remote does not accept the credentials, or wants some",
    "throttled": "the remote asks for fewer requests",
    "full": "the remote has no room left, or refuses an entry of this size",
    "tls": "the certificate of the remote, or its encryption, cannot be used",
    "not_installed": "what speaks to the remote is not installed: `nvccache doctor` says how it is",
    "broken": "the answer of the remote cannot be used",
    "left_alone": "the remote was left alone after a fault that an earlier call had met",
}

# Why a stage ran here though it was sent to another machine.
EXECUTOR_FAULTS = {
    "unreachable": (
        "there is no connection to the engine, or it broke; or the launcher did not start the stage"
    ),
    "timeout": "the engine did not answer in time, or the stage took too long there",
    "tls": "the certificate of the engine, or its encryption, cannot be used",
    "denied": "the engine permits no such access",
    "bad_credentials": "the engine does not accept the credentials, or a file with them cannot be read",
    "full": "the engine has no room left, or its queue is full",
    "not_installed": "what speaks to the engine is not installed: `nvccache doctor` says how it is",
    "no_workers": "it was still in the queue when a worker should have had it",
    "other_version": "the engine speaks another version of the interface, or cannot execute",
    "other_machine": "the worker has another class of processor",
    "wrong_result": "what came back is not what it was said to be",
    "failed": "the tool failed there, or what it made cannot be used",
    "overtaken": "it was started here as well, and ended here first",
    "broken": "the answer of the engine cannot be used, or something else went wrong",
}

# What of the settings was wrong, beside the name of a setting whose value cannot be used.
WRONG_SETTINGS = {
    "unknown": "there is no setting of that name",
    "file": "the settings file, or a line of it, cannot be read",
}
