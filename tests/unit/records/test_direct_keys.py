"""Direct hits: what is in the key of a call, and what is not."""

from __future__ import annotations

import os
import shlex

import pytest

from nvccache import environment
from nvccache.commandline import invocation
from nvccache.commandline.invocation import Invocation
from nvccache.records import direct
from nvccache.records.base_dir import Relocation
from nvccache.records.direct import ANY_DIRECTORY, BELOW_BASE, SAME_DIRECTORY, SAME_OUTPUTS
from typed_calls import NOWHERE, parse

SCOPES = (BELOW_BASE, ANY_DIRECTORY, SAME_DIRECTORY, SAME_DIRECTORY + SAME_OUTPUTS)


def key(
    line: str, scope: str = SAME_DIRECTORY, nvcc: str = "nvcc", relocation: Relocation = NOWHERE, environ=None
) -> str:
    return direct.key_of(scope, nvcc, parse(line), relocation, environ or {})


@pytest.mark.parametrize(
    ("line", "other", "is_same"),
    [
        *[(f"-c a.cu {options}", "-c a.cu", False) for options in (
            "-DX", "b.cu", "-O2", "-I x", "-arch=sm_80", "-Xcompiler -O2", "-MD", "-MMD", "-o a.o",
            "-odir out", "-lineinfo", "-x cu",
        )],
        ("-dc a.cu", "-c a.cu", False),
        ("-ptx a.cu", "-c a.cu", False),
        ("-c a.cu -I x -I y", "-c a.cu -I y -I x", False),
        ("-c a.cu -DX -UX", "-c a.cu -UX -DX", False),
        ("-c a.cu -Xcompiler -O2", "-c a.cu -Xptxas -O2", False),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD", False),
        ("-c a.cu -I x", "-c a.cu -isystem x", False),
        # nvcc warns of the second value.
        ("-c a.cu -o a.o -o b.o", "-c a.cu -o b.o", False),
        ("-c a.cu -odir x -odir y", "-c a.cu -odir y", False),
        ("-c a.cu -MD -MF a.d -MF b.d", "-c a.cu -MD -MF b.d", False),
        ("-c a.cu -MD -MT x -MT y", "-c a.cu -MD -MT y", False),
        # Names of outputs, what says how nvcc runs, and spellings.
        ("-c a.cu -o a.o", "-c a.cu -o out/b.o", True),
        ("-c a.cu -o a.o", "-o b.o -c a.cu", True),
        ("-c a.cu -o a.o", "-c a.cu -o a.o -o a.o", True),
        ("-c a.cu -odir out", "-c a.cu -odir other", True),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD -MF b.d", True),
        ("-c a.cu -MD -MT x", "-c a.cu -MD -MT y", True),
        ("-c a.cu -MD -MT x", "-c a.cu -MD", True),
        ("-c a.cu -MD -MP", "-c a.cu -MD", True),
        ("-c a.cu -t 4", "-c a.cu", True),
        ("-c a.cu -t4", "-c a.cu -t 2", True),
        ("-c a.cu -I x", "-c a.cu -Ix", True),
        ("-c a.cu -I x", "-c a.cu --include-path=x", True),
    ],
)  # fmt: skip
def test_what_decides_is_in_the_key_and_names_of_outputs_are_not(line, other, is_same):
    for scope in (BELOW_BASE, SAME_DIRECTORY):
        assert (key(line, scope) == key(other, scope)) == is_same


@pytest.mark.parametrize(
    "lines",
    [
        ("-c a.cu -o a.o", "-c a.cu -o b.o", "-c a.cu"),
        ("-c a.cu -odir out", "-c a.cu -odir other", "-c a.cu -o out"),
        ("-c a.cu -MD -MF a.d", "-c a.cu -MD -MF b.d"),
    ],
)
def test_a_bound_key_is_for_these_outputs_alone(lines):
    assert len({key(line, SAME_DIRECTORY + SAME_OUTPUTS) for line in lines}) == len(lines)


def test_scopes_and_compilers_have_their_own_keys():
    assert len({key("-c a.cu", scope) for scope in SCOPES}) == len(SCOPES)
    assert key("-c a.cu", nvcc="/opt/nvcc") != key("-c a.cu", nvcc="/usr/nvcc")


@pytest.mark.parametrize("scope", SCOPES)
def test_variables_are_not_in_the_key(scope):
    """An input record says which of them were read; the values of some are arguments."""
    environ = dict.fromkeys(
        [*environment.OF_LIBC, *environment.OF_SIDE_OUTPUTS, "PATH", "CPATH", "HOME"], "/x"
    )
    assert key("-c a.cu", scope, environ=environ) == key("-c a.cu", scope)


@pytest.mark.parametrize("scope", SCOPES)
def test_words_of_variables_are_arguments(scope):
    call = invocation.parse(["-c", "a.cu"], {"NVCC_PREPEND_FLAGS": "-DX"})
    assert direct.key_of(scope, "nvcc", call, NOWHERE, {}) == key("-DX -c a.cu", scope)


def test_only_a_shared_key_is_the_same_in_another_directory(tmp_path, monkeypatch):
    found = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        relocation = Relocation(str(tmp_path), os.getcwd())
        line = f"-c {tmp_path}/{name}/a.cu -I{tmp_path}/{name}/include"
        found[name] = [
            key(line, BELOW_BASE, relocation=relocation),
            *(
                key("-c a.cu", scope)
                for scope in (SAME_DIRECTORY, ANY_DIRECTORY, ANY_DIRECTORY + SAME_OUTPUTS)
            ),
        ]
    assert [one == two for one, two in zip(found["one"], found["two"], strict=True)] == [
        True,
        False,
        True,
        True,
    ]


def test_places_of_outputs_are_relative_to_the_directory():
    made = [key(f"-c /p/a.cu -o {name}", ANY_DIRECTORY + SAME_OUTPUTS) for name in ("a.o", "b.o", "/p/a.o")]
    assert len(set(made)) == 3


def test_the_name_of_the_working_directory_is_in_the_keys_that_are_not_shared():
    for scope in SCOPES:
        is_same = not scope.startswith(SAME_DIRECTORY)
        here = [key("-c a.cu", scope, environ={"PWD": path}) for path in ("/a", "/b")]
        assert (here[0] == here[1]) == is_same


def test_a_shared_key_is_tried_first_and_only_below_a_base_directory():
    relocation = Relocation("/base", "/base/one")
    below, others = (
        [BELOW_BASE, BELOW_BASE + SAME_OUTPUTS],
        [ANY_DIRECTORY, ANY_DIRECTORY + SAME_OUTPUTS, SAME_DIRECTORY, SAME_DIRECTORY + SAME_OUTPUTS],
    )
    assert direct.scopes(relocation) == [*below, *others]
    assert all(direct.relocation_of(scope, relocation) is relocation for scope in below)
    assert not any(direct.relocation_of(scope, relocation).checkout for scope in others)
    assert direct.scopes(NOWHERE) == others


@pytest.mark.parametrize(
    ("option", "is_shared"),
    [
        ("-Xcompiler -ffile-prefix-map={base}/{name}=.", True),
        ("-Xcompiler -ffile-prefix-map={base}=.", False),
        ("-Xcompiler -O2,-fmacro-prefix-map={base}/=/src/,-g", False),
        ('-Xcompiler "-g -fdebug-prefix-map=/=/src"', False),
        ("-Xcompiler -ffile-prefix-map={base}/o=.", False),
        ("-Xcompiler -ffile-prefix-map={base}/{name}=. -Xcompiler -fdebug-prefix-map={base}=/src", False),
        ("-Xcompiler -ffile-prefix-map={base}/{name}/build/deep=.", True),
        ("-Xcompiler -ffile-prefix-map=/elsewhere=.", True),
    ],
)
def test_checkouts_that_an_option_tells_apart_share_no_key(option, is_shared):
    """The target of a prefix map may contain the checkout's name, but not the base directory's."""
    made = []
    for name in ("one", "other"):
        argv = ["-c", "a.cu", *shlex.split(option.format(base="/base", name=name))]
        call = invocation.parse(argv, {})
        assert isinstance(call, Invocation)
        made.append(direct.key_of(BELOW_BASE, "nvcc", call, Relocation("/base", f"/base/{name}/build"), {}))
    assert (made[0] == made[1]) == is_shared


@pytest.mark.parametrize(
    ("words", "is_shared"),
    [
        ("{}/a.cu", True),
        ("-I {}/inc -isystem {}/sys -include {}/x.h -L{}/lib", True),
        ("-ccbin {}/bin/g++", True),
        ("""-DROOT='"{}"'""", True),
        ("""-DA -D'NAME(x)="{}/data"'""", True),
        ("-DROOT={}", False),
        ("""-D'ROOT=("{}")'""", False),
        ("""-D'ROOT="{}" b'""", False),
        ("""-D'ROOT="{}\\n"'""", False),
        ("""-D'ROOT="{}??/"'""", False),
        ("""-D'ROOT="{}",MORE="x"'""", False),
        ("-Xcompiler -isystem,{}/sys -Xcompiler=-ffile-prefix-map={}=.", True),
        ("-Xcompiler -include -Xcompiler {}/x.h", True),
        ("-Xcompiler -DROOT={}", False),
        ("""-Xcompiler '-DROOT="{}"'""", False),
        ("-Xcompiler '-DA=x\\,{}'", False),
        ("-Xcompiler -frandom-seed={}", False),
        ("-frandom-seed={}", False),
        ("-Xcudafe --user={}", False),
        ("-forward-unknown-to-host-compiler -fmacro-prefix-map={}=.", True),
        ("-forward-unknown-to-host-compiler -fmade-up={}", False),
    ],
)
def test_paths_are_shared_where_they_only_say_what_is_read(words: str, is_shared: bool) -> None:
    """A preprocessor turns `/base/linux` into `/base/1`, unless it is in a string."""
    found = set()
    for here in ("/base/one", "/base/two"):
        call = invocation.parse(shlex.split(f"-c a.cu {words}".replace("{}", here)), {})
        assert isinstance(call, Invocation), call
        found.add(direct.key_of(BELOW_BASE, "nvcc", call, Relocation("/base", here), {}))
    assert (len(found) == 1) == is_shared
