"""A small project and the build systems that build it: files, commands, and how each is set up for nvccache.

Unaware of what a build must produce. In commands and files `{nvcc}`, `{python}`, `{shim}`, `{work}`,
`{make}` and `{runtime}` stand for the real nvcc, the interpreter that runs nvccache, the directory that
`nvccache install` wrote to, that of the project, and CMake's words for what runs the build and is linked.
"""

from __future__ import annotations

import dataclasses

HEADER = "include/scale.h"
EDITED = "#define SCALE 3\n"
_KERNEL = """\
#include "shapes.h"
#include "scale.h"
__global__ void @NAME@_kernel(int *x) {@UNUSED@ *x *= SCALE; }
int @NAME@(int x) {
  @NAME@_kernel<<<1, 1>>>(nullptr);
  return x;
}
"""
_MAIN = """\
#include "shapes.h"
#ifdef GENERATED
#include <step.h>
#else
#define STEP 1
#endif
__global__ void kernel(int *x) { *x += STEP; }
int main(int count, char **) {
  if (count > 9) kernel<<<1, 1>>>(nullptr);
  return circle(0) + square(0);
}
"""


def _shape(name: str, unused: str = "") -> str:
    return _KERNEL.replace("@NAME@", name).replace("@UNUSED@", unused)


# Two with one base name, as in many projects; one with a warning; one that does not read the header.
SOURCES = {
    HEADER: "#define SCALE 2\n",
    "include/shapes.h": "#pragma once\nint circle(int);\nint square(int);\n",
    "round/shape.cu": _shape("circle", " int unused;"),
    "edged/shape.cu": _shape("square"),
    "main.cu": _MAIN,
}
READERS = ("round", "edged")  # directories of the sources that read the header
TOUCHED = "round/shape.cu"

_CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(small LANGUAGES CUDA)
set(CMAKE_CUDA_STANDARD 17)
add_library(shapes STATIC round/shape.cu edged/shape.cu)
target_include_directories(shapes PUBLIC include)
add_executable(program main.cu)
target_link_libraries(program shapes)
# A header that is always a moment older than the compile that reads it.
add_custom_command(OUTPUT generated/step.h DEPENDS step.h.in
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/step.h.in generated/step.h)
target_sources(program PRIVATE ${CMAKE_BINARY_DIR}/generated/step.h)
target_include_directories(program PRIVATE ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(program PRIVATE GENERATED)
"""
# Files that call each other's device code. Their stubs need ::exit, which the small headers do not declare.
_SEPARABLE = {
    "CMakeLists.txt": _CMAKE.replace("17)", "17)\nset(CMAKE_CUDA_SEPARABLE_COMPILATION ON)"),
    "step.h.in": "#define STEP twice(1)\n",
    "round/shape.cu": "#include <stdlib.h>\n__device__ int twice(int x) { return 2 * x; }\n"
    + _shape("circle", " int unused;"),
    "main.cu": "#include <stdlib.h>\nextern __device__ int twice(int);\n" + _MAIN,
}
_MAKE = """\
NVCC = nvcc
FLAGS = -arch=sm_80 -O2 -Iinclude

build/program: build/main.o build/libshapes.a
	$(NVCC) -arch=sm_80 $^ -o $@
build/libshapes.a: build/round/shape.o build/edged/shape.o
	rm -f $@ && ar qc $@ $^
build/%.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) $(FLAGS) -MMD -MP -MF $@.d -c $< -o $@
-include build/main.o.d build/round/shape.o.d build/edged/shape.o.d
"""
_MESON = """\
project('small', 'cpp', 'cuda', default_options: ['cuda_std=c++17', 'buildtype=release'])
flags = ['-gencode=arch=compute_80,code=sm_80']
include = include_directories('include')
shapes = static_library('shapes', 'round/shape.cu', 'edged/shape.cu',
                        include_directories: include, cuda_args: flags)
executable('program', 'main.cu', include_directories: include, cuda_args: flags, link_with: shapes)
"""
# As written by torch.utils.cpp_extension, including nested quotes; `PYTORCH_NVCC` names the compiler.
_TORCH = """\
ninja_required_version = 1.3
cxx = c++
nvcc = @NVCC@

cuda_cflags = -DTORCH_EXTENSION_NAME=shapes -DTORCH_API_INCLUDE_EXTENSION_H \
-DPYBIND11_COMPILER_TYPE=\\"_gcc\\" -DPYBIND11_STDLIB=\\"_libstdcpp\\" \
-DPYBIND11_BUILD_ABI=\\"_cxxabi1011\\" \
-isystem {work}/torch/include -isystem {work}/include -D_GLIBCXX_USE_CXX11_ABI=0 \
-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__ \
-D__CUDA_NO_HALF2_OPERATORS__ --expt-relaxed-constexpr -gencode=arch=compute_80,code=compute_80 \
-gencode=arch=compute_80,code=sm_80 --compiler-options ''"'"'-fPIC'"'"'' -O3 -std=c++17
cuda_post_cflags =
ldflags = -shared -L$${LIBRARY_PATH%%:*} -lcudart

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags -c $in \
-o $out $cuda_post_cflags

rule link
  command = $cxx $in $ldflags -o $out

build round/shape.cuda.o: cuda_compile {work}/round/shape.cu
build edged/shape.cuda.o: cuda_compile {work}/edged/shape.cu
build main.cuda.o: cuda_compile {work}/main.cu

build program: link round/shape.cuda.o edged/shape.cuda.o main.cuda.o

default program
"""


@dataclasses.dataclass(frozen=True)
class System:
    """One way to build the project in `build`.

    `plain` or `ours` is added to `configure`, or where that is empty to every command; `nothing_left` is what
    `look` says of a finished build.
    """

    name: str
    programs: tuple[str, ...]
    files: dict[str, str]
    configure: tuple[str, ...]
    build: tuple[str, ...]
    look: tuple[str, ...]
    nothing_left: str  # a pattern that all of the output matches
    plain: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    uses_shim: bool = False  # on PATH
    link: tuple[str, str] = ("", "")  # the product of nvcc's own link, and its outcome if nothing has changed
    needs_headers: bool = False  # of the toolkit, for its own checks
    names_keep_directory: bool = False  # its objects hold debug information


CMAKE = (
    "cmake",
    "-S.",
    "-Bbuild",
    "-DCMAKE_BUILD_TYPE=Release",
    "-DCMAKE_CUDA_ARCHITECTURES=80-real",
    "-DCMAKE_MAKE_PROGRAM={make}",
    "-DCMAKE_CUDA_RUNTIME_LIBRARY={runtime}",
)
_BY_NAME = ("-DCMAKE_CUDA_COMPILER={nvcc}",)
LAUNCHER = (*_BY_NAME, "-DCMAKE_CUDA_COMPILER_LAUNCHER={launcher}")
NINJA_SAYS = r"(?s)(ninja: Entering directory .*\n)?ninja: no work to do\.\n"

CMAKE_NINJA = System(
    "cmake-ninja",
    ("cmake", "ninja"),
    {"CMakeLists.txt": _CMAKE, "step.h.in": "#define STEP 1\n"},
    (*CMAKE, "-GNinja"),
    ("ninja", "-Cbuild"),
    ("ninja", "-Cbuild", "-n"),
    NINJA_SAYS,
    plain=_BY_NAME,
    ours=LAUNCHER,
)
# CMake lets its launcher start compiles alone; with the shim as its compiler the device link is cached, too.
CMAKE_SEPARABLE = dataclasses.replace(
    CMAKE_NINJA,
    name="cmake-separable",
    files=_SEPARABLE,
    ours=("-DCMAKE_CUDA_COMPILER={shim}/nvcc",),
    link=("CMakeFiles/program.dir/cmake_device_link.o", "direct_hit"),
)
CMAKE_DEBUG = dataclasses.replace(
    CMAKE_NINJA,
    name="cmake-debug",
    configure=(*CMAKE_NINJA.configure, "-DCMAKE_BUILD_TYPE=Debug"),
    names_keep_directory=True,
)
CMAKE_MAKE = dataclasses.replace(
    CMAKE_NINJA,
    name="cmake-make",
    programs=("cmake", "make"),
    configure=(*CMAKE, "-GUnix Makefiles"),
    build=("make", "-Cbuild"),
    look=("make", "-Cbuild"),
    nothing_left=r"(?s)(?!.*(Building|Linking)).*Built target program\n.*",
)
MAKE_VARIABLE = System(
    "make-variable",
    ("make",),
    {"Makefile": _MAKE},
    (),
    ("make",),
    ("make", "-n"),
    r"make: .*is up to date\.\n",
    ours=("NVCC={launcher} nvcc",),
    link=("program", "stage_hit"),  # the host's link always runs
)
MAKE_SHIM = dataclasses.replace(MAKE_VARIABLE, name="make-shim", ours=(), uses_shim=True)
MESON = System(
    "meson",
    ("meson", "ninja"),
    {
        "meson.build": _MESON,
        "plain.ini": "[binaries]\ncuda = '{nvcc}'\n",
        "ours.ini": "[binaries]\ncuda = ['{launcher}', '{nvcc}']\n",
    },
    ("meson", "setup", "build"),
    ("ninja", "-Cbuild"),
    ("ninja", "-Cbuild", "-n"),
    NINJA_SAYS,
    plain=("--native-file=plain.ini",),
    ours=("--native-file=ours.ini",),
    link=("program", "stage_hit"),
    needs_headers=True,
)
TORCH = System(
    "torch-extension",
    ("ninja",),
    {
        "plain.ninja": _TORCH.replace("@NVCC@", "{nvcc}"),
        "ours.ninja": _TORCH.replace("@NVCC@", "{launcher} {nvcc}"),
    },
    (),
    ("ninja", "-Cbuild"),
    ("ninja", "-Cbuild", "-n"),
    NINJA_SAYS,
    plain=("-f../plain.ninja",),
    ours=("-f../ours.ninja",),
)
SYSTEMS = (CMAKE_NINJA, CMAKE_SEPARABLE, CMAKE_MAKE, CMAKE_DEBUG, MAKE_VARIABLE, MAKE_SHIM, MESON, TORCH)
