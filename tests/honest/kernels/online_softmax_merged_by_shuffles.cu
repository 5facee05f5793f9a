// problem: softmax_rows
// why: one pass keeps a running maximum and rescales its sum; lanes merge theirs by shuffles, and nothing subtracts the true maximum first
#include <cstdint>

#include <cuda_runtime.h>

#include <cmath>

struct Running {
    float top, sum;
    __device__ void merge(float other_top, float other_sum) {
        const float higher = fmaxf(top, other_top);
        if (higher == -INFINITY) return;
        sum = sum * expf(top - higher) + other_sum * expf(other_top - higher);
        top = higher;
    }
};

__global__ void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    Running mine{-INFINITY, 0.0f};
    for (int64_t j = threadIdx.x % 32; j < cols; j += 32) mine.merge(x[row * cols + j], 1.0f);
    for (int distance = 16; distance > 0; distance /= 2) {
        const float top = __shfl_xor_sync(0xffffffffu, mine.top, distance), sum = __shfl_xor_sync(0xffffffffu, mine.sum, distance);
        mine.merge(top, sum);
    }
    for (int64_t j = threadIdx.x % 32; j < cols; j += 32) y[row * cols + j] = expf(x[row * cols + j] - mine.top) / mine.sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<static_cast<unsigned>((rows + 3) / 4), 128, 0, stream>>>(x, y, rows, cols);
}
