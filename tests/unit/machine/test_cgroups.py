"""Control groups: in which directories limits may stand."""

from __future__ import annotations

import pytest

from nvccache.machine import cgroups


@pytest.fixture
def found(tmp_path):
    """The directories below the mount, for a controller and the lines of /proc/self/cgroup."""

    def find(controller: str, text: str) -> list[str]:
        (tmp_path / "own").write_text(text)
        return list(cgroups.directories(controller, str(tmp_path / "own"), ""))

    return find


def test_the_own_group_and_all_above_it(found):
    assert found("cpu", "0::/a/b\n") == ["/a/b", "/a", "", "/unified/a/b", "/unified/a", "/unified"]
    assert found("cpu", "0::/\n") == ["", "/unified"]


def test_of_the_first_version_those_of_the_controller(found):
    text = "4:memory:/a\n3:cpu,cpuacct:/b\n2:cpuset:/c\n1:name=systemd:/d\n"
    assert found("memory", text) == ["/memory/a", "/memory"]
    assert found("cpu", text) == ["/cpu/b", "/cpu", "/cpu,cpuacct/b", "/cpu,cpuacct"]


def test_a_group_does_not_lead_out_of_the_mount(found):
    assert found("memory", "4:memory:/../..\n") == ["/memory"]


@pytest.mark.parametrize("text", ["", "garbage\n0\n4:cpu", "0\n\n"])
def test_what_is_no_such_file_names_no_group_of_its_own(found, text):
    assert set(found("memory", text)) <= {"", "/unified"}


def test_a_file_that_cannot_be_read_is_empty(tmp_path):
    assert cgroups.read(str(tmp_path / "none")) == cgroups.read(str(tmp_path)) == ""
    (tmp_path / "bytes").write_bytes(b"0::/\xff\n")
    assert cgroups.read(str(tmp_path / "bytes")) == "0::/\udcff\n"
