"""Checks of `plan`."""

from __future__ import annotations

from guarded.table import LINES, LINKS, Guard

GUARDS = [
    Guard(
        "dates in the line table of a link",
        "line_table.py",
        "    if not is_same:",
        "    if False:",
        "test_line_table.py",
        "changed_while or appeared",
    ),
    Guard(
        "where a source is, in what is read",
        "stage_key.py",
        'found.append(("sources", tuple(source_paths)))',
        "pass",
        "test_workspace.py",
        "source",
    ),
    Guard(
        "links: device code of objects",
        "nvlink.py",
        "digest_of_named=device_code.digest_of,",
        "digest_of_named=str.upper,",
        LINKS,
        "changed_device_code",
    ),
    Guard(
        "links: libraries",
        "stage_key.py",
        "for tag, parts_of in stage.tool.key_components.items():",
        "for tag, parts_of in ():",
        LINKS,
        "by_its_members and library",
    ),
    Guard(
        "links: what nvlink adds to",
        "src/nvccache/plan/build.py",
        "if output.role in _ADDED_TO:",
        "if False:",
        LINKS,
        "device_link and object and two",
    ),
    Guard(
        "products that are read where they will lie",
        "src/nvccache/plan/build.py",
        "if name in products:",
        "if False:",
        "test_build.py",
        "read_where_it_will_lie",
    ),
    Guard(
        "cut-off: options of cicc and cudafe++",
        "line_options.py",
        "return not _CUDA_OPTIONS.issuperset(",
        "return False and (",
        LINES,
        "option_by_which and lineinfo",
    ),
    Guard(
        "cut-off: options of the host compile",
        "line_options.py",
        "return not all(_is_ordinary(option)",
        "return False and (_is_ordinary(option)",
        LINES,
        "option_by_which and Xcompiler",
    ),
    Guard(
        "cut-off: commands that are not understood",
        "tool.py",
        "lines_matter: Callable[[Argv], bool] = always",
        "lines_matter: Callable[[Argv], bool] = never",
        "test_line_options.py",
        "not_understood",
    ),
    Guard(
        "cut-off: options that only begin alike",
        "line_options.py",
        "re.fullmatch(_HOST_OPTIONS",
        "re.match(_HOST_OPTIONS",
        "test_line_options.py",
        "matter_to_the_host",
    ),
    Guard(
        "cut-off: options for the assembler",
        "line_options.py",
        "-W(?![alp],).*",
        "-W.*",
        "test_line_options.py",
        "matter_to_the_host",
    ),
]
