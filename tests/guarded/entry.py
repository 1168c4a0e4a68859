"""Checks of the entry of a call and its settings."""

from __future__ import annotations

from guarded.table import ENVIRONMENT, MISSING, START, Guard

GUARDS = [
    Guard(
        "variables, the whole environment",
        "environment.py",
        "if pair[0].startswith(start) and not is_ignored(pair[0])",
        "if False",
        "test_environment.py",
        "whole_environment",
    ),
    Guard(
        "variables that are not set",
        "environment.py",
        "return _UNSET if value is None else",
        "value = value or ''\n    return",
        "test_environment.py",
        "digest_of_its_own",
    ),
    Guard(
        "entry: a path is run or nothing",
        "real_nvcc.py",
        '        if not is_program(name):\n            return ""',
        "        pass",
        MISSING,
        "typed_is_run",
    ),
    Guard(
        "entry: a path typed twice is meant",
        "real_nvcc.py",
        "times(name) < (_NESTED if typed else 1)",
        "os.path.abspath(name) not in tried",
        MISSING,
        "nested",
    ),
    Guard(
        "entry: a path does not lead to us for ever",
        "real_nvcc.py",
        "(_NESTED if typed else 1)",
        "(100 if typed else 1)",
        MISSING,
        "itself_ends",
    ),
    Guard(
        "entry: the origin of a setting is named",
        "real_nvcc.py",
        "if configured and not typed:",
        "if False:",
        MISSING,
        "leads_nowhere",
    ),
    Guard(
        "entry: the locale is the caller's",
        "shim.py",
        "    _undo_locale_coercion()\n    name",
        "    name",
        ENVIRONMENT,
        "handed_on and launcher",
    ),
    Guard(
        "entry: a locale that Python replaced",
        "shim.py",
        'os.environ["LC_CTYPE"] = os.fsdecode(entry.partition(b"=")[2])',
        'del os.environ["LC_CTYPE"]',
        ENVIRONMENT,
        "handed_on and launcher",
    ),
    Guard(
        "entry: the working directory under python -m",
        "__main__.py",
        "del sys.path[0]",
        "pass",
        START,
        "working_directory",
    ),
    Guard(
        "settings: faults are told without values",
        "shim.py",
        'text = redaction.hide("".join(traceback.format_exception(fault)), arguments, environ)',
        'text = "".join(traceback.format_exception(fault))',
        "test_secrets.py",
        "by_a_fault",
    ),
    Guard(
        "settings: the mode of the log", "log.py", "flags, 0o600)", "flags, 0o666)", "test_log.py", "owner"
    ),
    Guard(
        "settings: messages of one line",
        "log.py",
        "{printable(line)}",
        "{line}",
        "test_log.py",
        "pass_for_two",
    ),
    Guard(
        "settings: no cache directory",
        "shim.py",
        'return "" if config.dir else "no_cache_directory"',
        'return ""',
        "test_settings_of_compiles.py",
        "without_a_home and None",
    ),
    Guard(
        "settings: other compilers are counted",
        "shim.py",
        '_COUNTED_ASIDE = ("not_nvcc", "no_cache_directory")',
        "_COUNTED_ASIDE = ()",
        "test_settings_of_compiles.py",
        "other_compilers",
    ),
    Guard(
        "settings: one bad line",
        "settings_file.py",
        "return _line_by_line(path, text, settings)",
        "return {}, []",
        "test_config.py",
        "not_toml",
    ),
]
