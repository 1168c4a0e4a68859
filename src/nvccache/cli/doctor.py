"""`nvccache doctor`: looks at everything a compile needs, compiles both ways, and says what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from nvccache import config, outcomes
from nvccache.cli import cache_checks, launcher_checks, nvcc_checks, remote_checks
from nvccache.cli.finding import BAD, GOOD, ODD, Finding, show
from nvccache.cli.install import counted, private_launcher
from nvccache.cli.output import bar, json_option, say_json
from nvccache.cli.units import seconds_words
from nvccache.config import PREFIX, Config
from nvccache.toolkit import discovery

_SETTLED = 0.2  # seconds until a file is old enough to be recorded


@click.command()
@click.argument("build_directory", metavar="[BUILD_DIRECTORY]", required=False, default="")
@json_option
def doctor(build_directory: str, as_json: bool) -> None:
    """Look for what is wrong, and say what mends it.

    Checks nvcc, the host compiler, settings and the cache directory, and compiles with and without the cache.
    With a build directory of CMake, what it says of launchers is looked at as well. Whatever is wrong is
    told with the command that mends it. Ends with status 1 if something is bad.
    """
    environ = dict(os.environ)
    settings = config.load(environ)
    found = []
    for finding in _all(settings, environ, build_directory):
        found.append(finding)
        if not as_json:
            show(finding)
    is_bad = any(finding.state == BAD for finding in found)
    if as_json:
        say_json({"findings": [asdict(finding) for finding in found], "is_bad": is_bad})
    if is_bad:
        sys.exit(1)


def _all(settings: Config, environ: dict[str, str], build_directory: str) -> Iterator[Finding]:
    yield from launcher_checks.of_settings(settings, environ)
    yield from nvcc_checks.of_launcher()
    yield from nvcc_checks.of_nvcc(settings, environ)
    yield from launcher_checks.of_path(settings, environ)
    yield from launcher_checks.of_variables(environ)
    if build_directory:
        yield from launcher_checks.of_build(os.path.abspath(build_directory))
    yield from cache_checks.of_cache(settings)
    yield from remote_checks.of_remotes(settings)
    if settings.executor:
        yield from remote_checks.of_executor(settings)
    yield from nvcc_checks.of_observer(settings)
    yield from nvcc_checks.of_machine(settings)
    nvcc = discovery.find_nvcc(environ, settings.nvcc)
    if nvcc:
        yield from nvcc_checks.of_parts(nvcc, environ)
        yield from _compiles(nvcc, environ)


def _compiles(nvcc: str, environ: dict[str, str]) -> Iterator[Finding]:
    """Compile by nvcc, and twice through a cache of its own, and compare."""
    with tempfile.TemporaryDirectory(prefix="nvccache-doctor-") as folder:
        # The user's settings, the file's too, could keep the compile from showing what the cache does.
        environ = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
        environ |= {"NVCCACHE_DIR": f"{folder}/cache", "NVCCACHE_STRICT": "1", "XDG_CONFIG_HOME": folder}
        with open(f"{folder}/probe.cu", "w", encoding="utf-8") as stream:
            stream.write(nvcc_checks.SOURCE)
        os.mkdir(f"{folder}/keep")
        plain = [nvcc, "-c", "probe.cu", "-o", "plain.o", "-keep", "-keep-dir", "keep"]
        seconds, said = _run(plain, folder, environ)
        if said is not None:
            yield Finding(BAD, "plain nvcc", "cannot compile:", tuple(said.splitlines()))
            return
        yield Finding(GOOD, "plain nvcc", f"compiles in {seconds_words(seconds)}")
        time.sleep(_SETTLED)
        cached = [*private_launcher(), nvcc, "-c", "probe.cu", "-o", "probe.o"]
        for title, wanted in (("nvccache", outcomes.MISS), ("and again", outcomes.DIRECT_HIT)):
            seconds, said = _run(cached, folder, environ)
            if said is not None:
                yield Finding(BAD, title, "cannot compile:", tuple(said.splitlines()))
                return
            yield _verdict(title, wanted, seconds, folder, counted(environ))


def _verdict(title: str, wanted: str, seconds: float, folder: str, counts: dict[str, Any]) -> Finding:
    with open(f"{folder}/plain.o", "rb") as plain, open(f"{folder}/probe.o", "rb") as ours:
        if plain.read() != ours.read():
            return Finding(BAD, title, "makes another object than nvcc: please report this")
    outcome = next((name for name, count in counts["calls"].items() if count), "nothing")
    reasons = ", ".join(counts["bypass_reasons"])
    text = f"{outcome}{f' ({reasons})' if reasons else ''} in {seconds_words(seconds)}, the same object"
    return Finding(GOOD if outcome == wanted else ODD, title, text)


def _run(command: list[str], folder: str, environ: dict[str, str]) -> tuple[float, str | None]:
    """The seconds it took, and what it said if it failed."""
    started = time.monotonic()
    with bar("compiling a small program", is_long=True):
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
    seconds = time.monotonic() - started
    said = (done.stderr + done.stdout).decode(errors="replace").strip()
    return seconds, (said or f"status {done.returncode}") if done.returncode else None
