"""Host compilers that start another: scripts of all kinds, and a compiled one as MPI libraries have it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.support.cases import DEFAULT, Case, Change, Files, call, each, set_up
from scenarios.support.toolkits import HOST_COMPILER, replace
from workspaces import Workspace

# It adds options from a file next to it and from variables, and becomes the real compiler.
_COMPILED = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *arguments[4096];
static int count;

static void add_words(char *text) {
  for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) arguments[count++] = word;
}

int main(int argc, char **argv) {
  static char path[4096], text[4096], more[4096];
  const char *compiler = getenv("WRAPPED_CXX"), *options = getenv("WRAPPED_FLAGS");
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
  if (length < 0) return 98;
  strcpy(path + length, "-data.txt");
  arguments[count++] = (char *)(compiler ? compiler : REAL);
  FILE *data = fopen(path, "r");
  if (data) {
    text[fread(text, 1, sizeof text - 1, data)] = 0;
    fclose(data);
    add_words(text);
  }
  if (options) add_words(strncpy(more, options, sizeof more - 1));
  for (int i = 1; i < argc; i++) arguments[count++] = argv[i];
  execvp(arguments[0], arguments);
  return 99;
}
"""


def compiled_wrapper(path: Path, *options: str) -> None:
    """Put a compiled wrapper there; `-static` is one of the options it may be built with."""
    source = path.with_name(f"{path.name}.cpp")
    source.write_text(_COMPILED)
    real = f'-DREAL="{shutil.which(HOST_COMPILER)}"'
    argv = [HOST_COMPILER, "-O1", "-w", real, *options, str(source), "-o", f"{path}.new"]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode and "-static" in options:
        pytest.skip(f"nothing static can be linked here: {done.stderr.decode()}")
    assert done.returncode == 0, done.stderr
    Path(f"{path}.new").replace(path)
    source.unlink()


def compiled(*options: str) -> Change:
    return lambda workspace: compiled_wrapper(workspace.directory / "wrapper", *options)


def script(text: str, name: str = "wrapper", first: str = "#!/bin/sh") -> Change:
    """Put a script there; `{g++}`, `{work}` and `{python}` in it are replaced."""

    def apply(workspace: Workspace) -> None:
        filled = f"{first}\n{text}\n".replace("{g++}", str(shutil.which(HOST_COMPILER)))
        filled = filled.replace("{work}", str(workspace.directory)).replace("{python}", sys.executable)
        path = workspace.directory / name
        path.parent.mkdir(exist_ok=True)
        replace(path, filled)

    return apply


WRAPPED = "-ccbin {work}/wrapper"


def wrapped(
    text: str,
    change: Change | None = None,
    files: Files | None = None,
    *,
    first: str = "#!/bin/sh",
    before: dict[str, str] | None = None,
    after: dict[str, str] | None = None,
    prepare: Change | None = None,
    is_recorded: bool | None = True,
) -> Case:
    """A case of a script as host compiler: something changes, or variables are others `after`."""
    put = script(text, first=first)
    return Case(
        change=change,
        files={"a.cu": DEFAULT, **(files or {})},
        call=call(WRAPPED, **(before or {})),
        then=None if after is None else call(WRAPPED, **after),
        prepare=each(put, prepare) if prepare else put,
        is_recorded=is_recorded,
    )


def use_wrapper(
    workspace: Workspace,
    text: str,
    name: str = "wrapper",
    first: str = "#!/bin/sh",
    files: Files | None = None,
) -> None:
    """Put a script and a source there, old enough to be recorded."""
    set_up(workspace, Case(files={"a.cu": DEFAULT, **(files or {})}, prepare=script(text, name, first)))
