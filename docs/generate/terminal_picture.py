"""Draws docs/images/terminal.svg, the terminal in the README: runs commands and draws their output.

    python docs/generate/terminal_picture.py [PATH]

Needs rich (the `docs` extra), an nvcc and a host compiler. The commands run on a terminal, in a
temporary home directory.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nvccache.toolkit.discovery import find_nvcc

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "images" / "terminal.svg"
SOURCE = ROOT / "scripts" / "demo.cu"
COMPILE = "nvccache nvcc -arch=sm_80 -c filter.cu -o filter.o"
TWO_ARCHITECTURES = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90"
# The command that the picture shows, and the command to run instead (empty: the same).
COMMANDS = (
    (f"time {COMPILE}", ""),
    (f"time {COMPILE}", ""),
    ("vi filter.cu    # a comment", "sed -i 's/A filter of/A finite filter of/' filter.cu"),
    (f"time {COMPILE}", ""),
    ("nvccache explain filter.o", ""),
    (COMPILE.replace("-arch=sm_80", TWO_ARCHITECTURES), ""),
    ("nvccache explain filter.o", ""),
)
COLUMNS, ROWS = 92, 100
# The template of rich, without fonts from the network.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>@TITLE@</title>
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ display: none; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> int:
    from rich.console import Console
    from rich.text import Text

    nvcc = find_nvcc(os.environ)
    if not nvcc:
        raise SystemExit("no nvcc found")
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with tempfile.TemporaryDirectory(prefix="nvccache-picture-") as home:
        shutil.copy(SOURCE, Path(home, "filter.cu"))
        for typed, run in COMMANDS:
            printed = on_terminal(run or typed, home, nvcc).replace(home, "~")
            console.print(Text.assemble(("$ ", "bold green"), (typed, "bold")))
            if printed.strip():
                console.print(Text.from_ansi(printed.strip("\r\n").replace("\r\n", "\n")))
        console.print(Text("$", "bold green"))  # because the picture cuts off the foot of its last line
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    title = "A terminal: a compile, the same again, a comment edited, an architecture added"
    drawn = console.export_svg(
        title=title, code_format=FORMAT.replace("@TITLE@", title), unique_id="terminal"
    )
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")
    print(f"wrote {path}")
    return 0


def on_terminal(command: str, home: str, nvcc: str) -> str:
    """What a command prints on a terminal, including its standard error."""
    scripts = os.path.dirname(sys.executable)
    environ = {
        "HOME": home,
        "PATH": f"{scripts}:{os.path.dirname(nvcc)}:/usr/bin:/bin",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
        "TIMEFORMAT": "%3R s",
    }
    ours, theirs = pty.openpty()
    argv = ["bash", "-c", f"stty cols {COLUMNS} rows {ROWS}; sleep 0.1; {command}"]
    child = subprocess.Popen(argv, cwd=home, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux reports so that no process has the terminal open any more
            break
        if not part:
            break
        printed += part
    os.close(ours)
    if child.wait():
        raise SystemExit(f"`{command}` failed:\n{printed.decode()}")
    return printed.decode()


if __name__ == "__main__":
    sys.exit(main())
