"""Checks of `module_id`, and of which ids checkouts share."""

from __future__ import annotations

from guarded.table import LINKED, Guard

RELATIVE = "test_relative_ids.py"
TWO_MACHINES = "tests/scenarios/test_two_machines.py"

GUARDS = [
    Guard(
        "shared ids: what the id names is what a link takes once",
        "relative_ids.py",
        "flags & elf.STRONG and ids.is_made_of(identifier, name) for",
        "True for",
        LINKED,
        "can_be_linked and variable",
    ),
    Guard(
        "shared ids: what libraries see",
        "relative_ids.py",
        "if not all(flags & elf.HIDDEN for flags in holding):",
        "if False:",
        RELATIVE,
        "libraries_see or libraries",
    ),
    Guard(
        "shared ids: code that is compiled by the linker",
        "relative_ids.py",
        "any(section[0].startswith(_COMPILED_LATER) for section in sections)",
        "False",
        RELATIVE,
        "compiled_later",
    ),
    Guard(
        "shared ids: groups of sections",
        "src/nvccache/files/elf.py",
        " and not rows[section][2] & _IN_GROUP",
        "",
        RELATIVE,
        "equal_definitions",
    ),
    Guard(
        "shared ids: messages that name one",
        "shared_ids.py",
        "ids.head_of(identifier) not in said and ",
        "",
        LINKED,
        "names_nvccs_id_also",
    ),
    Guard(
        "shared ids: a source that has to keep its own",
        "shared_ids.py",
        'OWN if refuted == SHARED else ""',
        '""',
        LINKED,
        "try_again",
    ),
    Guard(
        "shared ids: separate compilation",
        "relative_ids.py",
        "and _FOR_DEVICE_LINKS not in stage.argv",
        "",
        RELATIVE,
        "which_plans",
    ),
    Guard(
        "shared ids: the name of the source in keys",
        "relative_ids.py",
        "key_argv = _with_value(key_argv, ids.NAME_OPTION, cwd)",
        "",
        TWO_MACHINES,
        "all_that_differs",
    ),
    Guard(
        "the name of the working directory is not what cicc reads",
        "stage_inputs.py",
        "self._counts(path) and path not in here",
        "self._counts(path)",
        TWO_MACHINES,
        "all_that_differs",
    ),
]
