"""The input record of a call: what each of its stages read, together."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nvccache import environment
from nvccache.environment import WHOLE
from nvccache.files import presence, signatures
from nvccache.observation import observer_log
from nvccache.observation.observer_log import Observation
from nvccache.observation.stage_inputs import ObservedInputs
from nvccache.records.input_records import PROGRAM, SOURCE, InputRecord, UnreadableError
from observed_stages import ENVIRON, FILE, asked, changes_since, inputs, kinds, place, ran, subject

__all__ = ["place"]  # the fixtures


def two_stages(place: Path) -> tuple[ObservedInputs, list[InputRecord]]:
    call = inputs(place)
    one = ran(files=["a.h"], absent={"never.h"}, variables={"CPATH"}, links={"linked"})
    other = ran(
        "as", files=["b.h"], absent={"other.h"}, variables={"SECRET"}, listed={"bin"}, found={"a.h": FILE}
    )
    (place / "linked").symlink_to("a.h")
    return call, [call.input_record(Observation([process], set()), subject()) for process in (one, other)]


def test_inputs_of_a_call_are_the_union_of_its_stages_inputs(place):
    call, parts = two_stages(place)
    parts[1].dates = [("a.h", presence.status_of("a.h"))]
    made = call.union(parts, ENVIRON, ["copy.h"])
    assert kinds(made) == {
        "a.h": SOURCE, "b.h": SOURCE, "copy.h": SOURCE,
        "bin/as": PROGRAM, "bin/cc1plus": PROGRAM, "bin/g++": PROGRAM,
    }  # fmt: skip
    assert dict(zip(made.directories, made.names, strict=True))["."] == ["+linked", "-never.h", "-other.h"]
    assert asked(made) == {"CPATH", "SECRET"}
    assert {path for path, _ in made.links} == {"linked"}
    assert {"bin"} == {directory for directory, _ in made.listings}
    assert made.dates == [*parts[1].dates, ("a.h", "~a.h"), ("copy.h", "~a.h")]
    assert (made.sought, made.search_path) == (["g++"], "bin")
    assert changes_since(made) == []


def test_the_record_of_a_call_has_the_callers_variables_not_those_nvcc_adds(place):
    """nvcc sets some more for its tools, from its profile."""
    call, parts = two_stages(place)
    given = {"CPATH": "other", "PATH": "/usr/bin"}
    made = call.union(parts, given)
    assert dict(made.variables)["CPATH"] == environment.digest_of("CPATH", given)
    assert not environment.is_set(dict(made.variables)["SECRET"])
    assert made.search_path == "/usr/bin"


def test_a_call_that_depends_on_the_whole_environment_lists_no_single_variables(place):
    call, parts = two_stages(place)
    parts.append(call.input_record(Observation([ran("wrapper")], set()), subject()))
    assert call.union(parts, ENVIRON).variables == [(WHOLE, environment.digest_of(WHOLE, ENVIRON))]


def test_inputs_of_a_stage_hit_are_recorded_with_the_digests_of_its_record(place):
    """Its record held a moment ago; changes since the call began would be noticed."""
    made = InputRecord()
    made.files, made.kinds, made.digests, made.signatures = ["a.h"], SOURCE, ["7" * 64], [signatures.UNKNOWN]
    found = inputs(place).union([made], ENVIRON)
    assert (found.digests, found.signatures) == (["7" * 64], [signatures.signature_of("a.h")])
    with pytest.raises(UnreadableError, match="changed during"):
        inputs(place, signatures.signature_of("a.h")[4]).union([made], ENVIRON)


def test_a_lookup_by_one_stage_is_left_out_if_another_stage_read_the_file(place):
    call = inputs(place)
    reads = call.input_record(Observation([ran(files=["a.h"])], set()), subject())
    looks = ran(found={"a.h": stat.S_IFREG | 0o644, "b.h": stat.S_IFREG | 0o644}, links={"a.h", "b.h"})
    looks = call.input_record(Observation([looks], set()), subject())
    assert {"+a.h", "+b.h"} <= {*dict(zip(looks.directories, looks.names, strict=True))["."]}
    made = call.union([reads, looks], ENVIRON)
    names = {*dict(zip(made.directories, made.names, strict=True))["."]}
    assert "+b.h" in names and "+a.h" not in names
    assert "b.h" in made.plain and "a.h" not in made.plain
    (place / "inc").mkdir()
    (place / "inc/c.h").touch()
    alone = ran(found={"inc/c.h": stat.S_IFREG | 0o644})
    alone = call.input_record(Observation([alone], set()), subject())
    assert "inc" in alone.directories
    assert "inc" not in call.union([alone], ENVIRON, more=["inc/c.h"]).directories
    os.rename("a.h", "moved.h")
    os.symlink("moved.h", "a.h")
    assert ("moved", "a.h") in changes_since(made)


def test_names_of_one_header_are_one_input_while_no_directory_before_dots_is_a_link(place):
    for name in ("a", "b"):
        (place / name).mkdir()
    (place / "linked").symlink_to("b")
    call = inputs(place)
    read = ran(files=["a/../a.h", "b/.././a.h", "linked/../a.h", "a/../b.h"])
    made = call.union([call.input_record(Observation([read], set()), subject())], ENVIRON)
    assert [path for path in made.files if ".." in path] == ["a/../b.h", "b/.././a.h", "linked/../a.h"]
    assert [path for path, _ in made.dates] == ["b/.././a.h", "linked/../a.h"]
    assert changes_since(made) == []
    for name in ("a", "b"):
        os.rename(name, "moved")
        assert ("gone", f"{name}/..") in changes_since(made)
        os.symlink("moved", name)
        assert changes_since(made) == [("moved", name)]
        os.unlink(name)
        os.rename("moved", name)


def test_runs_of_one_host_compiler_are_recorded_as_one(place):
    """The passes of a TU have one record, with what any of them read."""
    runs = [ran(files=["a.h"], absent={"x.h"}), ran("as"), ran("cc1plus", "-march=native", files=["b.h"])]
    together = observer_log.merged(
        [Observation([run], {name}) for run, name in zip(runs, "abc", strict=True)]
    )
    assert [os.path.basename(process.program) for process in together.processes] == ["cc1plus", "as"]
    assert (together.written, together.incomplete) == ({"a", "b", "c"}, "")
    made = inputs(place).input_record(together, subject())
    assert {"a.h", "b.h"} <= kinds(made).keys()
    assert dict(zip(made.directories, made.names, strict=True))["."] == ["-x.h"]
    assert "native" in {topic for topic, _, _ in made.machine}
    assert runs[0].absent == {"x.h"} and "b.h" not in runs[0].files, "they are not changed"
    scripts = [Observation([ran("sh", "sh", name)], set()) for name in ("a.sh", "b.sh")]
    assert len(observer_log.merged(scripts).processes) == 2, "a shell depends on the text that it runs"


@pytest.mark.parametrize("first", ["cc1plus", "as"])
def test_runs_that_saw_two_versions_of_a_file_have_no_record(place, first):
    before = ran(first, files=["a.h"])
    (place / "a.h").write_text("int changed;")
    together = observer_log.merged([Observation([run], set()) for run in (before, ran(files=["a.h"]))])
    assert together.incomplete == "files changed during the compile"


def test_together_runs_are_observed_no_better_than_each(place):
    observations = [Observation([ran()], set()), Observation([ran()], set(), "it is static")]
    assert observer_log.merged(observations).incomplete == "it is static"
