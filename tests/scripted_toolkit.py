"""A toolkit of shell scripts: an nvcc that prints dry runs, and tools that do almost nothing, at once.

The preprocessor is the real one. The text that a tool reads says what it prints or how it ends:
`cicc_says`, `ptxas_fails` and so on. With it a miss runs in a moment, through run.compile, the only
part of nvccache's pipeline named here.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
import time
from pathlib import Path

from nvccache import config as settings
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.explain import miss_reason
from nvccache.explain.miss_reason import Explanation, ObjectRecord
from nvccache.records import direct_hit
from nvccache.records.base_dir import checkout_of
from nvccache.records.direct_hit import Request
from nvccache.records.products import Answer
from nvccache.run import compile as compiling
from nvccache.run.report import Report
from nvccache.store import store
from nvccache.store.store import Store
from workspaces import OLD_ENOUGH

NVCC = """for scratch; do :; done
sed "s#@scratch@#$scratch#g; s#@work@#$PWD#g" {transcript} >&2
exit $(cat {status})
"""
TOOL = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        -o) out=$2; shift ;;
        -arch) arch=" for $2"; shift ;;
        --orig_src_*) shift ;;
        -*) ;;
        *) input=$1 ;;
    esac
    shift
done
text=$(cat "$input")
case $text in *{name}_takes_long*) sleep 0.3 ;; esac
case $text in *{name}_says*) echo "a.cu(1): {name} warns$arch" >&2 ;; esac
case $text in *{name}_names_the_product*) echo "a.cubin: {name} warns" >&2 ;; esac
case $text in *{name}_names_its_input_and_fails*) echo "$input: no" >&2; exit 2 ;; esac
case $text in *{name}_fails*) echo "a.cu(1): {name} rejects it" >&2; exit 2 ;; esac
case $text in *{name}_runs_out*) echo "{name}: No space left on device" >&2; exit 1 ;; esac
case $text in *{name}_is_silent*) exit 3 ;; esac
case $text in *{name}_asks_for_the_time*) date >/dev/null ;; esac
case $text in *{name}_embeds_its_input*) text="$text $input" ;; esac
echo "$text" | sed '/^# /d; s/{removed}//' >"$out"
"""
_NO_PATH = b"@" * 1023
_BECOMES_SHELL = """
#include <unistd.h>
static char path[] = "{path}";
int main(int count, char **words) {{
  char *all[count + 2];
  all[0] = "sh", all[1] = path;
  for (int at = 1; at <= count; at++) all[at + 1] = words[at];
  execv("/bin/sh", all);
  return 127;
}}
"""
# `removed` is what a tool does not let through.
TOOLS = {"cicc": "for_cicc_alone", "ptxas": "for_ptxas_alone"}
PASS = 'gcc -D__CUDA_ARCH__={arch}0 -D__CUDA_ARCH_LIST__=800 -E -x c++ {options} "a.cu" -o "@scratch@/{ii}"'
CICC = (
    'cicc --orig_src_file_name "a.cu" --orig_src_path_name "@work@/a.cu" -arch compute_{arch}'
    ' {options} "@scratch@/{ii}" -o "{ptx}"'
)
PTXAS = 'ptxas -arch=sm_{arch} -m64 "@scratch@/{ptx}" -o "{product}"'


class Toolkit:
    """It is next to the working directory, and so is the cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "bin").mkdir()
        (folder / "tmp").mkdir()
        self.nvcc = str(folder / "bin" / "nvcc")
        self.status = folder / "status"
        self.transcript = folder / "transcript"
        write_nvcc(Path(self.nvcc), NVCC.format(transcript=self.transcript, status=self.status))
        for name, removed in TOOLS.items():
            self.write_tool(name, TOOL.format(name=name, removed=removed))
        self.environ = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "NVCCACHE_DIR": str(folder / "cache"),
        }
        self.status.write_text("0")
        self.will_do(*cubin())

    def write_tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def replace_tool(self, name: str, more: str = "# another\n") -> None:
        """By one that does the same, and something more."""
        path = self.folder / "bin" / name
        path.write_bytes(path.read_bytes() + more.encode())
        time.sleep(OLD_ENOUGH)

    def write(self, name: str, text: str) -> None:
        """Long enough ago to be recorded."""
        (self.work / name).write_text(text)
        time.sleep(OLD_ENOUGH)

    def will_do(self, *lines: str, messages: str = "") -> None:
        """What nvcc is to say that it would do; a compile is recorded only after another `write`."""
        self.transcript.write_text(messages + "".join(f"#$ {line}\n" for line in lines))

    def store(self) -> Store:
        return Store(settings.load(self.environ).dir)

    def blobs(self) -> dict[Path, bytes | None]:
        """What the products of stages hold, in the store."""
        cache = self.store()
        paths = (self.folder / "cache" / store.BLOB).glob("*/*")
        return {path: cache.read_blob(path.name.partition(".")[0]) for path in paths}

    def last_record(self, product: str = "a.cubin") -> ObjectRecord:
        """What is written down of the last compile of a product."""
        found = miss_reason.find_record(str(self.work / product), self.store())
        assert found
        return found

    def compile(self, line: str = "-cubin -arch=sm_80 a.cu -o a.cubin", **variables: str) -> Report:
        """Compile where no record is asked for an answer."""
        environ = {**self.environ, **variables}
        argv = line.split()
        parsed = invocation.parse(argv, environ)
        assert isinstance(parsed, Invocation), parsed
        request = Request(self.nvcc, argv, environ, settings.load(environ))
        request.invocation = parsed
        request.checkout = checkout_of(request.config.base_dir, os.getcwd())
        return compiling.compile_call(request, Explanation(is_recaching=request.config.recache))

    def answer(self, line: str = "-cubin -arch=sm_80 a.cu -o a.cubin", **variables: str) -> Answer | None:
        """What a record answers, if one does."""
        environ = {**self.environ, **variables}
        found = direct_hit.answer(Request(self.nvcc, line.split(), environ, settings.load(environ)))
        return found if isinstance(found, Answer) else None


def write_nvcc(path: Path, text: str) -> None:
    """Put an nvcc there that has a shell run a text: a compiled program, as a script would be rehearsed."""
    script = path.with_name("nvcc-text")
    script.write_text(text)
    program = _nvcc_of_shell()
    room = program.count(_NO_PATH) and len(_NO_PATH)
    assert len(os.fsencode(script)) < room
    path.write_bytes(program.replace(_NO_PATH, os.fsencode(script).ljust(room, b"\0")))
    path.chmod(0o755)


@functools.cache
def _nvcc_of_shell() -> bytes:
    """A program that becomes a shell, with the path of its script in the place of _NO_PATH."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "nvcc")
        text = _BECOMES_SHELL.format(path=_NO_PATH.decode())
        argv = ["g++", "-O1", "-x", "c", "-", "-o", program]
        subprocess.run(argv, input=text.encode(), check=True, capture_output=True)
        return Path(program).read_bytes()


def cubin(*architectures: int, options: str = "", cicc_options: str = "") -> list[str]:
    """The commands for a cubin, or for one of each of several architectures."""
    lines = []
    for arch in architectures or (80,):
        ii, ptx = f"a.compute_{arch}.cpp1.ii", f"a.compute_{arch}.ptx"
        product = "a.cubin" if len(architectures) < 2 else f"a.sm_{arch}.cubin"
        lines += [
            PASS.format(arch=arch, ii=ii, options=options),
            CICC.format(arch=arch, ii=ii, ptx=f"@scratch@/{ptx}", options=cicc_options),
            PTXAS.format(arch=arch, ptx=ptx, product=product),
        ]
    return lines


def stages(report: Report) -> list[str]:
    """The stages of a call in nvcc's order; those that did not run in parentheses."""
    return [f"({stage.kind})" if stage.is_hit else stage.kind for stage in report.stages]
