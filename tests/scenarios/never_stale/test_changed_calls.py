"""How a compile is called: command line, option files, environment and working directory."""

from __future__ import annotations

import pytest

from scenarios.support.cases import DIRECT_HIT, Call, Case, check, check_again, made_by_plain, value
from workspaces import Workspace

pytestmark = pytest.mark.light_by_default
HEADER = {"h.h": "#ifndef X\n#define X 0\n#endif\n#define VALUE X\n"}
TWO = {"one/h.h": value(1), "two/h.h": value(2)}
SMOKE = pytest.mark.smoke("direct hit")
UNKNOWN = "a variable that no tool knows"
CASES = {
    "directories change places": Case(
        cause="because the command line was reordered",
        files=TWO,
        call=Call("-Ione -Itwo"),
        then=Call("-Itwo -Ione"),
    ),
    "CPATH is set": Case(
        cause="the environment variable `CPATH` was set",
        files=TWO,
        call=Call("-isystem two"),
        then=Call("-isystem two", {"CPATH": "one"}),
    ),
    UNKNOWN: Case(
        files=HEADER, then=Call(variables={"UNRELATED": "1"}), outcome=DIRECT_HIT, changes_product=False
    ),
}


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=SMOKE if rule == UNKNOWN else ()) for rule in CASES]
)
def test_a_changed_command_line_or_variable_is_noticed(workspace: Workspace, rule: str) -> None:
    check(workspace, CASES[rule])


def test_relative_names_in_another_directory_never_give_the_first_directorys_object(
    workspace: Workspace,
) -> None:
    line = "-ptx ../a.cu -MD -MF ../a.d -o ../a.ptx -I."
    makes = ("../a.ptx", "../a.d")
    one, two = (Call(line=line, makes=makes, directory=name) for name in ("one", "two"))
    cause = ("the working directory changed", "`./h.h` changed", "`h.h` changed")
    check(workspace, Case(cause=cause, files=TWO, call=one, then=two))
    check_again(workspace, one, made_by_plain(workspace, one), is_recorded=True)
