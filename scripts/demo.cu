// The program that `nvccache demo` compiles: kernels whose templates are unrolled, as in real libraries.
// It is only compiled, so no GPU is needed.

#include <cstdio>

template <typename T, int ROWS, int COLUMNS>
struct Tile {
  T cells[ROWS][COLUMNS];

  __device__ void clear() {
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column) cells[row][column] = T(0);
  }

  __device__ void add_product(const T (&left)[ROWS], const T (&right)[COLUMNS]) {
#pragma unroll
    for (int row = 0; row < ROWS; ++row)
#pragma unroll
      for (int column = 0; column < COLUMNS; ++column) cells[row][column] += left[row] * right[column];
  }
};

// One block computes a square of the product, each of its 16 x 16 threads a tile of it.
template <typename T, int TILE, int DEPTH>
__global__ void multiply(const T* left, const T* right, T* product, int rows, int columns, int depth) {
  constexpr int SIDE = 16 * TILE;
  __shared__ T left_part[DEPTH][SIDE];
  __shared__ T right_part[DEPTH][SIDE];
  const int first_row = blockIdx.y * SIDE;
  const int first_column = blockIdx.x * SIDE;
  const int thread = threadIdx.y * 16 + threadIdx.x;
  Tile<T, TILE, TILE> tile;
  tile.clear();
  for (int start = 0; start < depth; start += DEPTH) {
    for (int cell = thread; cell < DEPTH * SIDE; cell += 256) {
      const int k = start + cell / SIDE;
      const int row = first_row + cell % SIDE;
      const int column = first_column + cell % SIDE;
      left_part[cell / SIDE][cell % SIDE] = row < rows && k < depth ? left[row * depth + k] : T(0);
      right_part[cell / SIDE][cell % SIDE] = column < columns && k < depth ? right[k * columns + column] : T(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      T from_left[TILE], from_right[TILE];
#pragma unroll
      for (int i = 0; i < TILE; ++i) {
        from_left[i] = left_part[k][threadIdx.y * TILE + i];
        from_right[i] = right_part[k][threadIdx.x * TILE + i];
      }
      tile.add_product(from_left, from_right);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TILE; ++i)
#pragma unroll
    for (int j = 0; j < TILE; ++j) {
      const int row = first_row + threadIdx.y * TILE + i;
      const int column = first_column + threadIdx.x * TILE + j;
      if (row < rows && column < columns) product[row * columns + column] = tile.cells[i][j];
    }
}

// A warp turns each row of WIDTH values into probabilities.
template <typename T, int WIDTH>
__global__ void softmax(const T* values, T* probabilities, int rows) {
  constexpr int EACH = WIDTH / 32;
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  T mine[EACH];
  T largest = values[row * WIDTH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    mine[i] = values[row * WIDTH + i * 32 + threadIdx.x];
    largest = mine[i] > largest ? mine[i] : largest;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(0xffffffff, largest, distance);
    largest = other > largest ? other : largest;
  }
  T sum = T(0);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    mine[i] = exp(mine[i] - largest);
    sum += mine[i];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
#pragma unroll
  for (int i = 0; i < EACH; ++i) probabilities[row * WIDTH + i * 32 + threadIdx.x] = mine[i] / sum;
}

// A filter of TAPS coefficients that the caller keeps in memory.
template <typename T, int TAPS>
__global__ void filter(const T* signal, const T* coefficients, T* filtered, int length) {
  const int position = blockIdx.x * blockDim.x + threadIdx.x;
  T sum = T(0);
#pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) {
    const int source = position + tap - TAPS / 2;
    if (source >= 0 && source < length) sum += coefficients[tap] * signal[source];
  }
  if (position < length) filtered[position] = sum;
}

template <typename T>
void launch(T* memory, int size) {
  const dim3 threads(16, 16);
  multiply<T, 4, 8><<<dim3(size / 64, size / 64), threads>>>(memory, memory, memory, size, size, size);
  multiply<T, 8, 8><<<dim3(size / 128, size / 128), threads>>>(memory, memory, memory, size, size, size);
  multiply<T, 8, 16><<<dim3(size / 128, size / 128), threads>>>(memory, memory, memory, size, size, size);
  softmax<T, 256><<<size / 8, dim3(32, 8)>>>(memory, memory, size);
  softmax<T, 1024><<<size / 8, dim3(32, 8)>>>(memory, memory, size);
  filter<T, 31><<<size / 256, 256>>>(memory, memory, memory, size);
  filter<T, 127><<<size / 256, 256>>>(memory, memory, memory, size);
}

int main() {
  const int size = 1024;
  float* singles = nullptr;
  double* doubles = nullptr;
  cudaMalloc(&singles, size * size * sizeof(float));
  cudaMalloc(&doubles, size * size * sizeof(double));
  launch(singles, size);
  launch(doubles, size);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
