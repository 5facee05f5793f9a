// expect: WRONG_ANSWER OUT_OF_BOUNDS
// The last block runs past the end of the vectors: nothing shows while n is a multiple of 256.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c);
}
