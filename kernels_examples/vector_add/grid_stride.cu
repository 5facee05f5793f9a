// expect: ACCEPTED
// A grid-stride loop is right for every length and every number of blocks.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        c[i] = a[i] + b[i];
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    const int64_t blocks = (n + 255) / 256;
    add<<<blocks < 1024 ? blocks : 1024, 256, 0, stream>>>(a, b, c, n);
}
