"""`nvccache --version`, and with `--verbose` what a bug report needs, without secrets.

Paths below the home directory are shortened to `~`, only settings that are not defaults are shown, and URLs
are shown without user and password. Names of directories may still be revealing.
"""

from __future__ import annotations

import os
import platform
import shutil

from nvccache import __version__, config
from nvccache.cli import nvcc_checks
from nvccache.cli import settings as our_settings
from nvccache.cli.install import launcher
from nvccache.cli.output import say, say_json
from nvccache.config import Config
from nvccache.files import signatures
from nvccache.machine import cgroups
from nvccache.observation import observer
from nvccache.toolkit import discovery

_NOT_FOUND = "not found"


def show(as_json: bool) -> None:
    settings = our_settings.load()
    facts = facts_of(settings)
    changed = _changed(settings)
    if as_json:
        say_json({**version(), **facts, "settings": changed})
        return
    say(version_text(), "")
    width = max(map(len, facts)) + 2
    say(*[f"{name.replace('_', ' ') + ':':<{width}}{value}" for name, value in facts.items()])
    say("", "settings that are not the default:" if changed else "all settings are the defaults")
    say(*[f"  {name} = {value}" for name, value in changed.items()])


def version() -> dict[str, str]:
    """The version, and from the build hook: commit, machine and C library; may be empty."""
    try:
        with open(os.path.join(os.path.dirname(observer.LIBRARY), "build"), encoding="utf-8") as stream:
            return {"version": __version__, "build": stream.read()}
    except OSError:
        return {"version": __version__, "build": ""}


def version_text() -> str:
    found = version()
    return f"nvccache {found['version']}" + (f" ({found['build']})" if found["build"] else "")


def facts_of(settings: Config) -> dict[str, str]:
    nvcc = discovery.find_nvcc(os.environ, settings.nvcc)
    return {
        "started_as": _short(launcher()) or "python -m nvccache",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "nvcc": f"{_version_of(nvcc)} at {_short(nvcc)}" if nvcc else _NOT_FOUND,
        "host_compiler": _host_compiler(nvcc),
        "system": _system(),
        "kernel": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "libc": " ".join(platform.libc_ver()) or "?",
        "cores": str(len(cgroups.usable_cores())),
        "cache": _short(settings.dir) or our_settings.NO_CACHE,
        "file_system": _file_system(settings.dir),
    }


def _version_of(nvcc: str) -> str:
    lines = [line for line in nvcc_checks.version_text(nvcc).splitlines() if "release" in line]
    return lines[0].strip() if lines else "an nvcc of unknown version"


def _host_compiler(nvcc: str | None) -> str:
    """The one that nvcc's dry run starts; if that fails, the one on PATH."""
    path = nvcc_checks.host_compiler_of(nvcc, os.environ) if nvcc else shutil.which("g++") or ""
    if not path:
        return _NOT_FOUND
    return f"{nvcc_checks.version_text(path).partition(chr(10))[0].strip() or '?'} at {_short(path)}"


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _file_system(directory: str) -> str:
    """The type of the file system that the cache is on, or would be."""
    while directory and not os.path.exists(directory):
        directory = os.path.dirname(directory)
    if not directory:
        return "none"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            kind = signatures.kinds_in(stream.read()).get(os.stat(directory).st_dev, "unknown")
    except OSError:
        kind = "unknown"
    usage = shutil.disk_usage(directory)
    return f"{kind}, {100 * usage.used // max(1, usage.total)} % full"


def _changed(settings: Config) -> dict[str, str]:
    found = {}
    for name in config.SETTINGS:
        if settings.origins[name] != "default":
            value = our_settings.shown(name, getattr(settings, name))
            found[name] = f"{_short(str(value))} ({settings.origins[name]})"
    for problem in settings.problems:
        if problem.setting in config.SETTINGS:
            found[problem.setting] = f"wrong: {problem.text}"
    return found


def _short(path: str | None) -> str:
    home = config.home_of(os.environ)
    if path and home and (path + "/").startswith(home.rstrip("/") + "/"):
        return "~" + path[len(home.rstrip("/")) :]
    return path or ""
