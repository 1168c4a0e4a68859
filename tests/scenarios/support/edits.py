"""A compile, an edit, and the compile after it: what ran again, and that nothing stale came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scenarios.support.both_ways import Made, by_cache, rebuild
from workspaces import Workspace

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


def compile_once(workspace: Workspace, *argv: str | Path, product: str = "a.o") -> bytes:
    """Compile through the cache, and forget the call as such; the product."""
    made = by_cache(workspace, *argv, "-o", product)
    assert made.status == 0, made.stderr
    workspace.forget_calls()
    return made[product]


def check_edit(
    workspace: Workspace,
    edit: tuple[Files, Files],
    argv: Sequence[str] = (),
    then: Sequence[str] | None = None,
    keep: Path | None = None,
) -> Made:
    """Compile, make the edit, compile again: the product must be plain nvcc's."""
    before, after = edit
    put(workspace, before)
    compile_once(workspace, "-c", "a.cu", *argv)
    put(workspace, after)
    return rebuild(workspace, "-c", "a.cu", *(argv if then is None else then), keep=keep)


def moved(text: str) -> tuple[Files, Files]:
    """The edit that puts a comment above everything."""
    return {"a.cu": text}, {"a.cu": COMMENT + text}
