"""A private gcc: the driver is a copy, everything else a link, found relative to the driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scenarios.support.toolkits import HOST_COMPILER


def gcc_tree(root: Path) -> Path:
    """Make a tree whose parts can be replaced; its driver. Skips the test if gcc has no such parts."""
    real = Path(os.path.realpath(HOST_COMPILER))
    parts = {_asked("-print-prog-name=cc1plus"), _asked("-print-file-name=include")}
    if not all(os.path.isabs(part) for part in parts):
        pytest.skip(f"{real} is no gcc")
    driver = root / real.relative_to("/")
    driver.parent.mkdir(parents=True)
    shutil.copy2(real, driver)
    for original in {os.path.dirname(os.path.realpath(part)) for part in parts}:
        _link_all(Path(original), root / os.path.relpath(original, "/"))
    include = Path(_asked("-print-file-name=include"))
    own = root / include.relative_to("/")
    own.unlink()
    _link_all(include, own)
    (driver.parents[1] / "include").symlink_to(real.parents[1] / "include")
    if not own_part(driver, "cc1plus").is_relative_to(root):
        pytest.skip(f"{real} does not look for its parts beside itself")
    return driver


def own_part(driver: Path, name: str) -> Path:
    """The path of one of a gcc's programs."""
    return Path(os.path.normpath(_asked(f"-print-prog-name={name}", driver)))


def own_headers(driver: Path) -> Path:
    return Path(os.path.normpath(_asked("-print-file-name=include", driver)))


def _asked(question: str, driver: str | Path = HOST_COMPILER) -> str:
    done = subprocess.run([driver, question], capture_output=True, check=True)
    return done.stdout.decode().strip()


def _link_all(original: Path, copy: Path) -> None:
    copy.mkdir(parents=True, exist_ok=True)
    for child in original.iterdir():
        (copy / child.name).symlink_to(child)
