"""A compile, an edit, and the compile after it: what ran again, and that nothing stale came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scenarios.support.rebuilds import HOST_OPTIONS
from workspaces import Counters, Result, Workspace

COMMENT = "// a line\n/* some\n\nmore */\n\n"
FRONT = {"cudafe", "cicc"}
BACK = {"ptxas", "fatbinary", "host_compile"}

Files = Mapping[str, str | None]  # name -> text, or None for a file that is not there


def put(workspace: Workspace, files: Files) -> None:
    for name, text in files.items():
        if text is None:
            (workspace.directory / name).unlink(missing_ok=True)
        else:
            workspace.write(name, text)


def compile_once(
    workspace: Workspace, argv: Sequence[str | Path], product: str = "a.o", **variables: str
) -> bytes:
    """Compile through the cache, and forget the call as such; the product."""
    result = workspace.cached(*_line(argv, product), **variables)
    assert result.status == 0, result.stderr
    workspace.forget_calls()
    return _take(workspace, product)


def compare(
    workspace: Workspace,
    argv: Sequence[str | Path],
    product: str = "a.o",
    keep: Path | None = None,
    **variables: str,
) -> tuple[Result, Counters]:
    """Compile through the cache and by plain nvcc: status, words, and products must be the same."""
    line = _line(argv, product)
    result, counters = workspace.since(lambda: workspace.cached(*line, **variables))
    found = _take(workspace, product)
    keep = keep or workspace.directory.parent / "keep"
    keep.mkdir(exist_ok=True)
    plain = workspace.plain(*line, "-keep", "-keep-dir", keep, **variables)
    assert result == plain
    assert found == _take(workspace, product), f"differs from plain nvcc for {argv}"
    assert not counters.calls["bypass"] + counters.calls["fault"], counters.bypass_reasons
    return result, counters


def check_edit(
    workspace: Workspace,
    edit: tuple[Files, Files],
    argv: Sequence[str] = (),
    then: Sequence[str] | None = None,
    keep: Path | None = None,
) -> Counters:
    """Compile what was there before, make the edit, compile again: the product must be plain nvcc's."""
    before, after = edit
    put(workspace, before)
    compile_once(workspace, ("-c", "a.cu", *argv))
    put(workspace, after)
    result, counters = compare(workspace, ("-c", "a.cu", *(argv if then is None else then)), keep=keep)
    assert result.status == 0, result.stderr
    return counters


def moved(text: str) -> tuple[Files, Files]:
    """The edit that puts a comment above everything."""
    return {"a.cu": text}, {"a.cu": COMMENT + text}


def _line(argv: Sequence[str | Path], product: str) -> list[str | Path]:
    return [*argv, *(HOST_OPTIONS if "-ccbin" not in argv else ()), "-o", product]


def _take(workspace: Workspace, product: str) -> bytes:
    """The content of the product, which is not there any more then; nothing if there is none."""
    path = workspace.directory / product
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    return content
