"""Checks of `toolkit`."""

from __future__ import annotations

from guarded.table import QUESTIONS, Guard

GUARDS = [
    Guard(
        "which loader is run for a record",
        "processor.py",
        "if not is_of_tool and not loader_diagnostics.may_be_run(loader):",
        "if False:",
        QUESTIONS,
        "known_without or record_has_a_program",
    ),
    Guard(
        "which loader a memo names",
        "loader.py",
        "if os.fsdecode(loader) != named:",
        "if False:",
        QUESTIONS,
        "memo_has_a_program",
    ),
    Guard(
        "who may write a loader",
        "loader_diagnostics.py",
        "status.st_uid == 0 and not",
        "True or not",
        QUESTIONS,
        "others_may_write",
    ),
    Guard(
        "what a loader's cache is called",
        "library_cache.py",
        "if os.path.basename(path) != _NAME:",
        "if False:",
        QUESTIONS,
        "of_regular_files",
    ),
    Guard(
        "what is remembered of the loader",
        "loader.py",
        "any(map(os.path.exists, known.absent))",
        "False",
        "test_loader.py",
        "asked_again",
    ),
    Guard(
        "ELF: names that the kernel would not take",
        "elf.py",
        "if offset > _FARTHEST or length > _LONGEST_PATH:",
        "if False:",
        "test_elf.py",
        "no_executable",
    ),
    Guard(
        "ELF: tables that are somewhere else",
        "elf.py",
        "or not 0 < names_index < count or start > len(image):",
        "or not 0 < names_index < count:",
        "test_elf.py",
        "claims_what or damage",
    ),
    Guard(
        "what was remembered of a loader and is no file",
        "loader.py",
        "if not all(map(_can_be_read, known.files)):",
        "if False:",
        "test_loader.py",
        "remembered_of_no_file",
    ),
]
