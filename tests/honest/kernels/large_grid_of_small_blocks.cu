// problem: scale_add
// why: a grid of two dimensions with a block of two threads for every two elements, far more blocks than any device holds at once
#include <cstdint>

#include <cuda_runtime.h>

__global__ void scale_add(float alpha, const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = (static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = alpha * x[i] + y[i];
}

extern "C" void solve(float alpha, const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    const auto pairs = static_cast<unsigned>((n + 1) / 2);
    scale_add<<<dim3(64, (pairs + 63) / 64), 2, 0, stream>>>(alpha, x, y, out, n);
}
