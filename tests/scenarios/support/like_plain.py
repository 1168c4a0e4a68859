"""What plain nvcc makes and says of a compile, and whether nvccache makes and says the same."""

from __future__ import annotations

import re
from collections.abc import Callable

from scenarios.support.rebuilds import HOST_OPTIONS
from workspaces import Result, Workspace

_TEMPORARY = re.compile(
    rb"(?:/[^\s:;'\"]*/)?tmpxft_[0-9a-f]{8}_[0-9a-f]{8}(?:-\d+_)?|/[^\s:;'\"]*/cc\w{6}\.s"
)


def object_by_plain(workspace: Workspace, *argv: str) -> bytes:
    """What plain nvcc compiles with `-keep`, whose names for intermediates are the same on every run."""
    keep = workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    made = workspace.plain("-c", *argv, "-o", "plain.o", "-keep", "-keep-dir", keep, *HOST_OPTIONS)
    assert made.status == 0, made.stderr
    product = workspace.directory / "plain.o"
    content = product.read_bytes()
    product.unlink()
    return content


def told(result: Result) -> tuple[int, bytes, bytes]:
    """What a user sees, without the names of temporary files."""
    return result.status, result.stdout, _TEMPORARY.sub(b"", result.stderr)


def files_of(workspace: Workspace) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace.directory)): path.read_bytes()
        for path in workspace.directory.rglob("*")
        if path.is_file()
    }


def check_twice_like_plain(
    workspace: Workspace, by_plain: Callable[[], Result], by_cache: Callable[[], Result]
) -> Result:
    """The same status, words and files, twice: what failed once is not remembered."""
    before = files_of(workspace)
    plain = by_plain()
    expected = files_of(workspace)
    for _ in ("cold", "warm"):
        for name in files_of(workspace).keys() - before.keys():
            (workspace.directory / name).unlink()
        for name, content in before.items():
            (workspace.directory / name).write_bytes(content)
        assert told(by_cache()) == told(plain)
        assert files_of(workspace) == expected
    return plain
