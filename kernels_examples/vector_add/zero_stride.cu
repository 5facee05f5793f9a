// expect: TIME_LIMIT_EXCEEDED
// The stride is divided before it is multiplied and comes out as zero: the loop adds the same element for ever.
#include <cstdint>

#include <cuda_runtime.h>

constexpr unsigned PER_THREAD = 512;

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t stride = blockDim.x / PER_THREAD * gridDim.x * PER_THREAD;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
        c[i] = a[i] + b[i];
    }
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    add<<<64, 256, 0, stream>>>(a, b, c, n);
}
