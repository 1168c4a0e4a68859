// Two kernels, and the functions that PyTorch calls to launch them into its current stream.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

template <typename Number>
__global__ void scale(const Number *from, Number *to, Number factor, int64_t size) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < size)
        to[i] = from[i] * factor;
}

template <typename Number>
__global__ void add(const Number *from, Number *to, int64_t size) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < size)
        to[i] += from[i];
}

constexpr int THREADS = 256;

static unsigned blocks(const torch::Tensor &tensor) { return unsigned((tensor.numel() + THREADS - 1) / THREADS); }

void scale_into(const torch::Tensor &from, torch::Tensor to, double factor) {
    TORCH_CHECK(from.is_cuda() && from.is_contiguous() && to.is_contiguous(), "contiguous tensors on a GPU are needed");
    AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "scale_into", [&] {
        scale<<<blocks(from), THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
            from.data_ptr<scalar_t>(), to.data_ptr<scalar_t>(), scalar_t(factor), from.numel());
    });
}

void add_into(const torch::Tensor &from, torch::Tensor to) {
    TORCH_CHECK(from.is_cuda() && from.is_contiguous() && to.is_contiguous(), "contiguous tensors on a GPU are needed");
    AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "add_into", [&] {
        add<<<blocks(from), THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
            from.data_ptr<scalar_t>(), to.data_ptr<scalar_t>(), from.numel());
    });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("scale_into", &scale_into);
    module.def("add_into", &add_into);
}
