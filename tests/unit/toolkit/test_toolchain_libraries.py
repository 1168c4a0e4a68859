"""Where the loader finds libraries first, and which it would load."""

from __future__ import annotations

import os
import sys

from nvccache.toolkit import toolchain

PROGRAM = os.path.realpath(sys.executable)


def test_libraries_are_searched_in_ld_library_path_before_the_toolkit(tmp_path):
    program = f"{tmp_path}/toolkit/nvvm/bin/cicc"
    above = [f"{tmp_path}/toolkit/nvvm/lib", f"{tmp_path}/toolkit/lib"]
    assert toolchain.first_directories(program, {}) == above
    assert toolchain.first_directories(program, {"LD_LIBRARY_PATH": "/a:;b:/a"}) == ["/a", ".", "b", *above]


def test_library_directories_are_in_keys_only_if_they_hold_the_tools_libraries(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = f"{tmp_path}/toolkit/bin/ptxas"
    environ = {"LD_LIBRARY_PATH": f"/a/$LIB:{tmp_path}/empty:"}
    (tmp_path / "toolkit/lib").mkdir(parents=True)
    (tmp_path / "toolkit/lib/libcudart.so.13").touch()
    assert toolchain.own_directories(program, environ) == ["/a/$LIB"]
    for name in ("toolkit/lib/libgcc_s.so.1", "libm.so.6"):
        (tmp_path / name).touch()
    assert toolchain.own_directories(program, environ) == [
        "/a/$LIB",
        f"{tmp_path}",
        f"{tmp_path}/toolkit/lib",
    ]


def test_libraries_of_a_program_are_those_the_dynamic_loader_lists(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    libraries = toolchain.libraries_of(PROGRAM, environ)
    assert libraries and all(map(os.path.isfile, libraries))
    assert os.path.basename(libraries[-1]).startswith("ld-linux")
    assert any(os.path.basename(path).startswith("libc.so") for path in libraries)
    assert toolchain.libraries_of(PROGRAM, {**environ, "LD_AUDIT": "x"}) == []
    (tmp_path / "script").write_text("#!/bin/true\n")
    (tmp_path / "script").chmod(0o755)
    assert toolchain.libraries_of(str(tmp_path / "script"), {"PATH": ""}) != libraries
