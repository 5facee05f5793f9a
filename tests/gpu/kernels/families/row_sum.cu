// A block takes a row: every thread adds up its own elements, then a tree in shared memory.
#include <cstdint>

#include <cuda_runtime.h>

constexpr int THREADS = 256;

__global__ void row_sum(const float* x, float* sums, int64_t cols) {
    __shared__ float part[THREADS];
    const float* row = x + static_cast<int64_t>(blockIdx.x) * cols;
    float sum = 0.0f;
    for (int64_t j = threadIdx.x; j < cols; j += THREADS) sum += row[j];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

extern "C" void solve(const float* x, float* sums, int64_t rows, int64_t cols, cudaStream_t stream) {
    row_sum<<<static_cast<unsigned>(rows), THREADS, 0, stream>>>(x, sums, cols);
}
