// Softmax of each row of a matrix, by blocks of NUM_WARPS warps; prints the microseconds that one run takes.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

constexpr int ROWS = 4096, COLUMNS = 8192, THREADS = 32 * NUM_WARPS;
constexpr int RUNS = 50;

#define CHECK(call)                                                     \
    do {                                                                \
        cudaError_t status = (call);                                    \
        if (status != cudaSuccess) {                                    \
            std::fprintf(stderr, "%s\n", cudaGetErrorString(status));   \
            std::exit(status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ? 3 : 1); \
        }                                                               \
    } while (false)

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Combines the values of all threads in a block; each thread gets the result.
template <typename Operation>
__device__ float reduce(float value, Operation operation) {
    __shared__ float of_warp[NUM_WARPS];
    for (int other = 16; other; other /= 2)
        value = operation(value, __shfl_xor_sync(~0u, value, other));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < NUM_WARPS; ++warp)
        value = operation(value, of_warp[warp]);
    return value;
}

__global__ void __launch_bounds__(THREADS) softmax(const float *__restrict__ from, float *__restrict__ to) {
    from += size_t(blockIdx.x) * COLUMNS;
    to += size_t(blockIdx.x) * COLUMNS;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        largest = fmaxf(largest, from[i]);
    largest = reduce(largest, Larger());
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        sum += __expf(from[i] - largest);
    sum = reduce(sum, Sum());
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS)
        to[i] = __expf(from[i] - largest) / sum;
}

int main() {
    std::vector<float> values(size_t(ROWS) * COLUMNS);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = float(i * 7919 % 1000) / 100;
    size_t bytes = values.size() * sizeof(float);
    float *from, *to;
    CHECK(cudaMalloc(&from, bytes));
    CHECK(cudaMalloc(&to, bytes));
    CHECK(cudaMemcpy(from, values.data(), bytes, cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    softmax<<<ROWS, THREADS>>>(from, to);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(begin));
    for (int run = 0; run < RUNS; ++run)
        softmax<<<ROWS, THREADS>>>(from, to);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));

    CHECK(cudaMemcpy(values.data(), to, bytes, cudaMemcpyDeviceToHost));
    for (int row = 0; row < ROWS; ++row) {
        double sum = 0;
        for (int i = 0; i < COLUMNS; ++i)
            sum += values[size_t(row) * COLUMNS + i];
        if (std::fabs(sum - 1) > 1e-3) {
            std::fprintf(stderr, "row %d adds up to %f\n", row, sum);
            return 1;
        }
    }
    std::printf("%.1f\n", milliseconds * 1000 / RUNS);
}
