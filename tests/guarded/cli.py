"""Checks of `cli`."""

from __future__ import annotations

from guarded.table import ENVIRONMENT, Guard

GUARDS = [
    Guard(
        "entry: the environment of a shim without nvccache",
        "install.py",
        "sys.argv[1:]], given_environment())",
        "sys.argv[1:]], os.environ)",
        ENVIRONMENT,
        "removed",
    ),
    Guard(
        "settings: control characters in what is printed",
        "output.py",
        "click.echo(_encodable(printable(line), sys.stdout.encoding))",
        "click.echo(line.encode())",
        "test_cli_hostile_text.py",
        "is_printed and explain",
    ),
    Guard(
        "settings: control characters in warnings",
        "output.py",
        'f"nvccache: {printable(line)}"',
        'f"nvccache: {line}"',
        "test_cli_hostile_text.py",
        "is_printed and stats",
    ),
    Guard(
        "settings: control characters in errors",
        "output.py",
        "printable(error.format_message())",
        "error.format_message()",
        "test_cli_hostile_text.py",
        "cannot_be_used",
    ),
    Guard(
        "settings: a home that is no path",
        "src/nvccache/config.py",
        'return home if home.startswith("/") else ""',
        'return home or "."',
        "test_config.py",
        "list_of_users",
    ),
    Guard(
        "settings: relative directories of XDG",
        "src/nvccache/config.py",
        'if not base.startswith("/"):  # the rules of XDG want such a value ignored',
        "if not base:",
        "test_config.py",
        "of_xdg",
    ),
    Guard(
        "settings: small numbers without a unit",
        "src/nvccache/config.py",
        'if not has_unit(word) and 0 < size < _UNITS["M"]:',
        "if False:",
        "test_config.py",
        "small_number",
    ),
    Guard(
        "settings: switches in doubt",
        "src/nvccache/config.py",
        'value = name in _ON_IN_DOUBT if kind == "switch" else',
        "value =",
        "test_config.py",
        "when_in_doubt",
    ),
    Guard(
        "settings: a size without a unit for clean",
        "units.py",
        "if not has_unit(value):",
        "if False:",
        "test_cli_clean.py",
        "refused",
    ),
    Guard(
        "settings: what a default would remove",
        "settings.py",
        "if problem.setting in names:",
        "if False:",
        "test_cli_clean.py",
        "default_would_choose",
    ),
    Guard(
        "settings: directories of others",
        "cache_checks.py",
        "elif is_foreign(root):",
        "elif False:",
        "test_cache_checks.py",
        "of_others",
    ),
    Guard(
        "settings: probes in each directory",
        "cache_checks.py",
        "_try_directory(top, os.path.relpath(path, root), is_staged))",
        "None)",
        "test_cache_checks.py",
        "another_user",
    ),
]
