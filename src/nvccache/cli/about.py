"""`nvccache --version`, and with `--verbose` what a bug report needs, without secrets.

Paths below the home directory are shortened to `~`, only settings that are not defaults are shown, and URLs
are shown without user and password. Names of directories may still be revealing.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from nvccache import __version__, config
from nvccache.cli import settings as our_settings
from nvccache.cli.install import launcher
from nvccache.cli.output import say, say_json
from nvccache.config import Config
from nvccache.files import signatures
from nvccache.machine import slots
from nvccache.observation import observer
from nvccache.toolkit import discovery


def show(as_json: bool) -> None:
    settings = our_settings.load()
    facts = _facts(settings)
    changed = _changed(settings)
    if as_json:
        say_json({**version(), **facts, "settings": changed})
        return
    say(version_text(), "", *[f"{name.replace('_', ' ') + ':':<15} {fact}" for name, fact in facts.items()])
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
    build = version()["build"]
    return f"nvccache {__version__}" + (f" ({build})" if build else "")


def _facts(settings: Config) -> dict[str, str]:
    nvcc = discovery.find_nvcc(os.environ, settings.nvcc)
    host = shutil.which(os.environ.get("NVCC_CCBIN", "g++"))
    return {
        "started_as": _short(launcher()) or "python -m nvccache",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "nvcc": f"{_version_of(nvcc, 'release')} at {_short(nvcc)}" if nvcc else "not found",
        "host_compiler": f"{_version_of(host)} at {_short(host)}" if host else "not found",
        "system": _system(),
        "kernel": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "libc": " ".join(platform.libc_ver()) or "?",
        "cores": str(len(slots.usable_cores())),
        "cache": _short(settings.dir) or our_settings.NO_CACHE,
        "file_system": _file_system(settings.dir),
    }


def _version_of(program: str, word: str = "") -> str:
    """The first line of `--version` with this word."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return "?"
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return next((line.strip() for line in lines if word in line), "?")


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _file_system(directory: str) -> str:
    """The type of the file system that the cache is on, or would be."""
    while directory and not os.path.exists(directory):
        directory = os.path.dirname(directory)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as stream:
            kind = signatures.kinds_in(stream.read()).get(os.stat(directory).st_dev, "unknown")
        usage = shutil.disk_usage(directory)
    except OSError:
        return "unknown"
    return f"{kind}, {100 * usage.used // max(1, usage.total)} % full"


def _changed(settings: Config) -> dict[str, str]:
    found = {
        name: f"{_short(str(our_settings.display_value(name, getattr(settings, name))))} ({origin})"
        for name, origin in settings.origins.items()
        if origin != "default"
    }
    return found | {each.setting: f"wrong: {each.text}" for each in settings.problems}


def _short(path: str) -> str:
    home = config.home_of(os.environ).rstrip("/")
    return "~" + path[len(home) :] if home and (path + "/").startswith(home + "/") else path
