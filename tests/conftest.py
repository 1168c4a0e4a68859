"""Fixtures shared by all tests: a real nvcc, a workspace, and nvccache run in it as a user runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import installations
from nvccache.toolkit.discovery import find_nvcc
from workspaces import HIDDEN_PREFIXES, REFERENCE_KEEP_DIRECTORY, Workspace, make_workspace

pytest.register_assert_rewrite("scenarios.sameness")  # so that a failure shows what differed

# Files of which one case of so many is run by default.
KEPT_CASES = {
    "test_soundness": 5,
    "test_cut_off": 8,
    "test_device_links": 3,
    "test_relinks": 3,
    "test_terminals": 3,
    "test_build_arguments": 2,
    "test_build_systems": 4,
    "test_project_arguments": 4,
    "test_unknown_releases": 16,
    "test_diagnostics": 20,
    "test_debug_builds": 16,
    "test_host_compilers": 20,
    "test_hostile_cache": 60,
    "test_whole_products": 7,
    "test_relative_toolkits": 4,
    "test_linked_checkouts": 2,
    "test_observed_paths": 7,
    "test_observed_headers": 10,
    "test_observed_search": 9,
    "test_observed_programs": 5,
    "test_observed_scripts": 5,
    "test_observed_wrappers": 7,
    "test_observed_clocks": 8,
    "test_observed_changes": 11,
    "test_observed_clang": 2,
}
CORPUS = Path(__file__).parents[2] / "shared" / "dryruns"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-line",
        action="store_true",
        help="compare every command line of tests/scenarios with plain nvcc, also after edits, not some",
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run every case of the files in KEPT_CASES, not one of some",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one case of some, for the sake of minutes; all of them when they are asked for."""
    if config.getoption("--every-case") or any("::" in word for word in config.args) or config.option.keyword:
        return
    left_out: set[pytest.Item] = set()
    for theme, kept in KEPT_CASES.items():
        cases = [item for item in items if item.path.name.startswith(theme)]
        left_out.update(item for index, item in enumerate(cases) if index % kept)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def nvcc() -> str:
    """A real nvcc of CUDA 13, this machine's or the wheels' of the `toolkit` extra."""
    found = os.environ.get("NVCCACHE_TEST_NVCC") or find_nvcc(os.environ, release="13")
    assert found, "the tests need a real nvcc 13: pip install -e '.[test,toolkit]'"
    return found


@pytest.fixture
def workspace(tmp_path: Path, nvcc: str) -> Workspace:
    """An empty workspace; its environment has strict mode on, so that a fault of ours surfaces."""
    return make_workspace(tmp_path, nvcc)


@pytest.fixture(scope="session")
def workers_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all workers of a test run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def wheel(workers_base: Path) -> Path:
    folder = installations.shared(workers_base, "wheel", installations.build_wheel)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def launcher(workers_base: Path, wheel: Path) -> Path:
    """The executable `nvccache`, installed by pip into a virtual environment."""

    def make(folder: Path) -> None:
        installations.make_environment(folder)
        installations.install(wheel, folder)

    return installations.shared(workers_base, "environment", make) / "bin" / "nvccache"


@pytest.fixture(autouse=True)
def users_cache_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may touch the cache of whoever runs it: whatever asks for the default finds a file there."""
    blocker = tmp_path / "no-home"
    blocker.write_text("not a directory")
    for name in [name for name in os.environ if name.startswith(HIDDEN_PREFIXES)]:
        if not name.startswith("NVCCACHE_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(blocker))


@pytest.fixture
def reference_directory() -> Iterator[Path]:
    """The directory for `nvcc -keep`; objects with debug information name it. One test at a time."""
    import filelock

    with filelock.FileLock("/tmp/nvccache-tests.lock"):
        REFERENCE_KEEP_DIRECTORY.mkdir(exist_ok=True)
        yield REFERENCE_KEEP_DIRECTORY
        shutil.rmtree(REFERENCE_KEEP_DIRECTORY)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The recorded dry runs of six toolkits, which are kept beside the repository."""
    if not CORPUS.is_dir():
        pytest.skip("the dry-run corpus ../shared/dryruns is not here")
    return CORPUS
