"""`nvccache remote prune`: removes what is old from remotes, or beyond a size."""

from __future__ import annotations

import functools
import re
import time

import click

from nvccache.cli import bulk, remotes
from nvccache.cli.bulk import Moved
from nvccache.cli.output import WrongUsage, json_option
from nvccache.cli.units import age_option, size_option
from nvccache.remote.service import ServiceError
from nvccache.remote_url import Remote

_NAME = re.compile(r"1/[0-9a-f]{2}/[0-9a-f]{64}")  # nothing else on a remote is ours


@click.command()
@click.option(
    "--older-than", "age", callback=age_option, metavar="AGE", help="Remove what was written before then."
)
@click.option(
    "--max-size", "most", callback=size_option, metavar="SIZE", help="Remove the oldest beyond this size."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would be removed.")
@json_option
def prune(age: float | None, most: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove objects from the remotes that are written to.

    AGE is written as `30d`, SIZE as `10G`. It goes by when an object was written, since only redis says
    when it was used; what is still of use is made and sent again. A lifecycle rule of S3 or `maxmemory` of
    redis does this by itself.
    """
    if age is None and most is None:
        raise WrongUsage("say `--older-than` or `--max-size`", ctx=click.get_current_context())
    work = functools.partial(_on, age, most, dry_run)
    bulk.each(remotes.load().writable, work, "removed", "would remove", dry_run, as_json)


def _on(age: float | None, most: int | None, dry_run: bool, remote: Remote) -> Moved:
    moved = Moved(remote.shown)
    try:
        service = remotes.service(remote)
        there = {name: found for name, found in bulk.listed(remote, service).items() if _NAME.fullmatch(name)}
        if there and not any(changed for _, changed in there.values()):
            raise ServiceError("broken", "it does not say when objects were written")
    except ServiceError as error:
        moved.fail(error)
        return moved
    doomed = doomed_of(there, age, most)
    if dry_run:
        moved.objects, moved.bytes = len(doomed), sum(there[name][0] for name in doomed)
        return moved

    def remove(name: str) -> int:
        service.delete(name)
        return max(1, there[name][0])

    bulk.move(f"pruning {remote.shown}", remove, doomed, moved)
    try:
        service.sweep()
    except ServiceError as error:
        moved.fail(error)
    return moved


def doomed_of(there: dict[str, tuple[int, float]], age: float | None, most: int | None) -> list[str]:
    """The names to remove, the oldest first; `there` has sizes and times of change."""
    now = time.time()
    total = sum(size for size, _ in there.values())
    doomed = []
    for name, (size, changed) in sorted(there.items(), key=lambda each: each[1][1]):
        is_old = age is not None and now - changed > age
        if is_old or (most is not None and total > most):
            doomed.append(name)
            total -= size
    return doomed
