"""Which program a command starts, and when two of them are the same."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from nvccache import keys, toolchain
from nvccache.store import Store

LONG_AGO = time.time() - 1000


@pytest.fixture
def cache(tmp_path) -> Store:
    return Store(str(tmp_path / "cache"))


def _script(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def settled(monkeypatch):
    """Let time pass, so that what was written just now is no longer too new."""
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() + 10 * 10**9)


def test_the_first_program_on_the_path_is_started(tmp_path):
    first, second = _script(tmp_path / "a" / "tool", ""), _script(tmp_path / "b" / "tool", "")
    assert toolchain.resolve("tool", f"{tmp_path}/a:{tmp_path}/b") == first
    assert toolchain.resolve("tool", f"{tmp_path}/b:{tmp_path}/a") == second
    assert toolchain.resolve("tool", f"{tmp_path}/missing:{tmp_path}/b") == second


def test_what_cannot_be_executed_is_passed_over(tmp_path):
    (tmp_path / "a" / "tool").mkdir(parents=True)
    plain = Path(_script(tmp_path / "b" / "tool", ""))
    plain.chmod(0o644)
    wanted = _script(tmp_path / "c" / "tool", "")
    assert toolchain.resolve("tool", f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c") == wanted


def test_an_empty_part_of_the_path_is_the_working_directory(tmp_path, monkeypatch):
    _script(tmp_path / "tool", "")
    monkeypatch.chdir(tmp_path)
    assert toolchain.resolve("tool", ":/nonexistent") == "./tool"


def test_a_word_with_a_slash_is_not_looked_for(tmp_path, monkeypatch):
    path = _script(tmp_path / "bin" / "tool", "")
    monkeypatch.chdir(tmp_path)
    assert toolchain.resolve(path, "") == path
    assert toolchain.resolve("bin/tool", "/usr/bin") == "bin/tool"
    assert toolchain.resolve("bin/other", f"{tmp_path}/bin") == ""


def test_a_program_that_is_nowhere_raises(cache):
    with pytest.raises(FileNotFoundError):
        toolchain.identify("no-such-tool", {"PATH": "/usr/bin"}, cache)


def test_the_first_missing_program_is_named(tmp_path):
    _script(tmp_path / "there", "")
    environ = {"PATH": str(tmp_path)}
    assert toolchain.missing_program(["there"], environ) == ""
    assert toolchain.missing_program(["there", "gone", "lost"], environ) == "gone"


def test_a_program_is_its_content_wherever_it_lies(tmp_path, cache):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 1")
    assert toolchain.identify(first, {}, cache) == toolchain.identify(second, {}, cache)
    assert toolchain.identify(first, {}, cache) == keys.digest_file(first)


def test_a_link_is_what_it_points_to(tmp_path, cache, settled):
    first, second = _script(tmp_path / "a", "echo 1"), _script(tmp_path / "b", "echo 2")
    link = tmp_path / "link"
    link.symlink_to(first)
    before = toolchain.identify(str(link), {}, cache)
    link.unlink()
    link.symlink_to(second)
    assert before == keys.digest_file(first)
    assert toolchain.identify(str(link), {}, cache) == keys.digest_file(second)


def test_a_digest_is_remembered_and_not_made_again(tmp_path, cache, settled, monkeypatch):
    path = _script(tmp_path / "tool", "")
    before = toolchain.identify(path, {}, cache)
    monkeypatch.setattr(keys, "digest_file", None)
    assert toolchain.identify(path, {}, cache) == before


def test_a_digest_of_what_has_just_changed_is_not_remembered(tmp_path, cache):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    before = toolchain.identify(str(path), {}, cache)
    status = path.stat()
    path.write_text("#!/bin/sh\necho 2\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert toolchain.identify(str(path), {}, cache) != before
    assert not list((tmp_path / "cache").rglob("tool-v1/*/*"))


def test_other_content_of_the_same_size_and_date_is_noticed(tmp_path, cache, settled):
    path = Path(_script(tmp_path / "tool", "echo 1"))
    os.utime(path, (LONG_AGO, LONG_AGO))
    before = toolchain.identify(str(path), {}, cache)
    path.write_text("#!/bin/sh\necho 2\n")
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert toolchain.identify(str(path), {}, cache) != before


def test_a_program_replaced_by_one_of_the_same_size_and_date_is_noticed(tmp_path, cache, settled):
    path, other = Path(_script(tmp_path / "tool", "echo 1")), Path(_script(tmp_path / "other", "echo 2"))
    for file in (path, other):
        os.utime(file, (LONG_AGO, LONG_AGO))
    before = toolchain.identify(str(path), {}, cache)
    other.rename(path)
    assert toolchain.identify(str(path), {}, cache) != before


def test_the_same_content_under_a_new_date_is_the_same_program(tmp_path, cache, settled):
    path = _script(tmp_path / "tool", "echo 1")
    before = toolchain.identify(path, {}, cache)
    os.utime(path, (LONG_AGO, LONG_AGO))
    assert toolchain.identify(path, {}, cache) == before


COMPILER = """\
case $1 in
--version) echo "my compiler ${VERSION:-1}";;
-print-prog-name=cc1plus) echo "${CC1PLUS:-cc1plus}";;
-print-prog-name=*) echo "${1#*=}";;
esac"""


def _identity(word: str, environ: dict[str, str], cache: Store) -> str:
    return toolchain.host_compiler(word, environ, cache).identity


@pytest.fixture
def compiler(tmp_path) -> dict[str, str]:
    """The environment of a host compiler `my-cc` that is a script, with its parts beside it."""
    _script(tmp_path / "bin" / "my-cc", COMPILER)
    for name in ("cc1plus", "as", "other-cc1plus"):
        _script(tmp_path / "bin" / name, f"echo {name}")
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}


def test_a_host_compiler_is_what_it_starts(tmp_path, compiler, cache):
    before = _identity("my-cc", compiler, cache)
    assert _identity("my-cc", compiler, cache) == before
    _script(tmp_path / "bin" / "cc1plus", "echo changed")
    changed = _identity("my-cc", compiler, cache)
    _script(tmp_path / "bin" / "as", "echo changed")
    assert len({before, changed, _identity("my-cc", compiler, cache)}) == 3


@pytest.mark.parametrize("variables", [{"VERSION": "2"}, {"CC1PLUS": "other-cc1plus"}])
def test_what_a_script_in_front_of_a_compiler_says_is_not_remembered(compiler, cache, settled, variables):
    before = _identity("my-cc", compiler, cache)
    assert _identity("my-cc", {**compiler, **variables}, cache) != before


def test_a_script_in_front_of_a_compiler_is_part_of_it(tmp_path, compiler, cache):
    before = _identity("my-cc", compiler, cache)
    _script(tmp_path / "bin" / "my-cc", f"# changed\n{COMPILER}")
    assert _identity("my-cc", compiler, cache) != before


@pytest.fixture
def gcc() -> str:
    found = shutil.which("g++")
    assert found, "the tests need g++"
    return found


def test_the_answers_of_a_real_compiler_are_remembered(gcc, cache, settled, monkeypatch):
    environ = dict(os.environ)
    before = _identity(gcc, environ, cache)
    monkeypatch.setattr(toolchain.process, "run", None)
    assert _identity(gcc, environ, cache) == before


def test_a_real_compiler_is_the_same_by_its_name_and_by_its_path(gcc, cache):
    environ = dict(os.environ)
    by_name = _identity("g++", environ, cache)
    assert _identity(gcc, environ, cache) == by_name


def test_a_compiler_that_finds_other_parts_is_another_one(gcc, tmp_path, cache):
    environ = dict(os.environ)
    before = _identity(gcc, environ, cache)
    _script(tmp_path / "parts" / "as", "exec /usr/bin/as")
    elsewhere = {**environ, "COMPILER_PATH": str(tmp_path / "parts")}
    assert _identity(gcc, elsewhere, cache) != before


@pytest.mark.parametrize("variable", ["COMPILER_PATH", "PATH"])
def test_answers_that_hang_on_the_working_directory_are_remembered_for_it(
    gcc, tmp_path, cache, settled, monkeypatch, variable
):
    """With a relative entry the same words find other parts from another directory."""
    environ = {**os.environ, variable: f"parts:{os.environ.get(variable, '')}"}
    _script(tmp_path / "one" / "parts" / "as", "exec /usr/bin/as")
    (tmp_path / "two").mkdir()
    found = {}
    for name in ("one", "two", "one"):
        monkeypatch.chdir(tmp_path / name)
        found[name] = toolchain.host_compiler(gcc, environ, cache).programs
        assert found[name] == toolchain.host_compiler(gcc, environ, Store(str(tmp_path / "other"))).programs
        shutil.rmtree(tmp_path / "other")
    assert any("parts" in path for path in found["one"])
    assert not any("parts" in path for path in found["two"])


@pytest.mark.parametrize(
    ("word", "depends"),
    [("-march=native", True), ("-mtune=native", True), ("-mcpu=native", True), ("-march=x86-64-v3", False)],
)
def test_native_code_depends_on_the_processor(word, depends):
    from nvccache.stages import host

    assert host.depends_on_processor(["g++", word, "-c"]) is depends


def test_a_host_compiler_is_told_with_the_programs_it_starts(gcc, compiler, tmp_path, cache):
    script = toolchain.host_compiler("my-cc", compiler, cache)
    assert script.driver == str(tmp_path / "bin" / "my-cc")
    assert {str(tmp_path / "bin" / name) for name in ("cc1plus", "as")} <= set(script.programs)
    assert not script.is_itself
    real = toolchain.host_compiler(gcc, dict(os.environ), cache)
    assert real.driver == gcc
    assert {os.path.basename(path) for path in real.programs} >= {"cc1plus", "as"}
    assert real.is_itself


def test_what_only_bears_a_compilers_name_is_not_one_itself(tmp_path, cache):
    """As a link named g++ to ccache."""
    shutil.copyfile("/bin/true", tmp_path / "ccache")
    (tmp_path / "ccache").chmod(0o755)
    (tmp_path / "g++").symlink_to("ccache")
    assert not toolchain.host_compiler(str(tmp_path / "g++"), dict(os.environ), cache).is_itself


def test_scripts_that_only_hand_over_are_followed(tmp_path):
    program = shutil.which("true")
    last = _script(tmp_path / "last", f'exec {program} "$@"')
    first = _script(tmp_path / "first", f'# a comment\n\nexec "{last}" "$@"')
    assert toolchain.chain_of_scripts(first) == [last, program]
    assert toolchain.chain_of_scripts(program) == []
    assert toolchain.is_dependable(first) and toolchain.is_dependable(program)


@pytest.mark.parametrize(
    "body",
    [
        "exec /bin/true",
        'exec /bin/true "$@" -O2',
        'exec true "$@"',
        'exec "$HOME"/nvcc "$@"',
        'export CPATH=x\nexec /bin/true "$@"',
        '/bin/true "$@"',
        'exec /bin/$(cat x) "$@"',
        '[ -e x ] && exec /bin/true "$@"',
    ],
)
def test_a_script_that_does_anything_else_is_not_dependable(tmp_path, body):
    path = _script(tmp_path / "nvcc", body)
    assert toolchain.chain_of_scripts(path) == []
    assert not toolchain.is_dependable(path)


def test_a_script_that_hands_over_to_itself_is_not_dependable(tmp_path):
    path = _script(tmp_path / "nvcc", f'exec {tmp_path}/nvcc "$@"')
    assert not toolchain.is_dependable(path)


def test_only_regular_files_are_regular_files(tmp_path):
    (tmp_path / "file").write_text("x")
    assert toolchain.is_regular_file(str(tmp_path / "file"))
    for path in (str(tmp_path), "/dev/null", str(tmp_path / "missing"), "", "a\0b"):
        assert not toolchain.is_regular_file(path)
