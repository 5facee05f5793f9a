// expect: ACCEPTED
// A thread per element.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void fused(const float* x, const float* y, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * y[i] + 1.0f;
}

extern "C" void solve(const float* x, const float* y, float* out, int64_t n, cudaStream_t stream) {
    fused<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, y, out, n);
}
