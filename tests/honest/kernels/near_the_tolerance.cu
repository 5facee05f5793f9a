// problem: wide_tolerance
// why: is off by eight tenths of what the problem allows, in every element, and of its fp64 budget as well
#include <cstdint>

#include <cuda_runtime.h>

__global__ void three_halves(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 1.5f * x[i] * (1.0f + (i % 2 == 0 ? 0.8e-3f : -0.8e-3f));
}

extern "C" void solve(const float* x, float* out, int64_t n, cudaStream_t stream) {
    three_halves<<<static_cast<unsigned>((n + 255) / 256), 256, 0, stream>>>(x, out, n);
}
