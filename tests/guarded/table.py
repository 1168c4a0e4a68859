"""The form of the tables, and the files of tests that they name most."""

from __future__ import annotations

from typing import NamedTuple


class Guard(NamedTuple):
    """A check, where it is made, and the test of it.

    `module` is a file's base name, or a path from the root; `test` one or more base names of files of tests,
    or paths, with options; `which` a `-k` expression.
    """

    name: str
    module: str
    line: str
    instead: str
    test: str
    which: str


SOUNDNESS = "tests/scenarios/test_soundness_"


FILES, SEARCH, CALLS, TOOLS, UNRECORDED, PRODUCTS, CHECKOUTS = (
    f"{SOUNDNESS}{theme}.py"
    for theme in ("files", "search", "calls", "tools", "unrecorded", "products", "checkouts")
)
LINKED = "tests/scenarios/test_linked_checkouts.py"
CUT_OFF, LINES, SAID, IDS = (
    f"tests/scenarios/test_cut_off{theme}.py" for theme in ("", "_lines", "_diagnostics", "_ids")
)
REHEARSED = "tests/scenarios/test_rehearsed_wrappers.py"
WRAPPED_HOST = "tests/scenarios/test_wrapped_host_compilers.py"
SCRIPTED = "tests/scenarios/test_scripted_nvcc.py"
MEANING = "test_normalized_text.py"
LINES_LISTED = "tests/scenarios/test_command_lines.py --every-case"
TERMINALS = "tests/scenarios/test_terminals.py"
LINKS = "tests/scenarios/test_device_links.py"
MACHINE = "tests/scenarios/test_machine.py"
RELINK, RELINKS = "test_link_only.py", "tests/scenarios/test_relinks.py"
MISSING, ENVIRONMENT = (
    f"tests/scenarios/test_{theme}.py" for theme in ("missing_compilers", "environment_of_tools")
)
QUERIES = "tests/scenarios/test_queries.py"
START = "tests/test_launcher.py"
DIRECTORY, SHARED = "test_directory.py", "tests/scenarios/test_shared_caches.py"
OUTPUTS, PRODUCTS_GIVEN = "test_output_names.py", "test_products.py"
LEFTOVERS = "test_leftovers.py"
QUESTIONS = "tests/scenarios/test_hostile_questions.py"
OBSERVED = "test_stage_inputs.py"
ASKING, SCRIPTS = "test_stage_inputs_questions.py", "test_stage_inputs_scripts.py"
CALLERS = "tests/scenarios/test_observed_callers.py"
OBSERVER, OBSERVER_LOG = "test_observer.py", "test_observer_log.py"
