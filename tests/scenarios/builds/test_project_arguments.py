"""Options as well-known projects give them to nvcc: every compile is cached, and is what plain nvcc makes.

pytest --every-case tests/scenarios/builds/test_project_arguments.py    all of them, not three
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scenarios.support.toolkits import CCBIN, HOST_COMPILER, SOURCE, cuda_release
from workspaces import Counters, Workspace

GENCODE = "-gencode arch=compute_80,code=sm_80"
# Name -> options, as a shell takes them; `-x cu -c SOURCE -o OBJECT` and the like come on top.
PROJECTS = {
    "pytorch": f"""
        -forward-unknown-to-host-compiler -DAT_PER_OPERATOR_HEADERS -DFLASHATTENTION_DISABLE_ALIBI
        -D_GLIBCXX_USE_CXX11_ABI=1 -DLIBCUDACXX_ENABLE_SIMPLIFIED_COMPLEX_OPERATIONS -Xfatbin -compress-all
        -DONNX_NAMESPACE=onnx_torch {GENCODE} -Xcudafe
        --diag_suppress=cc_clobber_ignored,--diag_suppress=field_without_dll_interface,--diag_suppress=20012
        --expt-relaxed-constexpr --expt-extended-lambda -Wno-deprecated-gpu-targets -DCUDA_HAS_FP16=1
        -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -O3 -DNDEBUG -std=c++17 -Xcompiler=-fPIC
        -Xcompiler -Wall -Wextra -Wdeprecated -Wno-unused-parameter -Wno-missing-field-initializers
        -DMKL_HAS_SBGEMM -MD -MT a.o -MF a.o.d""",
    "flash-attention": f"""
        --generate-dependencies-with-compile --dependency-output a.o.d -O3 -std=c++17
        -U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ --expt-relaxed-constexpr
        --expt-extended-lambda --use_fast_math --threads 4 -lineinfo {GENCODE} --resource-usage
        --compiler-options "'-fPIC'" -DTORCH_API_INCLUDE_EXTENSION_H -DTORCH_EXTENSION_NAME=flash_attn_2_cuda
        '--ptxas-options=--verbose,--warn-on-local-memory-usage'""",
    "cutlass": """
        -forward-unknown-to-host-compiler -DCUTLASS_VERSIONS_GENERATED -O3 -DNDEBUG -std=c++17
        "--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIE
        -DCUTLASS_ENABLE_TENSOR_CORE_MMA=1 --expt-relaxed-constexpr -ftemplate-backtrace-limit=0
        -DCUTLASS_DEBUG_TRACE_LEVEL=0 -Xcompiler=-Wconversion -Xcompiler=-fno-strict-aliasing -MD -MT a.o
        -MF a.o.d""",
    "ggml": """
        -forward-unknown-to-host-compiler -DGGML_CUDA_PEER_MAX_BATCH_SIZE=128 -D_GNU_SOURCE -O3 -DNDEBUG
        -std=c++17 "--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIC -use_fast_math
        -extended-lambda -Xcompiler "-Wmissing-declarations -Wmissing-noreturn -Wall -Wextra -Wno-pedantic"
        -Xcompiler=-Wno-array-bounds,-Wno-unused-function -MD -MT a.o -MF a.o.d""",
    "nccl": f"""
        -ccbin {HOST_COMPILER} -DCUDA_MAJOR=12 -Xcompiler -fPIC,-fvisibility=hidden
        -Xcompiler -Wall,-Wno-unused-function,-Wno-sign-compare -std=c++17 -I . -O3 -g {GENCODE}
        --expt-extended-lambda -Xptxas -maxrregcount=96 -Xfatbin -compress-all -dc""",
    "kokkos": """
        -expt-extended-lambda -Wext-lambda-captures-this -arch=sm_80 -Xcudafe
        --diag_suppress=esa_on_defaulted_function_ignored -Xcompiler -fopenmp,-O2 -lineinfo
        -DKOKKOS_DEPENDENCE -std=c++17 -w""",
    "tensorrt-llm": """
        -forward-unknown-to-host-compiler -DENABLE_BF16 -DCUDA_VERSION_MAJOR=12 -t 2 -Xptxas=-v
        --expt-extended-lambda --expt-relaxed-constexpr -O3 -DNDEBUG -std=c++17
        "--generate-code=arch=compute_80,code=[sm_80,compute_80]"
        "--generate-code=arch=compute_90,code=[sm_90]" -Xcompiler=-fPIC -fno-strict-aliasing
        -U__CUDA_NO_HALF_OPERATORS__ -diag-suppress 177 -MD -MT a.o -MF a.o.d""",
    "waf": f"-O2 -arch=sm_80 -Xcompiler -fPIC -ccbin={HOST_COMPILER} -Xcompiler -pthread -odir .",
}
TIME = re.compile(rb"Compile time = [\d.]+ ms")  # ptxas tells how long it took
SINCE = {"tensorrt-llm": (11, 8), "cudf": (11, 5)}


@pytest.mark.by_default("pytorch", "kokkos")
@pytest.mark.parametrize("name", PROJECTS)
def test_a_project(workspace: Workspace, toolkit: Path, name: str, reference_directory: Path) -> None:
    if cuda_release(workspace) < SINCE.get(name, (11, 0)):
        pytest.skip("this toolkit is too old for it")
    argv = shlex.split(PROJECTS[name])
    if CCBIN and not any(word.startswith("-ccbin") for word in argv):
        argv += ["-ccbin", CCBIN]
    workspace.write("a.cu", SOURCE)
    argv += ["a.cu"] if "-dc" in argv else ["-x", "cu", "-c", "a.cu"]
    for outcome in ("miss", "direct_hit"):
        made, counters = compiled(workspace, [*argv, "-o", "a.o"], "")
        plain, _ = compiled(workspace, [*argv, "-o", "a.o"], str(reference_directory))
        assert made == plain
        assert counters.outcome == outcome


def compiled(workspace: Workspace, argv: list[str], keep: str) -> tuple[list[object], Counters]:
    """Compile through the cache, or by plain nvcc with its files in `keep`; all outputs and messages."""
    files = [workspace.directory / name for name in ("a.o", "a.o.d")]
    for path in files:
        path.unlink(missing_ok=True)
    if keep:
        result, counters = workspace.since(lambda: workspace.plain(*argv, "-keep", "-keep-dir", keep))
    else:
        result, counters = workspace.since(lambda: workspace.cached(*argv))
    assert result.status == 0, result.stderr
    contents = [path.read_bytes() if path.exists() else b"" for path in files]
    messages = TIME.sub(b"Compile time", result.stderr).splitlines()
    return [result.stdout, sorted(messages), *contents], counters  # with -t nvcc's own order is any
