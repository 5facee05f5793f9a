// problem: twice
// why: launches an empty grid where there is nothing to do, which CUDA answers with an error that nobody needs
#include <cstdint>

#include <cuda_runtime.h>

__global__ void twice(const float* x, float* out, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}

extern "C" void solve(const float* x, float* out, int64_t n, cudaStream_t stream) {
    twice<<<static_cast<unsigned>((n + 31) / 32), 32, 0, stream>>>(x, out, n);
    if (n == 0) cudaGetLastError();
}
