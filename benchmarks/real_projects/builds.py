"""How each build system is configured with a launcher before nvcc, and started for some units.

Owns the command lines. Each builder has three methods: `configure` gives commands, and may write files into
the build directory; `compile` gives the command that builds units; `product` is where the object of a unit
is.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import catalogue
from .catalogue import Project
from .checkouts import Checkout

_SETUP = """\
import json, os, shlex, subprocess
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

options = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "options.json")))

class Build(build_ext):
    def build_extensions(self):
        compiler = self.compiler
        compiler.src_extensions.append(".cu")

        def compile_one(obj, src, ext, cc_args, extra, pp_opts):
            compiler.spawn([*options["nvcc"], *pp_opts, "-c", src, "-o", obj, *extra])

        compiler._compile = compile_one
        compiler.link_shared_object = lambda *ignored, **named: None
        super().build_extensions()

units = os.environ["UNITS"].split(os.pathsep)
setup(
    name="built",
    ext_modules=[Extension("built", units, include_dirs=options["include"],
                           extra_compile_args=options["flags"])],
    cmdclass={"build_ext": Build},
)
"""
_TORCH_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__"
    " -D__CUDA_NO_HALF2_OPERATORS__ --expt-relaxed-constexpr --compiler-options '-fPIC'"
).split()
_RULE = """\
rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags $
    -c $in -o $out $post
"""


@dataclass(frozen=True)
class Machine:
    """What all builds use: nvcc, directories of headers, an empty library, and optionally a host compiler.

    `launcher` is the command before nvcc, empty for plain nvcc.
    """

    nvcc: str
    headers: tuple[Path, ...]
    library: Path
    jobs: int = 1
    host_compiler: str = ""
    launcher: tuple[str, ...] = ()


@dataclass(frozen=True)
class Builder:
    """A project in one checkout, built by one machine."""

    project: Project
    checkout: Checkout
    machine: Machine

    def configure(self, architectures: Sequence[str]) -> list[list[str]]:
        raise NotImplementedError

    def compile(self, units: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def environ(self, units: Sequence[str]) -> dict[str, str]:
        """Additional variables for the command of `compile`."""
        return {}

    def product(self, unit: str) -> Path:
        return self.checkout.build / f"{self.project.objects}{unit.removeprefix(self.project.strip)}.o"

    @property
    def directory(self) -> Path:
        """The working directory of the command of `compile`."""
        return self.checkout.source

    def settings(self) -> list[str]:
        """The project's settings, with the machine's values inserted."""
        headers = str(self.machine.headers[0]) if self.machine.headers else ""
        toolkit = str(Path(self.machine.nvcc).parents[1])
        places = {"library": str(self.machine.library), "headers": headers, "toolkit": toolkit}
        places |= {"source": str(self.checkout.source)}
        return [setting.format(**places) for setting in self.project.settings]


class CMakeNinja(Builder):
    """CMake with Ninja; objects of single units are targets."""

    def configure(self, architectures: Sequence[str]) -> list[list[str]]:
        machine, checkout = self.machine, self.checkout
        argv = ["cmake", "-G", "Ninja", "-S", str(checkout.source), "-B", str(checkout.build)]
        argv += [f"-DCMAKE_CUDA_COMPILER={machine.nvcc}"]
        argv += [f"-DCMAKE_CUDA_ARCHITECTURES={';'.join(architectures)}"]
        argv += [f"-DCMAKE_CUDA_COMPILER_LAUNCHER={';'.join(machine.launcher)}"]
        argv += [f"-DCMAKE_CUDA_FLAGS={' '.join(f'-isystem {path}' for path in machine.headers)}"]
        if machine.host_compiler:
            argv += [f"-DCMAKE_CXX_COMPILER={machine.host_compiler}"]
            argv += [f"-DCMAKE_CUDA_HOST_COMPILER={machine.host_compiler}"]
        return [[*argv, *self.settings()]]

    def compile(self, units: Sequence[str]) -> list[str]:
        targets = [str(self.product(unit).relative_to(self.checkout.build)) for unit in units]
        return ["ninja", "-C", str(self.checkout.build), f"-j{self.machine.jobs}", *targets]


class Setuptools(Builder):
    """A setup.py that compiles with the options of torch's extensions, one source after the other."""

    def configure(self, architectures: Sequence[str]) -> list[list[str]]:
        self.checkout.build.mkdir(parents=True, exist_ok=True)
        options = {
            "nvcc": [*self.machine.launcher, self.machine.nvcc],
            "include": [str(path) for path in self._include()],
            "flags": [shlex.split(word)[0] for word in self.flags(architectures)],
        }
        (self.checkout.build / "options.json").write_text(json.dumps(options, indent=1))
        (self.checkout.build / "setup.py").write_text(_SETUP)
        return []

    def compile(self, units: Sequence[str]) -> list[str]:
        build = str(self.checkout.build)
        options = ["--build-temp", f"{build}/temporary", "--build-lib", f"{build}/library"]
        return [sys.executable, f"{build}/setup.py", "--quiet", "build_ext", *options]

    def environ(self, units: Sequence[str]) -> dict[str, str]:
        return {"UNITS": os.pathsep.join(units)}

    def product(self, unit: str) -> Path:
        return (self.checkout.build / "temporary" / unit).with_suffix(".o")

    def flags(self, architectures: Sequence[str]) -> list[str]:
        """Options as torch passes them to nvcc, quoted for a shell."""
        own = [word for word in self.settings() if not word.startswith("-I")]
        codes = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in architectures]
        name = ["-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=built", "-std=c++20"]
        compiler = ["-ccbin", self.machine.host_compiler] if self.machine.host_compiler else []
        return [*_TORCH_FLAGS, *own, *name, *codes, *compiler]

    def _include(self) -> list[str]:
        own = [word.removeprefix("-I") for word in self.settings() if word.startswith("-I")]
        return [*own, *map(str, self.machine.headers), sysconfig.get_path("include")]


class TorchNinja(Setuptools):
    """A build.ninja as torch writes it for an extension, with absolute paths."""

    def configure(self, architectures: Sequence[str]) -> list[list[str]]:
        self.checkout.build.mkdir(parents=True, exist_ok=True)
        include = " ".join(f"-I{path}" for path in self._include())
        lines = ["ninja_required_version = 1.3"]
        lines += [f"nvcc = {shlex.join([*self.machine.launcher, self.machine.nvcc])}"]
        lines += [f"cuda_cflags = {include}", f"post = {' '.join(self.flags(architectures))}", "", _RULE]
        for unit in self.project.units:
            target = self.product(unit).relative_to(self.checkout.build)
            lines.append(f"build {target}: cuda_compile {self.checkout.source / unit}")
        (self.checkout.build / "build.ninja").write_text("\n".join(lines) + "\n")
        return []

    def compile(self, units: Sequence[str]) -> list[str]:
        targets = [str(self.product(unit).relative_to(self.checkout.build)) for unit in units]
        return ["ninja", "-C", str(self.checkout.build), f"-j{self.machine.jobs}", *targets]


BUILDERS: dict[str, type[Builder]] = {
    catalogue.NINJA: CMakeNinja,
    catalogue.SETUPTOOLS: Setuptools,
    catalogue.TORCH_NINJA: TorchNinja,
}
