// A warp takes a row; butterfly shuffles give every lane the maximum and the sum.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

constexpr unsigned ALL = 0xffffffffu;
constexpr int WARPS = 4;

__global__ void softmax(const float* x, float* y, int64_t rows, int64_t cols) {
    const int lane = threadIdx.x % 32;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (row >= rows) return;  // the whole warp
    const float* in = x + row * cols;
    float* out = y + row * cols;

    float top = -INFINITY;
    for (int64_t j = lane; j < cols; j += 32) top = fmaxf(top, in[j]);
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));

    float sum = 0.0f;
    for (int64_t j = lane; j < cols; j += 32) sum += expf(in[j] - top);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(ALL, sum, offset);

    for (int64_t j = lane; j < cols; j += 32) out[j] = expf(in[j] - top) / sum;
}

extern "C" void solve(const float* x, float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
    softmax<<<static_cast<unsigned>((rows + WARPS - 1) / WARPS), 32 * WARPS, 0, stream>>>(x, y, rows, cols);
}
