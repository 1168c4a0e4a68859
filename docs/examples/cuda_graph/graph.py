"""Build a PyTorch extension through the cache three times, and run its two kernels as one CUDA graph.

    python graph.py [DIRECTORY]

The extension is built twice in DIRECTORY/first and once in DIRECTORY/second; by default, DIRECTORY is `build`
beside this file. Without a GPU, the extension is built and loaded, but no kernel runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS = (("first build", "first"), ("the same again", "first"), ("in another directory", "second"))


def build(directory: Path) -> float:
    """Build and load the extension in an empty directory and a new process; returns the elapsed seconds."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    before = time.perf_counter()
    subprocess.run([sys.executable, __file__, "--in", str(directory)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - before


def load(directory: Path):
    """The extension module; raises PyTorch's error if it cannot be built."""
    from torch.utils import cpp_extension

    return cpp_extension.load("two_kernels", [str(HERE / "kernels.cu")], build_directory=str(directory))


def run(directory: Path) -> None:
    """Capture both kernels in one graph, replay it on new numbers, and compare with PyTorch's results."""
    import torch

    module = load(directory)
    values, result = (torch.zeros(1 << 20, device="cuda") for _ in range(2))

    def both() -> None:
        module.scale_into(values, result, 3.0)
        module.add_into(values, result)

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        both()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        both()
    for seed in range(3):
        torch.manual_seed(seed)
        values.copy_(torch.randn_like(values))
        graph.replay()
        torch.testing.assert_close(result, values * 3.0 + values)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(1000):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    print(f"the graph is right, and takes {begin.elapsed_time(end):.1f} us on {torch.cuda.get_device_name()}")


def main() -> None:
    if sys.argv[1:2] == ["--in"]:
        load(Path(sys.argv[2]))
        return
    os.environ.setdefault("PYTORCH_NVCC", "nvccache nvcc")
    import torch

    has_gpu = torch.cuda.is_available()
    if not has_gpu:
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "build").resolve()
    for step, name in STEPS:
        print(f"{step}: {build(directory / name):.1f} s", flush=True)
    if has_gpu:
        run(directory / "second")
    else:
        print("there is no GPU: the extension was built and loaded, and nothing ran")


if __name__ == "__main__":
    main()
