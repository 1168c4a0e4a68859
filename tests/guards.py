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
LINKED = "tests/scenarios/test_linked_checkouts.py"
SECOND = "tests/scenarios/test_second_build_directories.py"
CUT_OFF, LINES, SAID, IDS = (
    f"tests/scenarios/test_cut_off{theme}.py" for theme in ("", "_lines", "_diagnostics", "_ids")
)
MEANING = "tests/test_meaning.py"
LINES_LISTED = "tests/scenarios/test_command_lines.py --every-line"
TERMINALS = "tests/scenarios/test_terminals.py"
LINKS = "tests/scenarios/test_device_links.py"
RELINK, RELINKS = "tests/test_relink.py", "tests/scenarios/test_relinks.py"
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
          "path in self._signatures or changed > self._since_ns - _CLOCK_TICK", "path in self._signatures",
          "tests/test_headers.py",
          "changed_while_its_pass_ran"),
    Guard("files changed between two passes", "headers.py", "if self._signatures.get(path) != signature:",
          "if path not in self._signatures:", "tests/test_surveys.py", "between_two_passes"),
    Guard("files changed while they are read", "headers.py", "if signatures.of(path) != signature:",
          "if False:", "tests/test_surveys.py", "while_it_is_looked_at"),
    Guard("headers that appear during the compile", "headers.py",
          "status.st_ctime_ns > self._since_ns - _CLOCK_TICK", "False",
          "tests/test_headers.py", "appeared_earlier"),
    Guard("the time of day", "headers.py", "objections = [sources.expands_time(",
          "objections = [] and [sources.expands_time(", UNRECORDED, "time and source"),
    Guard("questions that are not understood", "sources.py", "if self.questions.is_questionable:",
          "if False:", SEARCH, "asked and macro"),
    Guard("directives that are not followed", "sources.py",
          "for directive in self.unfollowed]", "for directive in ()]", "tests/test_sources.py",
          "follow or embed or import"),
    Guard("what __has_include asks for", "headers.py", "lookups.add_question(name, path)",
          "pass", SEARCH, "asked and quoted"),
    Guard("macros that ask", "sources.py", "wrappers.append(wrapper[1])", "pass", SEARCH,
          "asked and macro and that"),
    Guard("words over two lines", "sources.py", 'content, count = _CONTINUED.subn(b"", content)',
          "count = 0", SEARCH, "asked and lines"),
    Guard("places before a header", "headers.py", "lookups.add_header(path, tuple(dict.fromkeys(nearby)))",
          "pass", "tests/test_headers.py",
          "systems_header_includes"),
    Guard("places beside the includer", "searches.py",
          "return [*along_chain, *(self._folder(directory, folder) for directory in nearby)]",
          "return along_chain", SEARCH, "earlier and beside"),
    Guard("links on the system's search path", "headers.py",
          "links = lookups.links().union(*ways.values())", "links = set()", SEARCH, "systems_search_path"),
    Guard("links that no text names", "headers.py",
          "if files[path].is_system and path not in ways and path not in candidates:", "if False:", SEARCH,
          "systems_search_path and macros"),
    Guard("variables that name directories", "search_path.py", "if environ.get(variable):", "if False:",
          SEARCH, "earlier and directory and CPATH"),
    Guard("directories that do not exist", "search_path.py", "if line.startswith(_IGNORED):", "if False:",
          "tests/test_search_path.py", "exist or compiler_says"),
    Guard("copies that were passed over", "headers.py",
          "return [path for path in alike if self._digests[path] in once]", "return []", FILES, "once"),
    Guard("signatures of what is remembered", "surveys.py", "tuple(row[:5]) != signature",
          "tuple(row[:4]) != signature[:4]", "tests/test_surveys.py", "touched"),
    Guard("what is too new to be remembered", "surveys.py",
          " and signatures.is_settled(signature, self._since_ns)", "", "tests/test_surveys.py",
          "without_a_trace"),
    Guard("words that were not looked for", "sources.py", "if not asking <= found.looked_for:",
          "if not found.looked_for:", "tests/test_surveys.py", "macro"),
    Guard("answers to other words", "sources.py", "if words not in found.answers:",
          "if found.answers:\n            return next(iter(found.answers.values()))\n        if True:",
          "tests/test_surveys.py", "macro"),
    Guard("rules of what is remembered", "surveys.py", 'builder.add("rules", __version__, sources.RULES)',
          "pass", "tests/test_surveys.py", "other_rules"),
    Guard("names that are remembered", "surveys.py", 'if "\\0" in text:', "if False:",
          "tests/test_surveys.py", "whatever"),
    Guard("programs", "recording.py",
          "digests[path] = toolchain.digest_of_program(path, self.execution.store)", "pass", TOOLS,
          "ptxas or profile"),
    Guard("the profile of nvcc", "recording.py", "*self._profiles(), ", "", TOOLS, "profile"),
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
          "if self.execution.seeding.is_bound or self._names_outputs(given) or given.intermediates:",
          "if False:", PRODUCTS,
          "external"),
    Guard("paths in text that is shared", "recording.py",
          "if not all(known.free_of == base for known in self.execution.passes.values()):", "if False:",
          CHECKOUTS,
          "FILE and length"),
    Guard("paths in what is shared", "recording.py",
          "if any(needle in content for content in [*contents, given.stdout, given.stderr]):", "if False:",
          CHECKOUTS, "warning"),
    Guard("ids in what is shared", "recording.py", "if any(map(module_id.may_be_any_in, told)) or",
          "if False and", LINKED, "same_unit"),
    Guard("where a source is, in what is read", "ingredients.py",
          'found.append(("sources", tuple(source_paths)))', "pass", "tests/test_workspace.py", "source"),
    Guard("relative entries of PATH in answers of compilers", "toolchain.py",
          "if any(_has_relative_entry(setting.partition(\"=\")[2]) for setting in searched):", "if False:",
          "tests/test_toolchain.py", "working_directory"),
    Guard("lines that a script may have shown", "lookup.py",
          'return self._ignores_lines and (self._knows_compilers or stage.kind == "cicc")',
          "return self._ignores_lines", SECOND, "comment"),
    Guard("debug information that is shared", "recording.py",
          'return all(self._hides_directory(stage) for stage in plan.stages if stage.kind == "host_compile")',
          "return True", CHECKOUTS,
          "compressed"),
    Guard("checksums of records", "store.py", "if checksum != _checksum(key, body):", "if False:",
          "tests/test_store.py", "damage or torn or checksum or record"),
    Guard("names that are no keys", "store.py", "if len(name) != _KEY_LENGTH or not name.isalnum():",
          "if False:", "tests/test_store.py tests/test_replay_damage.py",
          "out_of or leads or outside or lead"),
    Guard("cut-off: text that reads where it stands", "meaning.py",
          "if any(reader in text for reader in _LINE_READERS):", "if False:", MEANING, "reads_where"),
    Guard("cut-off: raw strings", "meaning.py", "kept = _with_raw_strings_kept(text)", "kept = text", MEANING,
          "inside_a_raw_string or delimiter"),
    Guard("cut-off: text that holds the mark of a standing", "meaning.py",
          "if _MARKS[0][:1] in text or _KEPT[1:] in text:", "if _KEPT[1:] in text:", MEANING,
          "what_is_said or taken_for_a_header"),
    Guard("cut-off: where a system header is left", "meaning.py",
          "position = left.start() if left else len(text)", "position = len(text)", MEANING, "large_system"),
    Guard("cut-off: what a system header says", "meaning.py",
          "position - start), text[start:position])", "position - start), b'')", MEANING, "large_system"),
    Guard("cut-off: the R that ends a string", "meaning.py", "if plain.count(b'\"') % 2:", "if False:",
          MEANING, "lines_around"),
    Guard("cut-off: characters before raw strings", "meaning.py", """if b"'" in plain:""", "if False:",
          MEANING, "that_mislead"),
    Guard("cut-off: suffixes before raw strings", "meaning.py",
          """return None if text.startswith(b'"', position - len(prefix) - 1) else True""", "return True",
          MEANING, "that_mislead"),
    Guard("cut-off: the R that ends a name", "meaning.py",
          'if prefix not in (b"", b"u8", b"u", b"U", b"L"):', "if False:", MEANING, "lines_around"),
    Guard("cut-off: where a file of another standing begins", "meaning.py",
          "if standings[where] is not standing:", "if False:", MEANING, "standing or whether_it_is"),
    Guard("cut-off: the source and its headers", "meaning.py",
          "is_main = name == main.rpartition(b'\"')[0]", "is_main = True", SAID, "leave_unused and True"),
    Guard("cut-off: headers of the system", "meaning.py", '(b"3" in flags)', "False", SAID, "users_puts"),
    Guard("cut-off: headers of C", "meaning.py", '(b"4" in flags)', "False", MEANING, "standing"),
    Guard("cut-off: options of cicc and cudafe++", "lines.py", 'if stage.kind in ("cudafe", "cicc"):',
          'if stage.kind in ("cudafe", "cicc"):\n        return False\n    if False:', LINES,
          "option_by_which and lineinfo"),
    Guard("cut-off: options of the host compile", "lines.py", 'if stage.kind == "host_compile":',
          'if stage.kind == "host_compile":\n        return False\n    if False:', LINES,
          "option_by_which and Xcompiler"),
    Guard("cut-off: commands that are not understood", "lines.py",
          'return not stage.is_preprocessor and stage.kind not in ("ptxas",', 'return False and ("ptxas",',
          "tests/test_lines.py", "not_understood"),
    Guard("cut-off: options that only begin alike", "lines.py", "_HOST_OPTIONS.fullmatch(option)",
          "_HOST_OPTIONS.match(option)", "tests/test_lines.py", "matter_to_the_host"),
    Guard("cut-off: options for the assembler", "lines.py", "-W(?![alp],).*", "-W.*", "tests/test_lines.py",
          "matter_to_the_host"),
    Guard("cut-off: options by which lines matter", "lookup.py",
          "return lines.matter_to(stages) or not all", "return not all", LINES,
          "option_by_which and lineinfo"),
    Guard("cut-off: scripts as host compilers", "lookup.py",
          " or not all(compiler.is_itself for compiler in found)", "", LINES, "script"),
    Guard("cut-off: text without a meaning of its own", "lookup.py",
          'if known and not known.meaning:\n                return ""', "", LINES,
          "reads_its_line and builtin"),
    Guard("cut-off: hits on text that has moved", "lookup.py",
          "is_moved = tried == before.meaning_key and entry.text != self.text_read_by(stage)",
          "is_moved = False", SAID, "name_the_lines and host"),
    Guard("cut-off: results with diagnostics", "execution.py",
          "lookup.claim_key if is_silent else lookup.front_key",
          "lookup.claim_key", SAID, "name_the_lines and cudafe"),
    Guard("cut-off: what the host compiler says of moved text", "runner.py",
          'if task.stage.kind == "host_compile" and _has_said(task) and self._has_moved():', "if False:",
          SAID, "name_the_lines and host"),
    Guard("cut-off: ids that differ", "runner.py", "if self._execution.has_unlike_id(task.stage):",
          "if False:", IDS, "other_ids and host"),
    Guard("cut-off: ids in what cicc made", "seeding.py",
          'if stage.kind == "cicc" and not self.names_id(stage, kept):', 'if stage.kind == "cicc":', IDS,
          "two_directories"),
    Guard("cut-off: the place in an id", "seeding.py",
          'builder.add("place", module_id.source_path(stage.words))', "pass", IDS, "two_directories"),
    Guard("cut-off: the seed in an id", "seeding.py", 'builder.add("seed", self.seed_of(stage).text)',
          "pass", IDS, "units_without"),
    Guard("cut-off: one side's part of the text", "lookup.py", "digests.append(known.meaning if known else",
          'digests.append("" if known else', CUT_OFF, "stages_run_whose and alone"),
    Guard("links: device code of objects", "ingredients.py",
          "device_code.digest_of(path) if is_linked else", '"" if is_linked else', LINKS,
          "changed_device_code"),
    Guard("links: libraries", "ingredients.py", 'found.append(("libraries",', 'list(("libraries",', LINKS,
          "by_its_members and library"),
    Guard("links: libraries that are missing", "recording.py", "yield from map(_absence, found.missing)",
          "pass", LINKS, "appears_earlier and words"),
    Guard("links: libraries in records", "recording.py", ", *self._libraries()]", "]", LINKS,
          "by_its_members and library"),
    Guard("links: shared libraries", "recording.py",
          'yield os.path.dirname(path) or ".", PRESENT + os.path.basename(path)', "pass", LINKS, "goes"),
    Guard("links: what nvlink adds to", "plan.py", "if output.role in _ADDED_TO:", "if False:", LINKS,
          "device_link and object and two"),
    Guard("kept files: the name of their directory", "execution.py",
          '.replace(os.fsencode(self.plan.scratch) + b"/", os.fsencode(prefix))', "", LINES_LISTED,
          "keep_directory_slashes"),
    Guard("kept files: lines as they are", "runner.py",
          "relies_on_ids = ignores_lines = not context.plan.keeps_intermediates",
          "relies_on_ids = ignores_lines = True", LINES_LISTED, "keep_directory_slashes or keep_two"),
    Guard("terminals: stages", "lookup.py", "tried == keys.for_terminal(key, terminal, entry.stderr)", "True",
          TERMINALS, "pipe and False"),
    Guard("terminals: replay", "levels.py", "if found and suits and", "if found and", TERMINALS,
          "pipe and False"),
    Guard("terminals: direct", "direct.py",
          "tried == keys.for_terminal(key, asked.terminal, answer.stderr)", "True", TERMINALS, "touched"),
    Guard("terminals: its width", "terminals.py", "size_of(2).hex(), size_of(0).hex(), ", "", TERMINALS,
          "wide"),
    Guard("relink: its records are for these outputs", "recording.py", " or given.intermediates:", ":",
          RELINKS, "other and outputs"),
    Guard("relink: the link reads what the record names", "relink.py",
          " or _read_by(words, path) != names", "", RELINK, "unknown or unread or another"),
    Guard("relink: the last command is a link", "relink.py",
          "if isinstance(last, Command) and hostflags.is_link(last.words) else ()", "", RELINK,
          "no and link"),
    Guard("relink: a link that fails", "relink.py",
          "    if completed.status != 0:\n        return None\n", "", RELINKS, "fails"),
    Guard("relink: what the link says is not in its record", "recording.py",
          "        given.stdout, given.stderr = self._report.told_before_link\n", "", RELINKS, "messages"),
    Guard("relink: names in its record", "answer.py", 'if "/" in name or name in ("", ".", ".."):',
          "if False:", "tests/test_replay_damage.py", "sense"),
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
