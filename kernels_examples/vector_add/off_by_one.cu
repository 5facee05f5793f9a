// expect: WRONG_ANSWER UNWRITTEN_OUTPUT
// The bound is one too small, so the last element is never written: one in a million, and wrong.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t last) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < last) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n - 1);
}
