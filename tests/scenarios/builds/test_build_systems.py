"""A project is built by real build systems: with plain nvcc, through an empty cache and through a full one.

It is always built in the same place. Every object, every warning and every dependency file is what plain nvcc
makes; what depends on an edited file is built again, and nothing else.

    pytest --every-case tests/scenarios/builds/test_build_systems.py    all of them
    NVCCACHE_TEST_NVCC=/path/to/nvcc                             with another toolkit
    NVCCACHE_TEST_CCBIN=/path/to/g++                             and host compiler
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nvccache.store.event_line import Event
from scenarios.builds.builds import Build, outcomes, prepare, stages_run, touch
from scenarios.builds.small_project import EDITED, HEADER, READERS, SOURCES, SYSTEMS, TOUCHED, System
from scenarios.support.toolkits import with_real_headers
from workspaces import Workspace

UNITS = 3


@pytest.fixture
def project(workspace: Workspace, tmp_path: Path, system: System, request: pytest.FixtureRequest) -> Build:
    keep = tmp_path / "keep"
    if system.names_keep_directory:
        keep = request.getfixturevalue("reference_directory")
    if system.needs_headers:
        workspace = with_real_headers(workspace, request.getfixturevalue("real_nvcc"))
    for name, text in SOURCES.items():
        workspace.write(name, text)
    prepare(workspace, system)
    return Build(workspace, system, keep)


def link_of(project: Build) -> dict[str, str]:
    product, outcome = project.system.link
    return {str(project.directory / product): outcome} if product else {}


def check_cold(project: Build, calls: list[Event]) -> None:
    found = outcomes(calls)
    assert len(found) == UNITS + len(link_of(project))
    assert set(found.values()) <= {"miss", "partial_hit"}
    assert Counter(stages_run(calls))["cicc"] == UNITS


def check_warm(project: Build, calls: list[Event]) -> None:
    found, link = outcomes(calls), link_of(project)
    assert found.items() >= link.items()
    assert [outcome for name, outcome in found.items() if name not in link] == ["direct_hit"] * UNITS
    assert stages_run(calls) == []


@pytest.mark.by_default("cmake-ninja")
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_rebuild_by_a_build_system_hits_and_gives_nvccs_result(project: Build) -> None:
    # Plain nvcc's results for the project as it is, and with an edited header.
    plain, edited = project.plainly_and_edited(HEADER, EDITED)
    assert len(plain.warnings) == 1
    # The same build directory, created again: through an empty cache, then through a full one.
    project.begin(ours=True)
    cold, calls = project.cached()
    assert (cold.differing(plain), cold.warnings) == ([], plain.warnings)
    assert project.is_done(ours=True)
    check_cold(project, calls)
    project.begin(ours=True)
    warm, calls = project.cached()
    assert warm == cold
    check_warm(project, calls)

    # A source that is only touched is built again by the build system, and answered by nvccache.
    touch(project.workspace.directory / TOUCHED)
    made, calls = project.cached()
    assert made == cold
    found = outcomes(calls)
    assert len(found) == 1 + len(link_of(project))
    assert [name for name, outcome in found.items() if outcome == "direct_hit" and "round" in name]

    # The readers of an edited header are compiled, and nothing else is.
    project.workspace.write(HEADER, EDITED)
    made, calls = project.cached()
    assert made.differing(edited) == []
    found = outcomes(calls)
    compiled = {name for name in found if name not in link_of(project)}
    assert len(compiled) == len(READERS) == sum(any(part in name for part in READERS) for name in compiled)
    assert {found[name] for name in compiled} <= {"miss", "partial_hit"}
    assert project.is_done(ours=True)
