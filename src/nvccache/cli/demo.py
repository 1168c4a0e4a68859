"""`nvccache demo`: compiles one program with nvcc and through the cache, and shows what was reused."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from nvccache import outcomes
from nvccache.cli import settings as our_settings
from nvccache.cli.install import adding, counted, private_launcher
from nvccache.cli.output import Failure, json_option, say, say_json, warn
from nvccache.cli.units import format_seconds
from nvccache.plan import stages
from nvccache.toolkit.discovery import find_nvcc, release_of, why_none

_COMPILING = tuple(kind for kind in stages.counted() if not stages.TOOLS[kind].is_preprocessor)
_DEVICE_CODE = tuple(kind for kind, tool in stages.TOOLS.items() if tool.compiles_device_code)
_HITS = (outcomes.DIRECT_HIT, outcomes.STAGE_HIT, outcomes.PARTIAL_HIT)
_LINE = "// A filter of TAPS coefficients that the caller keeps in memory.\n"
_EDITED_LINE = "// A finite impulse response of TAPS coefficients.\n"


@dataclass(frozen=True)
class Step:
    """One compile."""

    title: str
    real_architectures: tuple[int, ...]
    edits_comment: bool
    is_first: bool
    reused: tuple[str, ...]  # the stages that must not run


STEPS = (
    Step("an empty cache", (80, 90), False, True, ()),
    Step("the same again", (80, 90), False, False, _COMPILING),
    Step("without sm_90", (80,), False, False, _DEVICE_CODE),
    Step("a comment edited", (80, 90), True, False, _COMPILING),
)


@click.command(epilog="Example: nvccache demo")
@json_option
def demo(as_json: bool) -> None:
    """Compile a sample with and without the cache, and compare.

    It uses a temporary directory and a cache of its own. It needs an nvcc and a host compiler, but no GPU.
    """
    settings = our_settings.load()
    nvcc = find_nvcc(os.environ, settings.nvcc)
    if nvcc is None:
        why = why_none(settings.nvcc, settings.origins["nvcc"], os.environ)
        raise Failure(why, "" if settings.nvcc else f"`{adding('toolkit')}` installs one")
    release = release_of(nvcc)
    if not as_json:
        say(f"nvcc {release} at `{nvcc}`, a program of 7 kernels for float and double", "")
    shown = []
    with tempfile.TemporaryDirectory(prefix="nvccache-demo-") as folder:
        environ = _environment(folder)
        for number, step in enumerate(STEPS, 1):
            if not as_json:
                say(f"{number}. {step.title}")
            shown.append(_run_step(step, nvcc, folder, environ, as_json))
    if as_json:
        say_json({"nvcc": nvcc, "release": release, "steps": shown, "objects_are_equal": True})
        return
    say("", "All objects are identical to nvcc's, byte for byte (compared with `nvcc -keep`)")


def _environment(folder: str) -> dict[str, str]:
    """The caller's environment without variables of nvcc and nvccache; the cache is inside `folder`."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NVCCACHE_") and name not in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    }
    # The user's settings file must not move the cache either.
    return environ | {"NVCCACHE_DIR": os.path.join(folder, "cache"), "XDG_CONFIG_HOME": folder}


def _run_step(
    step: Step, nvcc: str, folder: str, environ: dict[str, str], is_silent: bool
) -> dict[str, object]:
    """Compile with plain nvcc and through the cache, print both, compare; raises Failure."""

    def show(title: str, text: str) -> None:
        if not is_silent:
            say(f"   {title:<10}  {text}")

    _write_program(folder, step.edits_comment)
    flags = [f"-gencode=arch=compute_{sm},code=sm_{sm}" for sm in step.real_architectures]
    # nvcc's output is reproducible only with -keep: otherwise the object names a temporary file.
    keep = tempfile.mkdtemp(dir=folder)
    expected, actual = os.path.join(folder, "expected.o"), os.path.join(folder, "demo.o")
    if os.path.exists(actual):
        os.unlink(actual)
    plain = [nvcc, *flags, "-keep", "-keep-dir", keep, "-c", "demo.cu", "-o", expected]
    cached = [*private_launcher(), nvcc, *flags, "-c", "demo.cu", "-o", actual]
    plain_seconds = _compile(plain, folder, environ)
    show("plain nvcc", format_seconds(plain_seconds))
    cached_seconds = _compile(cached, folder, environ)
    show("nvccache", format_seconds(cached_seconds))
    try:
        counts = counted(environ)
    except subprocess.CalledProcessError as error:
        raise Failure(f"`nvccache stats` ended with status {error.returncode}") from None
    is_direct = counts["calls"][outcomes.DIRECT_HIT] == 1
    show("reused", "the whole compile, no tool ran" if is_direct else _format_stages(counts, "hit"))
    show("ran", _format_stages(counts, "miss"))
    show("saved", f"{format_seconds(counts['seconds_saved'])} of tool time")
    _check(step, counts)
    if _bytes_of(actual) != _bytes_of(expected):
        raise Failure("the object from the cache differs from nvcc's")
    return {
        "title": step.title,
        "nvcc_seconds": round(plain_seconds, 3),
        "nvccache_seconds": round(cached_seconds, 3),
        "is_direct_hit": is_direct,
        "reused": _numbers(counts, "hit"),
        "ran": _numbers(counts, "miss"),
        "tool_seconds_saved": counts["seconds_saved"],
    }


def _write_program(folder: str, edits_comment: bool) -> None:
    text = _bytes_of(os.path.join(os.path.dirname(__file__), "demo.cu")).decode()
    assert _LINE in text
    with open(os.path.join(folder, "demo.cu"), "w", encoding="utf-8") as stream:
        stream.write(text.replace(_LINE, _EDITED_LINE) if edits_comment else text)


def _compile(command: list[str], folder: str, environ: dict[str, str]) -> float:
    """Run one compile and return its wall-clock seconds; raises Failure, and shows what it printed."""
    started = time.monotonic()
    child = subprocess.run(
        command, cwd=folder, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    seconds = time.monotonic() - started
    if child.returncode:
        warn(*child.stdout.decode(errors="replace").rstrip().splitlines())
        raise Failure(f"`{' '.join(command)}` ended with status {child.returncode}")
    return seconds


def _numbers(counts: Mapping[str, Any], result: str) -> dict[str, int]:
    """How many stages of each kind were a `hit` or a `miss`, without zeros."""
    found = {stage: counts["stages"][stage][result] for stage in stages.counted()}
    return {stage: count for stage, count in found.items() if count}


def _format_stages(counts: Mapping[str, Any], result: str) -> str:
    numbers = _numbers(counts, result).items()
    return ", ".join(f"{stage} x{count}" if count > 1 else stage for stage, count in numbers) or "nothing"


def _check(step: Step, counts: Mapping[str, Any]) -> None:
    """Raises Failure unless the cache did what this step demonstrates."""
    calls = [outcome for outcome, count in counts["calls"].items() for _ in range(count)]
    wanted = (outcomes.MISS,) if step.is_first else _HITS
    if len(calls) != 1 or calls[0] not in wanted:
        counted = ", ".join([*calls, *counts["bypass_reasons"]]) or "nothing"
        raise Failure(f"`nvccache stats` counted {counted} instead of one {' or '.join(wanted)}")
    for stage in step.reused:
        if counts["stages"][stage]["miss"]:
            raise Failure(f"{stage} ran again")


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise Failure(f"cannot read `{path}`: {error.strerror}") from None
