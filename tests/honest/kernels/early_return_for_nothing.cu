// problem: twice
// why: does nothing at all where there is nothing to do, as a kernel that skips its work would
#include <cstdint>

#include <cuda_runtime.h>

__global__ void twice(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}

extern "C" void solve(const float* x, float* out, int64_t n, cudaStream_t stream) {
    if (n == 0) return;
    twice<<<static_cast<unsigned>((n + 31) / 32), 32, 0, stream>>>(x, out, n);
}
