"""Take out one check after the other, in a copy of the tree, and see its test fail.

    python tests/guards.py [WORD...]      all of them, or those whose names hold one of the words

A suite that passes with a check taken out does not test it. Each row names a check of the records of
calls, the line that makes it, what stands there instead, and a test that must then fail. Exits with 1
if a test still passes or a line is no longer there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOUNDNESS = "tests/scenarios/test_soundness_"


class Guard(NamedTuple):
    """A check, where it is made, and the test of it: a file and a `-k` expression."""

    name: str
    module: str
    line: str
    instead: str
    test: str
    which: str


FILES, SEARCH, CALLS, TOOLS, UNRECORDED, PRODUCTS, CHECKOUTS = (
    f"{SOUNDNESS}{theme}.py"
    for theme in ("files", "search", "calls", "tools", "unrecorded", "products", "checkouts")
)
GUARDS = [
    Guard("signatures in a replay record", "replay.py", "signatures.to_bytes(now) != numbers", "False",
          FILES, "seen and the and source and not link and not header"),
    Guard("the inode and change time in a signature", "signatures.py", '"st_mtime_ns", "st_ctime_ns"\n',
          '"st_mtime_ns", "st_mtime_ns"\n', FILES, "same and size and date"),
    Guard("absent names in a replay record", "replay.py",
          "        if os.access(path, os.F_OK):\n            return False", "        pass",
          "tests/test_replay.py", "absent or appears"),
    Guard("present names in a replay record", "replay.py", "if not os.access(path, os.F_OK):", "if False:",
          "tests/test_replay.py", "present or vanish"),
    Guard("links in a replay record", "replay.py", "if os.path.realpath(link) != led_to:", "if False:",
          "tests/test_replay.py", "link"),
    Guard("the arguments in a replay key", "replay.py", 'builder.add("arguments", *arguments)', "pass",
          CALLS, "definition and another"),
    Guard("the directory in a replay key", "replay.py", 'builder.add("directory", cwd,',
          'builder.add("directory", "",', "tests/test_replay.py", "key"),
    Guard("the environment in a replay key", "replay.py",
          'builder.add("environment", *[f"{name}={environ[name]}" for name in names if name in environ])',
          "pass", CALLS, "environment and PTXAS_FLAGS"),
    Guard("which files a replay record may write", "replay.py",
          "if names_its_files(answer, arguments) else None", "", "tests/test_replay_damage.py",
          "names_a_file"),
    Guard("digests of files", "reading.py", "elif seen.digest(path) != digest:", "elif False:", FILES,
          "seen and header and comment or seen and older"),
    Guard("files that are gone", "reading.py", 'found.append(Difference("gone", path))', "pass", SEARCH,
          "header and removed"),
    Guard("names in directories", "reading.py", "found += _of_names(directory, names)", "pass", SEARCH,
          "earlier and empty"),
    Guard("links of sources", "reading.py", "if os.path.realpath(path) != led_to]", "if False]",
          "tests/test_reading.py", "link"),
    Guard("dates in line tables", "reading.py", "if date_and_size(path) != date]", "if False]", FILES,
          "date_that_the_cubin"),
    Guard("dates of copies", "reading.py", "if same_date(one, other) != same]", "if False]", FILES,
          "date_decides_what_is_included_once"),
    Guard("the processor", "reading.py",
          "if reading.processor and reading.processor != keys.digest_bytes(describe_processor().encode()):",
          "if False:", "tests/test_reading.py", "processor"),
    Guard("links in watched directories", "reading.py", "return UNKNOWN if links else found",
          "return found", "tests/test_reading.py",
          "come_to_life"),
    Guard("directories that are written to", "reading.py", "max(found[3:]) > since_ns - _BEING_WRITTEN",
          "False", "tests/test_headers.py", "written_to"),
    Guard("signatures too new to last", "signatures.py", "return now_ns - changed > margin * _SECOND",
          "return True", "tests/test_signatures.py", "settled"),
    Guard("files changed during the compile", "headers.py",
          "signatures.last_change(found, time.time_ns()) > self._since_ns - _CLOCK_TICK", "False",
          "tests/test_headers.py",
          "changed_while_its_pass_ran"),
    Guard("headers that appear during the compile", "headers.py",
          "if found is None or found[4] > self._since_ns - _CLOCK_TICK:", "if False:",
          "tests/test_headers.py", "appeared_earlier"),
    Guard("the time of day", "headers.py", "objections = [sources.expands_time(",
          "objections = [] and [sources.expands_time(", UNRECORDED, "time and source"),
    Guard("questions that are not understood", "sources.py", "return self.unfollowed + self.questionable",
          "return self.unfollowed", SEARCH, "asked and macro"),
    Guard("directives that are not followed", "sources.py", "return self.unfollowed + self.questionable",
          "return self.questionable", "tests/test_sources.py", "follow or embed or import"),
    Guard("what __has_include asks for", "headers.py", "_watch(names, places.of_question(name, path))",
          "pass", SEARCH, "asked and quoted"),
    Guard("macros that ask", "sources.py", "asking.add(wrapper[1])", "pass", SEARCH,
          "asked and macro and that"),
    Guard("words over two lines", "sources.py", 'content = content.replace(b"\\\\\\n", b"")', "pass",
          SEARCH, "asked and lines"),
    Guard("places before a header", "headers.py", "_watch(names, places.of_header(path, includers))",
          "pass", "tests/test_headers.py",
          "systems_header_includes"),
    Guard("places beside the includer", "searches.py",
          'return ["/"] if name.startswith("/") else list(dict.fromkeys([*nearby, *self._chain]))',
          'return ["/"] if name.startswith("/") else list(self._chain)', SEARCH, "earlier and beside"),
    Guard("variables that name directories", "searches.py", "if environ.get(variable):", "if False:",
          SEARCH, "earlier and directory and CPATH"),
    Guard("directories that do not exist", "searches.py", "if line.startswith(_IGNORED):", "if False:",
          "tests/test_searches.py", "exist or compiler_says"),
    Guard("copies that were passed over", "headers.py",
          "if os.stat(path).st_size in sizes and self._read(path) in once", "if False", FILES, "once"),
    Guard("programs", "recording.py",
          "digests[path] = toolchain.digest_of_program(path, self.execution.store)", "pass", TOOLS,
          "ptxas or profile"),
    Guard("the profile of nvcc", "recording.py", "*self._profiles()]", "]", TOOLS, "profile"),
    Guard("option files", "recording.py", "others = [*self.call.option_files, ", "others = [", CALLS,
          "option and file and changes and not host"),
    Guard("programs that appear earlier on PATH", "recording.py", "yield from self._before_on_path(word)",
          "yield from ()", TOOLS, "appears_earlier or elsewhere"),
    Guard("scripts in nvcc's place", "recording.py", "if not toolchain.is_dependable(self.nvcc):",
          "if False:", TOOLS, "nvcc and another"),
    Guard("scripts in the host compiler's place", "recording.py", "if not compiler.is_itself:", "if False:",
          TOOLS, "host and another"),
    Guard("the native architecture", "recording.py", 'found.append("it asks for the native architecture")',
          "pass", UNRECORDED, "architecture"),
    Guard("what the assembler reads", "execution.py",
          'self.objections.append("the assembler reads further files")\n            return False', "pass",
          UNRECORDED, "record and assembler and parts"),
    Guard("the environment in a call's key", "direct.py",
          'builder.add("environment", *[f"{name}={environ[name]}" for name in names if name in environ])',
          "pass", CALLS, "environment and PTXAS_FLAGS"),
    Guard("arguments in a call's key", "direct.py",
          "builder.add(argument.name or \"input\", *(value or [move(token) for token in argument.tokens]))",
          "pass", CALLS, "definition and another"),
    Guard("the directory in a call's key", "direct.py",
          'builder.add("directory", cwd, named)', "pass", CALLS,
          "working_directory"),
    Guard("records bound to outputs", "recording.py",
          "if self.execution.seeding.is_bound or self._names_outputs(given):", "if False:", PRODUCTS,
          "external"),
    Guard("paths in text that is shared", "recording.py",
          "if not all(known.free_of == base for known in self.execution.passes.values()):", "if False:",
          CHECKOUTS,
          "FILE and length"),
    Guard("paths in what is shared", "recording.py",
          "if any(needle in content for content in [*contents, given.stdout, given.stderr]):", "if False:",
          CHECKOUTS, "warning"),
    Guard("debug information that is shared", "recording.py",
          'return all(self._hides_directory(stage) for stage in plan.stages if stage.kind == "host_compile")',
          "return True", CHECKOUTS,
          "compressed"),
    Guard("checksums of records", "store.py", "if checksum != _checksum(key, body):", "if False:",
          "tests/test_store.py", "damage or torn or checksum or record"),
    Guard("names that are no keys", "store.py", "if len(name) != _KEY_LENGTH or not name.isalnum():",
          "if False:", "tests/test_store.py tests/test_replay_damage.py",
          "out_of or leads or outside or lead"),
]  # fmt: skip


def main() -> int:
    words = sys.argv[1:]
    chosen = [guard for guard in GUARDS if not words or any(word in guard.name for word in words)]
    unseen = 0
    with tempfile.TemporaryDirectory() as folder:
        for guard in chosen:
            verdict = try_without(guard, Path(folder) / "tree")
            unseen += verdict != "seen to fail"
            print(f"{verdict:14}  {guard.name}", flush=True)
    print(f"{len(chosen) - unseen} of {len(chosen)} checks were seen to fail when taken out")
    return 1 if unseen else 0


def try_without(guard: Guard, tree: Path) -> str:
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    module = tree / "src" / "nvccache" / guard.module
    text = module.read_text()
    if guard.line not in text:
        return "LINE IS GONE"
    if run_test(guard, tree) != 0:
        return "FAILS ANYWAY"
    module.write_text(text.replace(guard.line, guard.instead))
    return {0: "STILL PASSES", 1: "seen to fail"}.get(run_test(guard, tree), "BROKEN")


def run_test(guard: Guard, tree: Path) -> int:
    """pytest's status: 0 if all passed, 1 if one failed, 5 if there is no such test."""
    words = [*guard.test.split(), "-k", guard.which]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", *words]
    environ = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=tree, env=environ, capture_output=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
