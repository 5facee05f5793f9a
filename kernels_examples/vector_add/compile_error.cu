// expect: COMPILE_ERROR
// A missing declaration: the compiler's log comes back with the file and the line as you wrote them.
#include <cstdint>

#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
