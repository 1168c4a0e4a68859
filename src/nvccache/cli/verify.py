"""`nvccache verify`: checks that the cache is undamaged, and that its results equal those of nvcc.

All records and blobs of this version are checked against their checksums. A compile checks only those that it
uses, and skips damaged ones.

An object record has the command line of the compile, except values of macros and arguments for other
programs, which may be secrets. A compile of this user can be repeated if its command line is complete and
names the output; others are counted, with the reason. A command line that is given is run verbatim. Outputs
go into a temporary directory, and the cache is only read.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import click

from nvccache import environment
from nvccache.cli import contents
from nvccache.cli import settings as our_settings
from nvccache.cli.install import counted, private_launcher
from nvccache.cli.output import (
    GREEN,
    RED,
    YELLOW,
    Failure,
    WrongUsage,
    bar,
    json_option,
    say,
    say_json,
    say_parts,
)
from nvccache.cli.units import format_count, format_size
from nvccache.commandline import invocation, redaction, tokens
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.config import PREFIX, Config
from nvccache.explain.object_record import ObjectRecord
from nvccache.files import keys
from nvccache.records import replay_layout
from nvccache.store import eviction, layout, store
from nvccache.store.store import COMPRESSED, Store

_MOST_SHOWN = 20
SAME, DIFFERENT, SKIPPED = "same", "different", "skipped"
_COLOURS = {SAME: GREEN, DIFFERENT: RED, SKIPPED: YELLOW}
_HIT = ("direct_hit", "stage_hit", "partial_hit")
_OUTPUT, _DEPENDENCIES = "output-file", "dependency-output"


@click.command(
    context_settings={"ignore_unknown_options": False}, epilog="Example: nvccache verify --recompile 3"
)
@click.option("--repair", is_flag=True, help="Remove damaged files; they are made again when needed.")
@click.option(
    "--recompile",
    "sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Also compile N of your objects again, through the cache and by nvcc, and compare them.",
)
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- NVCC ARGS...]")
def verify(repair: bool, sample: int | None, as_json: bool, command: tuple[str, ...]) -> None:
    """Check the cache for damage, or its results against nvcc.

    Every file is checked against its checksum. With a command line after `--`, only that is checked: it is
    compiled here, through the cache and by nvcc, and the results are compared. It must name its output with
    `-o`; that file is not written. Exits with status 1 if something is wrong, or if the given command line
    could not be compared.
    """
    settings = our_settings.load()
    our_settings.refuse_if_wrong(settings, "dir")
    if repair and settings.readonly:
        raise Failure(f"nothing can be removed: `readonly` is on ({settings.origins['readonly']})")
    if command and (repair or sample):
        raise WrongUsage("a command line cannot be combined with other options")
    if not settings.dir:
        raise Failure(our_settings.NO_CACHE)
    checked = None if command else _check(settings, repair)
    tried = _sample(settings, sample) if sample else []
    if command:
        tried = [_retry(command[0], command[1:], os.getcwd(), _environ())]
    is_damaged = checked is not None and len(checked.damaged) > checked.removed
    # Some of a sample may be skipped, but a given command line must be compared.
    wrong = (DIFFERENT, SKIPPED) if command else (DIFFERENT,)
    is_wrong = is_damaged or any(each.state in wrong for each in tried)
    if as_json:
        files, compiles = asdict(checked) if checked else None, [asdict(each) for each in tried]
        say_json({"cache": settings.dir, "files": files, "compiles": compiles, "is_wrong": is_wrong})
    else:
        _show(settings, checked, tried, repair)
    if is_wrong:
        sys.exit(1)


def _sample(settings: Config, count: int) -> list[Tried]:
    """Compiles of this user, each object once, in random order, until `count` have been compared."""
    cache = our_settings.untouched(settings.dir)
    with eviction.as_store_errors(cache.directory), bar("reading") as on_progress:
        objects = list(contents.read(cache, on_progress).objects.values())
    random.shuffle(objects)
    tried: list[Tried] = []
    compared = 0
    with bar("compiling", is_long=True) as on_progress:
        for record in objects:
            if compared == count:
                break
            nvcc, directory = ("".join(record.shown(tag)) for tag in ("nvcc", "directory"))
            argv = _argv_of(record)
            if isinstance(argv, str):
                tried.append(Tried(SKIPPED, directory, (nvcc,), argv))
                continue
            tried.append(_retry(nvcc, argv, directory, _environ()))
            compared += tried[-1].state != SKIPPED
            on_progress(compared, count)
    return tried


def _environ() -> dict[str, str]:
    """The caller's environment, with only those settings that select the cache and its sharing."""
    kept = ("NVCCACHE_DIR", "NVCCACHE_BASE_DIR")
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(PREFIX) or name in kept
    }
    return environ | {"NVCCACHE_DISABLE": "0", "NVCCACHE_RECACHE": "0"}  # the settings file may say otherwise


def _show(settings: Config, checked: Checked | None, tried: list[Tried], repair: bool) -> None:
    if checked:
        _show_files(settings, checked, repair)
    skipped: dict[str, int] = {}
    for each in tried:
        if each.state == SKIPPED and len(tried) > 1:
            skipped[each.text] = skipped.get(each.text, 0) + 1
            continue
        say_parts((f"{each.state:<10}", _COLOURS[each.state]), f" {' '.join(each.argv)}")
        say(f"           in `{each.directory}`: {each.text}")
    for reason, number in sorted(skipped.items()):
        say_parts((f"{SKIPPED:<10}", YELLOW), f" {format_count(number, 'compile')}: {reason}")
    if tried and all(each.state == SKIPPED for each in tried):
        say("nothing was compared")


def _show_files(settings: Config, checked: Checked, repair: bool) -> None:
    size = f"{format_count(checked.files, 'file')}, {format_size(checked.bytes)}"
    if checked.damaged:
        did = (
            f", {checked.removed} of them removed" if repair else "; `nvccache verify --repair` removes them"
        )
        say_parts(("damaged", RED), f"    {len(checked.damaged)} of {size} in `{settings.dir}`{did}")
        say(*[f"           {path}" for path in checked.damaged[:_MOST_SHOWN]])
        if len(checked.damaged) > _MOST_SHOWN:
            say(f"           and {len(checked.damaged) - _MOST_SHOWN} more")
    else:
        say_parts(("good", GREEN), f"       {size} in `{settings.dir}`")
    if checked.unreadable:
        files = format_count(checked.unreadable, "file")
        say_parts(("note", YELLOW), f"       you cannot read {files} of other users")


@dataclass
class Checked:
    """How many files were checked, and which are damaged."""

    files: int = 0
    bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    removed: int = 0
    unreadable: int = 0  # by this user
    of_other_versions: int = 0


def _check(settings: Config, is_repairing: bool) -> Checked:
    """Check every file."""
    cache = our_settings.untouched(settings.dir)
    checked = Checked()
    with eviction.as_store_errors(cache.directory), bar("verifying") as on_progress:
        names = [(path, size) for path, size, _ in layout.entries(cache.directory)]
        for done, (path, size) in enumerate(names, 1):
            if path.partition("/")[0] in store.BUCKETS:
                _check_file(cache, path, size, is_repairing, checked)
            else:
                checked.of_other_versions += 1
            if done % 20 == 0 or done == len(names):
                on_progress(done, len(names))
    return checked


def _check_file(cache: Store, path: str, size: int, is_repairing: bool, checked: Checked) -> None:
    try:
        is_good = _is_good(cache, path)
    except FileNotFoundError:
        return  # a build or `clean` removed it
    except PermissionError:
        checked.unreadable += 1
        is_good = True
    except (OSError, ValueError):
        is_good = False  # also after a read error of the disk
    checked.files, checked.bytes = checked.files + 1, checked.bytes + size
    if not is_good:
        checked.damaged.append(path)
        if is_repairing:
            with contextlib.suppress(OSError):
                cache.directory.unlink(path)
                checked.removed += 1


def _is_good(cache: Store, path: str) -> bool:
    """Raises OSError and ValueError."""
    bucket, _, name = path.split("/")
    if path.removesuffix(COMPRESSED) != cache.name(bucket, name.removesuffix(COMPRESSED)):
        return False  # in a directory where it is never looked up
    if bucket == store.BLOB:
        return _is_blob(cache, path, name)
    if name.endswith(COMPRESSED):
        return False
    os.close(cache.directory.open(path)[0])
    record = cache.find_record(bucket, name)
    if record is not None and bucket == store.REPLAY:
        replay_layout.blobs_in(record)
    return record is not None


def _is_blob(cache: Store, path: str, name: str) -> bool:
    """Whether a compile would accept it and its digest is correct; raises OSError and ValueError."""
    digest = name.removesuffix(COMPRESSED)
    read = store.compressed_blob if name.endswith(COMPRESSED) else store.raw_blob
    content, _ = read(cache.directory, path, digest)
    return content is not None and keys.digest_bytes(content) == digest


@dataclass(frozen=True)
class Tried:
    """The result of one compile."""

    state: str  # SAME, DIFFERENT or SKIPPED
    directory: str
    argv: tuple[str, ...]
    text: str  # a clause: why it was skipped, or what differs


def _argv_of(record: ObjectRecord) -> list[str] | str:
    """The arguments of a compile, from the record of its object; or why they are unknown, a clause."""
    arguments = record.shown("arguments")
    if any(redaction.HIDDEN in argument for argument in arguments):
        return "values of macros or of arguments for other programs are not kept"
    if set(environment.OF_ARGUMENTS).intersection(record.shown("environment")):
        return "arguments came from the environment"
    argv = [
        part
        for argument in arguments
        for part in (argument.split(" ") if argument.startswith("-") else [argument])
    ]
    scanned = tokens.scan(argv)
    # A file name with a blank looks like two arguments.
    if isinstance(scanned, tokens.UnknownOption) or [redaction.shown(each) for each in scanned] != arguments:
        return "its arguments cannot be separated"
    return argv


def _retry(nvcc: str, argv: Sequence[str], directory: str, environ: dict[str, str]) -> Tried:
    """Compile through the cache and with nvcc in a directory, and compare the outputs. Raises OSError."""

    def tried(state: str, text: str) -> Tried:
        return Tried(state, directory, (nvcc, *argv), text)

    call = invocation.parse(list(argv), environ)
    if isinstance(call, Bypass):
        return tried(SKIPPED, f"it is not cached ({call.reason})")
    if not os.path.isdir(directory):
        return tried(SKIPPED, "its working directory is gone")
    if not call.output:
        return tried(SKIPPED, "it does not name its output with -o")
    missing = [path for path in call.inputs if not os.path.exists(os.path.join(directory, path))]
    if missing:
        return tried(SKIPPED, f"`{missing[0]}` is gone")
    with tempfile.TemporaryDirectory(prefix="nvccache-verify-") as folder:
        return tried(*_compare(nvcc, call, directory, environ, folder))


def _compare(
    nvcc: str, call: Invocation, directory: str, environ: dict[str, str], folder: str
) -> tuple[str, str]:
    ours = private_launcher()
    of_cache = environ | {"NVCCACHE_READONLY": "1", "NVCCACHE_STATS_DIR": f"{folder}/counts"}
    fresh = environ | {"NVCCACHE_DIR": f"{folder}/cache", "NVCCACHE_STATS_DIR": f"{folder}/fresh"}
    product = f"{folder}/product"

    def made(command: list[str], variables: dict[str, str]) -> tuple[int, bytes]:
        done = subprocess.run(
            [*command, *_redirected(call, folder, product)],
            cwd=directory,
            env=variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        content = b""
        if os.path.exists(product):
            with open(product, "rb") as stream:
                content = stream.read()
            os.unlink(product)
        return done.returncode, content

    from_cache = made([*ours, nvcc], of_cache)
    calls = counted(of_cache)["calls"]  # only this compile
    if not any(calls[name] for name in _HIT):
        return SKIPPED, "the cache has no result for it"
    keep = f"{folder}/keep"
    os.mkdir(keep)
    plain = made([nvcc, "-keep", "-keep-dir", keep], environ)
    if plain == from_cache:
        return SAME, "identical to nvcc's"
    # nvcc's module ids may be random, ours are not: see module_id.py.
    if plain[0] == from_cache[0] and made([*ours, nvcc], fresh) == from_cache:
        return SAME, "identical to a compile with an empty cache"
    return DIFFERENT, "the cached result differs from a new compile"


def _redirected(call: Invocation, folder: str, product: str) -> list[str]:
    arguments = []
    for argument in call.arguments:
        if argument.name == _OUTPUT:
            arguments += ["-o", product]
        elif argument.name == _DEPENDENCIES:
            arguments += ["-MF", f"{folder}/depfile"]
        else:
            arguments += argument.tokens
    return arguments
