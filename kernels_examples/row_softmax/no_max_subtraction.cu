// expect: WRONG_ANSWER NON_FINITE
// exp() of anything above 88.7 is infinite in float32, and infinity over infinity is not a number: subtract the row's maximum first.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

__global__ void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;
    float* out = y + row * cols;

    float sum = 0.0f;
    for (int64_t j = 0; j < cols; ++j) sum += expf(in[j]);
    for (int64_t j = 0; j < cols; ++j) out[j] = expf(in[j]) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<(rows + 63) / 64, 64, 0, stream>>>(x, y, rows, cols);
}
