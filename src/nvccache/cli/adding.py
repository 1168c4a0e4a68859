"""The command that adds one of nvccache's extras to this very installation, whoever made it.

It names the packages and not `nvccache[EXTRA]`, which some installers would look for on a package index.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import site
import sys
import sysconfig

import tomlkit


def command(extra: str) -> str:
    try:
        found = importlib.metadata.distribution("nvccache")
    except importlib.metadata.PackageNotFoundError:  # it was not installed
        return f"pip install 'nvccache[{extra}]'"
    lines = [line.partition(";") for line in found.requires or []]
    packages = [name.strip() for name, _, mark in lines if f"extra == '{extra}'" in mark.replace('"', "'")]
    installer = (found.read_text("INSTALLER") or "").strip()
    start = _start(installer, str(found.locate_file("")))
    if start[:2] == ["uv", "tool"]:
        packages = [word for package in packages for word in ("--with", package)]
    return shlex.join([*start, *packages])


def _start(installer: str, folder: str) -> list[str]:
    """What comes before the packages, for what lies in a folder of modules."""
    python = os.path.abspath(sys.executable)
    root = os.path.dirname(os.path.dirname(python))
    if not os.path.exists(f"{root}/pyvenv.cfg"):
        is_users = folder.startswith(os.path.join(site.getuserbase(), ""))
        is_managed = os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED"))
        options = ["--user"] * is_users + ["--break-system-packages"] * is_managed
        return [python, "-m", "pip", "install", *options]
    if os.path.exists(f"{root}/pipx_metadata.json"):
        return ["pipx", "inject", os.path.basename(root)]
    source = _source_of_tool(f"{root}/uv-receipt.toml")
    if source:
        return ["uv", "tool", "install", source]
    if installer == "uv":
        return ["uv", "pip", "install", "--python", python]
    return [python, "-m", "pip", "install"]


def _source_of_tool(receipt: str) -> str:
    """Where `uv tool install` had nvccache from, by its own note; empty if that is not there any more."""
    try:
        with open(receipt, encoding="utf-8") as stream:
            (first, *_) = tomlkit.parse(stream.read()).unwrap()["tool"]["requirements"]
        if "git" in first:
            return f"git+{first['git']}"
        source = first.get("directory") or first.get("editable") or first["name"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return str(source) if "/" not in source or os.path.isdir(source) else ""
