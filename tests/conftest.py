"""Fixtures shared by all tests: a real nvcc, a workspace, and nvccache run in it as a user runs it."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import installations
import marks
from nvccache.toolkit.discovery import find_nvcc
from scenarios.support.toolkits import light_toolkit_on_path, remember_digests
from workspaces import HIDDEN_PREFIXES, REFERENCE_KEEP_DIRECTORY, Workspace, make_workspace

# So that a failure shows what differed.
pytest.register_assert_rewrite("scenarios.support.both_ways", "scenarios.same_result.sameness")
os.umask(0o022)  # with 002, what tests make could be changed by the user's group, and is not trusted
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background and its children ignore it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run also what is marked `full`, edit every command line, and make as many rounds as there are",
    )


def pytest_configure(config: pytest.Config) -> None:
    for description in marks.DESCRIPTIONS:
        config.addinivalue_line("markers", description)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """What a value of a table says of its row: `not kept`, `no home`, `limit 3`, `mode 755`, a command."""
    name = argname.replace("_", " ")
    if val is None or val == "":
        return f"{'no' if val is None else 'empty'} {name}"
    if isinstance(val, bool):
        return name if val else f"not {name}"
    if isinstance(val, int | float):
        return f"{name} {val:o}" if {"mode", "umask"} & {*name.split()} else f"{name} {val}"
    if isinstance(val, Exception):
        return repr(val)
    if isinstance(val, set | frozenset):
        val = sorted(val, key=str)
    if not isinstance(val, list | tuple | dict) or not _is_plain(val):
        return None  # as pytest does
    is_command = val and all(isinstance(word, str) for word in val) and not isinstance(val, dict)
    text = " ".join(val) if is_command else f"{name} {val}"
    return text[:80].encode("unicode_escape").decode("ascii")


def _is_plain(val: object) -> bool:
    """Whether its text is the same in all workers."""
    if isinstance(val, list | tuple | dict):
        return all(map(_is_plain, val.items() if isinstance(val, dict) else val))
    return isinstance(val, str | bytes | int | None)


def pytest_itemcollected(item: pytest.Item) -> None:
    marks.mark_case(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the marks, and leave out what is marked `full`, where nothing else is asked for."""
    names_cases = any("[" in word for word in config.args)
    if faults := [] if names_cases else marks.faults(items):
        raise pytest.UsageError("; ".join(faults))
    if marks.asks_for_more(config):
        return
    config.hook.pytest_deselected(items=[item for item in items if marks.is_full(item)])
    items[:] = [item for item in items if not marks.is_full(item)]


@pytest.fixture(scope="session")
def real_nvcc() -> str:
    """A real nvcc of CUDA 13, this machine's or the wheels' of the `toolkit` extra."""
    found = os.environ.get("NVCCACHE_TEST_NVCC") or find_nvcc(os.environ, release="13")
    assert found, "the tests need a real nvcc 13: pip install -e '.[test,toolkit]'"
    return found


@pytest.fixture(scope="session")
def light_nvcc(real_nvcc: str, workers_base: Path, request: pytest.FixtureRequest) -> str:
    """An nvcc with few headers, shared by all workers, and a cache with the digests of its tools."""

    def make(folder: Path) -> None:
        folder.mkdir()
        workspace = make_workspace(folder, real_nvcc)
        toolkit = light_toolkit_on_path(workspace, folder / "toolkit")
        if not request.config.getoption("--every-case"):
            remember_digests(workspace, toolkit)
        (folder / "nvcc").write_text(workspace.nvcc)

    return (installations.shared(workers_base, "light", make) / "nvcc").read_text()


@pytest.fixture(scope="module")
def nvcc(real_nvcc: str, request: pytest.FixtureRequest) -> str:
    """The nvcc of a test's workspace, with few headers but for some modules in a full run."""
    is_by_default = request.node.get_closest_marker("light_by_default")
    if is_by_default and request.config.getoption("--every-case"):
        return real_nvcc
    return request.getfixturevalue("light_nvcc")


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
    folder = installations.shared(workers_base, "wheel", installations.build)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def launcher(workers_base: Path, wheel: Path) -> Path:
    """The executable `nvccache`, installed by pip into a virtual environment."""

    def make(folder: Path) -> None:
        installations.make_environment(folder)
        installations.install(wheel, folder)

    return installations.shared(workers_base, "environment", make) / "bin" / "nvccache"


@pytest.fixture(scope="session")
def uncompiled(workers_base: Path) -> Path:
    """As it is where there was no C compiler."""

    def make(folder: Path) -> None:
        (temporary := folder.with_name("temporary-files")).mkdir()
        variables = {"CC": "/nowhere/cc", "TMPDIR": str(temporary)}
        built = installations.build(folder.with_name("wheel-without-compiler"), **variables)
        assert "-py3-none-linux_" in built.name
        assert not list(temporary.iterdir()), "building leaves no files there"
        installations.make_environment(folder)
        installations.install(built, folder)

    return installations.shared(workers_base, "environment-without-compiler", make) / "bin" / "nvccache"


@pytest.fixture(autouse=True)
def users_cache_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may touch the user's own cache: a file blocks the default directory."""
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
