"""Directories that cannot be written or read, for tests that may well run as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile

import filelock

NOBODY = 65534
assert filelock.lock_descriptor  # loaded before the right to read the interpreter is given up


@contextlib.contextmanager
def copy_with_modes(tree, directory_mode, file_mode):
    """A copy of `tree` with these modes, which hold inside the block even if the tests run as root.

    The copy is outside pytest's own directories, which no other user may enter. What the block imports
    must be loaded before: the interpreter itself may be out of reach inside it.
    """
    outer = tempfile.mkdtemp(prefix="nvccache-test-")
    os.chmod(outer, 0o755)
    copy = os.path.join(outer, "copy")
    shutil.copytree(tree, copy)
    set_modes(copy, directory_mode, file_mode)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield copy
    finally:
        if is_root:
            os.seteuid(0)
        remove(outer)


def read_only(tree):
    return copy_with_modes(tree, 0o555, 0o444)


def unreadable(tree):
    return copy_with_modes(tree, 0o000, 0o000)


def set_modes(tree, directory_mode, file_mode):
    """Children first, since a directory may become one that cannot be entered."""
    for folder, _, files in list(os.walk(tree))[::-1]:
        for name in files:
            os.chmod(os.path.join(folder, name), file_mode)
        os.chmod(folder, directory_mode)


def remove(tree):
    """Whatever modes its directories have: parents first, before they are entered."""
    os.chmod(tree, 0o700)
    for folder, folders, _ in os.walk(tree):
        for name in folders:
            os.chmod(os.path.join(folder, name), 0o700)
    shutil.rmtree(tree)
