"""An nvcc of a made-up release: the real one, with an altered transcript.

As a program, `other_nvcc.py REAL ALTERATION WORD...`, it prints the altered transcript for a dry run, and
otherwise runs it. Its own compile is the reference for nvccache's compile by its transcript.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

MARK = "#$ "
TOOLS = ("cudafe++", "cicc", "ptxas", "fatbinary")
Alteration = Callable[[list[str], str], list[str]]  # lines and the directory of the intermediates -> lines


def is_command(line: str) -> bool:
    return line.startswith(MARK) and not re.match(r"\w+=|rm |-- |@", line[len(MARK) :])


def is_of(line: str, *tools: str) -> bool:
    """Whether a line starts one of these tools; `gcc` stands for the host compiler."""
    if not is_command(line):
        return False
    name = line[len(MARK) :].split(" ")[0].replace('"', "").rpartition("/")[2]
    return name in tools or ("gcc" in tools and name not in TOOLS and " -x c++ " in line)


def added(argv: str, *tools: str) -> Alteration:
    """Further arguments for some tools."""

    def alter(lines: list[str], directory: str) -> list[str]:
        more = argv.replace("{dir}", directory)
        return [f"{line.rstrip()} {more}" if is_of(line, *tools) else line for line in lines]

    return alter


def renamed(old: str, new: str) -> Alteration:
    """A tool under another name, in the same directory as the others."""

    def alter(lines: list[str], _: str) -> list[str]:
        called = rf'^#\$ (?:"[^"]*/)?{re.escape(old)}"? '
        return [re.sub(called, f"{MARK}{new} ", line) if is_command(line) else line for line in lines]

    return alter


def replaced(*pairs: tuple[str, str]) -> Alteration:
    """Other words in all commands."""

    def alter(lines: list[str], _: str) -> list[str]:
        for pattern, new in pairs:
            lines = [re.sub(pattern, new, line) if is_command(line) else line for line in lines]
        return lines

    return alter


def after(tool: str, *new: str) -> Alteration:
    """Further lines behind those of a tool; `{dir}` in them is the directory of the intermediates."""

    def alter(lines: list[str], directory: str) -> list[str]:
        filled = [MARK + line.replace("{dir}", directory) for line in new]
        return [part for line in lines for part in ([line, *filled] if is_of(line, tool) else [line])]

    return alter


def each(*alterations: Alteration) -> Alteration:
    def alter(lines: list[str], directory: str) -> list[str]:
        for alteration in alterations:
            lines = alteration(lines, directory)
        return lines

    return alter


def progress(lines: list[str], _: str) -> list[str]:
    """A line before each command."""
    numbered = []
    for line in lines:
        numbered += [f"nvcc: step {len(numbered)}", line] if is_command(line) else [line]
    return numbered


def device_passes_first(lines: list[str], _: str) -> list[str]:
    commands = [line for line in lines if is_command(line)]
    others = [line for line in lines if not is_command(line)]
    return others + sorted(commands, key=lambda line: "-D__CUDA_ARCH__" not in line or " -E " not in line)


def elsewhere(lines: list[str], directory: str) -> list[str]:
    """The intermediates in a directory of the release's own, each removed in the end."""
    own = os.environ.get("OTHER_TEMPORARY", "/tmp/other")
    moved = [line.replace(directory + "/", own + "/") if is_command(line) else line for line in lines]
    names = sorted({name for line in moved for name in re.findall(rf"{re.escape(own)}/[\w.]+", line)})
    # cicc names the file that cudafe1.cpp includes, and others that it may not write
    return [*moved, *(f"{MARK}rm {name}" for name in names)]


def mode(lines: list[str], _: str) -> list[str]:
    """A variable that tools read."""
    return [f"{MARK}NEW_MODE={os.environ.get('OTHER_MODE', '-O3')}", *lines]


def optimised(lines: list[str], directory: str) -> list[str]:
    """A tool between cicc and ptxas that reads one file and writes another."""
    readers = ("ptxas", "fatbinary")
    lines = [line.replace("/a.ptx", "/a.opt.ptx") if is_of(line, *readers) else line for line in lines]
    return after("cicc", 'nvopt "{dir}/a.ptx" "{dir}/a.opt.ptx"')(lines, directory)


def changed_text(lines: list[str], directory: str) -> list[str]:
    """A tool between the preprocessor and cudafe++ that changes the text in place."""
    stage = f'{MARK}nvtext "{directory}/a.cpp4.ii"'
    return [part for line in lines for part in ([stage, line] if is_of(line, "cudafe++") else [line])]


def own_preprocessor(lines: list[str], _: str) -> list[str]:
    """The host's pass by a program that adds the macros itself, by which it would be known."""
    macros = r" -D__(CUDACC__|NVCC__|CUDA_ARCH_LIST__=\S+)(?= )"
    return [
        re.sub(r"^#\$ \S+", MARK + "nvpp", re.sub(macros, "", line))
        if is_of(line, "gcc") and " -E " in line and "-D__CUDA_ARCH__=" not in line
        else line
        for line in lines
    ]


def signed(lines: list[str], _: str) -> list[str]:
    """A tool that adds to the object where the user wants it."""
    last = max(index for index, line in enumerate(lines) if is_of(line, "gcc"))
    return [*lines[: last + 1], f'{MARK}nvsign "a.o"', *lines[last + 1 :]]


ALTERATIONS: dict[str, Alteration] = {
    "nothing": lambda lines, _: lines,
    "arguments": each(added("--new-option=7 --new-switch", *TOOLS), added("-DNEW_RELEASE=20", "gcc")),
    "an argument that names a file": added('--new-report="report"', "ptxas"),
    "an argument that names an intermediate": added('--new-report="{dir}/a.report"', "ptxas"),
    "names": replaced(
        (r"\.cpp4\.ii", ".host.ii"),
        (r"\.cpp1\.ii", ".gpu.ii"),
        (r"\.module_id\b", ".mid"),
        (r"\.fatbin\.c\b", ".images.c"),
        (r"/a\.(ptx|sm_80\.cubin)", r"/\1_a.00"),
    ),
    "the name of what the host compiler reads": replaced((r"\.cudafe1\.", ".half.")),
    "names elsewhere": elsewhere,
    "cudafe++ renamed": renamed("cudafe++", "cudafe-next"),
    "cicc renamed": renamed("cicc", "cicc-next"),
    "ptxas renamed": renamed("ptxas", "ptxas-next"),
    "fatbinary renamed": renamed("fatbinary", "fatbinary-next"),
    "all tools renamed": each(*(renamed(tool, tool.rstrip("+") + "-next") for tool in TOOLS)),
    "a preprocessor of its own": own_preprocessor,
    "a stage behind cicc": optimised,
    "a stage behind cicc, in place": after("cicc", 'nvopt "{dir}/a.ptx"'),
    "a stage behind ptxas, in place": after("ptxas", 'nvsign "{dir}/a.sm_80.cubin"'),
    "a stage on text": after("cudafe++", 'nvtext "{dir}/a.cudafe1.cpp"'),
    "a stage on preprocessed text, in place": changed_text,
    "a stage that reads what nobody reads": after("cicc", 'nvpeek "{dir}/a.cudafe1.gpu"'),
    "a stage that works on the product": signed,
    "a stage that makes another product": after("ptxas", 'nvreport "{dir}/a.sm_80.cubin" "a.report"'),
    "a stage that talks": after("cicc", "nvtalk"),
    "a stage that fails": after("cicc", 'nvfail "{dir}/a.ptx"'),
    "a stage that is not there": after("cicc", 'nvnothing "{dir}/a.ptx"'),
    "a check by ptxas": after("cicc", 'ptxas -arch=sm_80 "{dir}/a.ptx"'),
    "a variable": mode,
    "a variable between commands": after("cicc", "NEW_MODE=-O1"),
    "device passes first": device_passes_first,
    "an unknown kind of line": after("cicc", "-- Prune Files --"),
    "an unknown kind of line, to a file": after("cicc", "-- Prune Files -- > {dir}/a.ptx"),
    "a mark of progress": after("cicc", "@progress 40"),
    "a word of the shell": after("cicc", ": done"),
    "an assignment before a command": replaced((r"^#\$ ptxas ", MARK + "NEW_MODE=-O1 ptxas ")),
    "two commands in a line": replaced((r"^(#\$ ptxas .*)", r"\1 && nvtalk")),
    "a redirection": replaced((r"^(#\$ ptxas .*)", r"\1 2>ptxas.log")),
    "messages at the front": lambda lines, _: ["nvcc: release 20", "nvcc warning : all is new", *lines],
    "messages between commands": progress,
    "lines that remove": after("cicc", "rm {dir}/a.lock", "rm {dir}/a b.lock"),
    "a version": replaced(
        (r"-D__CUDACC_VER_MAJOR__=\d+", "-D__CUDACC_VER_MAJOR__=20"),
        (r"-D__CUDA_API_VER_MAJOR__=\d+", "-D__CUDA_API_VER_MAJOR__=20"),
    ),
    "a version without a number": replaced((r"-D__CUDACC_VER_MAJOR__=\d+", "-D__CUDACC_VER_MAJOR__=next")),
}


def main(real: str, alteration: str, argv: list[str]) -> int:
    if "--version" in argv:
        print("nvcc: a compiler driver\nCopyright (c) nobody\nCuda compilation tools, release next, V20.x")
        return 0
    argv = [word for word in argv if not word.startswith("--new-thing")]
    is_dry, argv = "--dryrun" in argv, [word for word in argv if word != "--dryrun"]
    directory, argv = _keep_directory(argv)
    if is_dry and not directory:
        return subprocess.run([real, "--dryrun", *argv], check=False).returncode
    with tempfile.TemporaryDirectory(prefix="other-") as own:
        directory = directory or own
        asked = [real, "--dryrun", *argv, "-keep", "-keep-dir", directory]
        done = subprocess.run(asked, capture_output=True, check=False)
        lines = ALTERATIONS[alteration](done.stderr.decode().splitlines(), directory)
        if is_dry or done.returncode:
            sys.stdout.buffer.write(done.stdout)
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            return done.returncode
        os.makedirs(directory, exist_ok=True)
        return _carry_out(lines)


def _keep_directory(argv: list[str]) -> tuple[str, list[str]]:
    if "-keep-dir" not in argv:
        return "", argv
    at = argv.index("-keep-dir")
    rest = [*argv[:at], *argv[at + 2 :]]
    return argv[at + 1], [word for word in rest if word != "-keep"]


def _carry_out(lines: Sequence[str]) -> int:
    """Do what nvcc does with its lines: each is for a shell, up to the first that fails."""
    environ = dict(os.environ)
    has_begun = False
    for line in lines:
        body = line.removeprefix(MARK)
        has_begun |= is_command(line)
        if not line.startswith(MARK):
            print(line, file=sys.stderr, flush=True)
        elif re.fullmatch(r"\w+=\S*", body) or (not has_begun and re.match(r"\w+=", body)):
            name, _, value = body.partition("=")
            environ[name] = value
        elif body.startswith("rm "):
            if os.path.lexists(body[3:]):
                os.unlink(body[3:])
        elif not body.startswith(("-- ", "@")):  # steps of its own
            status = subprocess.run(["sh", "-c", body], env=environ, check=False).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
