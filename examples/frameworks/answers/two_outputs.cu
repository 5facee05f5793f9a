// expect: WRONG_ANSWER MISMATCH
// E[x^2] - E[x]^2 loses its digits where a row is far from zero.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void moments(const float* x, float* mean, float* variance, int64_t rows, int64_t cols) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = 0; i < cols; ++i) {
        const float value = x[row * cols + i];
        sum += value;
        squares += value * value;
    }
    mean[row] = sum / cols;
    variance[row] = squares / cols - mean[row] * mean[row];
}

extern "C" void solve(const float* x, float* mean, float* variance, int64_t rows, int64_t cols, cudaStream_t stream) {
    moments<<<static_cast<unsigned>((rows + 63) / 64), 64, 0, stream>>>(x, mean, variance, rows, cols);
}
